"""Reads counters of a program on a real GPU through ncu, in the sections of profiles.

ncu runs the unmodified program and prints a table. If the driver does not permit counters, the
error explains how to enable them. `simulated_counterpart` finds the simulator's value of a metric.
"""

from __future__ import annotations

import csv
import io
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace

from weft.device import driver
from weft.device.gpu import system
from weft.errors import Error, NoCounters
from weft.measure.profile.session import plain
from weft.values.analysis import Dims, KernelCounters, Metric, Section

_GLOBAL = "pipe_lsu_mem_global_op"
SECTIONS: Mapping[str, Mapping[str, str]] = {
    "GPU Speed Of Light Throughput": {
        "gpu__time_duration.sum": "Duration, measured by ncu",
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": "Memory Throughput",
        "sm__throughput.avg.pct_of_peak_sustained_elapsed": "Compute (SM) Throughput",
        "dram__throughput.avg.pct_of_peak_sustained_elapsed": "DRAM Throughput",
    },
    "Compute Workload Analysis": {
        "smsp__inst_executed.sum": "Executed SASS instructions (warps)",
        "sm__inst_executed.avg.per_cycle_active": "Executed Ipc Active",
    },
    "Memory Workload Analysis": {
        f"l1tex__t_requests_{_GLOBAL}_ld.sum": "Global loads: requests",
        f"l1tex__t_sectors_{_GLOBAL}_ld.sum": "Global loads: sectors",
        f"l1tex__t_requests_{_GLOBAL}_st.sum": "Global stores: requests",
        f"l1tex__t_sectors_{_GLOBAL}_st.sum": "Global stores: sectors",
        "l1tex__t_sector_hit_rate.pct": "L1 hit rate, stores too",
        "lts__t_sector_hit_rate.pct": "L2 hit rate",
        "dram__bytes_read.sum": "DRAM bytes read",
        "dram__bytes_write.sum": "DRAM bytes written",
        "memory_l1_wavefronts_shared": "Shared memory: wavefronts",
        "memory_l1_wavefronts_shared_ideal": "Shared memory: ideal",
    },
    "Launch Statistics": {
        "launch__registers_per_thread": "Registers Per Thread",
        "launch__waves_per_multiprocessor": "Waves Per SM",
    },
    "Occupancy": {
        "sm__maximum_warps_per_active_cycle_pct": "Theoretical Occupancy",
        "sm__warps_active.avg.pct_of_peak_sustained_active": "Achieved Occupancy",
    },
    "Source Counters": {
        "smsp__sass_branch_targets.sum": "Branch Instructions",
        "smsp__sass_branch_targets_threads_divergent.sum": "Divergent Branches",
        "smsp__thread_inst_executed_per_inst_executed.ratio": "Active Threads Per Warp",
    },
}
_UNITS = {"nsecond": ("s", 1e-9), "ns": ("s", 1e-9), "second": ("s", 1.0), "byte": ("byte", 1.0),
          "%": ("%", 1.0)}  # fmt: skip


_REFUSAL = "ERR_NVGPUCTRPERM"
_SUMS = (".sum", "memory_l1_wavefronts_shared", "memory_l1_wavefronts_shared_ideal")
"""Suffixes of counters that are summed over launches; others are averaged."""


def counters(
    program: Sequence[str], kernel: str | None, launch: int | None
) -> list[KernelCounters]:
    """Run a program under ncu; raise NoCounters without ncu or without permission."""
    command = [tool(), *_options(kernel, launch), *program]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    if _REFUSAL in done.stdout + done.stderr:
        raise _refused(f"the driver answered {_REFUSAL}", system.counters().fix)
    if done.returncode:
        raise Error(
            "the program failed under ncu", got=(done.stdout[-1000:] + done.stderr[-1000:]).strip()
        )
    return merge_launches(read(done.stdout))


def tool() -> str:
    """The path of ncu; raises NoCounters if the GPU's counters cannot be read."""
    path = shutil.which("ncu")
    if path is None:
        raise NoCounters(
            "ncu is not on PATH",
            got="" if driver.count() else "nor is there a GPU",
            next="NVIDIA Nsight Compute has it",
        )
    if not driver.count():
        raise NoCounters("there is no GPU to count on", got=driver.absence())
    allowed, why, fix = system.counters()
    if fix and not allowed:  # if the permission is unknown, ncu will report it
        raise _refused(why.removeprefix("no: "), fix)
    return path


def _refused(why: str, fix: str) -> NoCounters:
    return NoCounters(
        "the GPU's counters may not be read", got=why, next=fix or "ask the administrator"
    )


def _options(kernel: str | None, launch: int | None) -> list[str]:
    ids = [name for section in SECTIONS.values() for name in section]
    return [
        # Base clocks would not be comparable with a run outside of ncu.
        "--clock-control", "none", "--csv", "--page", "raw", "--print-units", "base",
        "--metrics", ",".join(ids),
        *(["--kernel-name", kernel] if kernel else []),
        *(["--launch-skip", str(launch), "--launch-count", "1"] if launch is not None else []),
    ]  # fmt: skip


def read(text: str) -> list[KernelCounters]:
    """Parse ncu's table, which follows the output of the program."""
    start = text.find('"ID"')
    if start < 0:
        return []
    rows = list(csv.DictReader(io.StringIO(text[start:])))
    units = rows.pop(0) if rows else {}
    return [
        KernelCounters(
            _name(row["Kernel Name"]),
            _dims(row["Grid Size"]),
            _dims(row["Block Size"]),
            tuple(_sections(row, units)),
        )
        for row in rows
    ]


def merge_launches(launches: Sequence[KernelCounters]) -> list[KernelCounters]:
    """Merge launches of one kernel and shape, in the order of first launches."""
    groups: dict[tuple[str, Dims, Dims], list[KernelCounters]] = {}
    for launch in launches:
        groups.setdefault((launch.kernel, launch.grid, launch.block), []).append(launch)
    return [_merged(group) for group in groups.values()]


def _merged(group: Sequence[KernelCounters]) -> KernelCounters:
    """Sum counters; average rates and durations."""
    sections = tuple(
        replace(same[0], metrics=tuple(map(_all, zip(*(s.metrics for s in same), strict=True))))
        for same in zip(*(one.sections for one in group), strict=True)
    )
    return replace(group[0], sections=sections, launches=len(group))


def _all(same: Sequence[Metric]) -> Metric:
    values = [m.value for m in same if not isinstance(m.value, str)]
    if len(values) < len(same):
        return same[0]
    adds = same[0].id.endswith(_SUMS) and same[0].unit != "s"
    return replace(same[0], value=sum(values) / (1 if adds else len(values)))


def _name(text: str) -> str:
    """`void saxpy<float>(const float *)` as `saxpy<float>`."""
    plain = text.replace("(anonymous namespace)::", "")
    return plain.split("(")[0].removeprefix("void ").strip()


def _dims(text: str) -> Dims:
    x, y, z = (int(n) for n in re.findall(r"\d+", text))
    return x, y, z


def _sections(row: Mapping[str, str], units: Mapping[str, str]) -> list[Section]:
    out = []
    for name, wanted in SECTIONS.items():
        metrics = tuple(
            _metric(id, label, row[id], units.get(id, ""))
            for id, label in wanted.items()
            if row.get(id)
        )
        if metrics:
            out.append(Section(name, metrics))
    return out


def _metric(id: str, label: str, text: str, unit: str) -> Metric:
    try:
        number = float(text.replace(",", ""))
    except ValueError:  # "n/a" if the GPU lacks this counter
        return Metric(id, label, text)
    shown, scale = _UNITS.get(unit, ("", 1.0))
    return Metric(id, label, number * scale, shown)


def same_launch(c: KernelCounters, kernel: str, grid: Dims, block: Dims) -> bool:
    """True for the same kernel and shape; template arguments are ignored, as spellings differ."""
    return (plain(c.kernel), c.grid, c.block) == (plain(kernel), grid, block)
