"""ncu's counters of a program on a real GPU, in the sections that profiles have.

ncu runs the program as it is and prints a table; where the driver does not let it count, the error
says who can change that.
"""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.device.gpu import system
from weft.errors import Error, MissingDependency
from weft.measure.sections import Metric, Section

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
        "l1tex__t_sector_hit_rate.pct": "L1 hit rate",
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


@dataclass(frozen=True)
class Counted:
    """One launch, as ncu saw it."""

    kernel: str
    grid: str
    block: str
    sections: tuple[Section, ...]


def counters(program: Sequence[str], kernel: str | None, launch: int | None) -> list[Counted]:
    """Runs a program under ncu; raises where ncu or the permission is missing."""
    tool = shutil.which("ncu")
    if tool is None:
        raise MissingDependency(
            "ncu is not on PATH",
            next="install NVIDIA Nsight Compute, or leave --device gpu out: the simulator counts",
        )
    allowed, why, mend = system.counters()
    if not allowed:
        raise Error(
            "the GPU's counters may not be read",
            got=why,
            next=f"{mend or 'ask the administrator'}; without --device gpu the simulator counts",
        )
    command = [tool, *_options(kernel, launch), *program]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Error("ncu failed", got=(done.stdout[-1000:] + done.stderr[-1000:]).strip())
    return read(done.stdout)


def _options(kernel: str | None, launch: int | None) -> list[str]:
    ids = [name for section in SECTIONS.values() for name in section]
    return [
        "--clock-control", "none", "--csv", "--page", "raw", "--print-units", "base",
        "--metrics", ",".join(ids),
        *(["--kernel-name", kernel] if kernel else []),
        *(["--launch-skip", str(launch), "--launch-count", "1"] if launch is not None else []),
    ]  # fmt: skip


def read(text: str) -> list[Counted]:
    """The launches of ncu's table, which follows whatever the program has printed."""
    start = text.find('"ID"')
    if start < 0:
        return []
    rows = list(csv.DictReader(io.StringIO(text[start:])))
    units = rows.pop(0) if rows else {}
    return [
        Counted(
            row["Kernel Name"].split("(")[0], row["Grid Size"], row["Block Size"],
            tuple(_sections(row, units)),
        )
        for row in rows
    ]  # fmt: skip


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
    except ValueError:  # "n/a" where a GPU has no such counter
        return Metric(id, label, text)
    shown, scale = _UNITS.get(unit, ("", 1.0))
    return Metric(id, label, number * scale, shown)
