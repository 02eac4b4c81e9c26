"""Counts the cases with ncu, which runs this file: it launches them one after another."""

from __future__ import annotations

import csv
import io
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[1])

import weft
from profiled.cases import GROUPS
from profiled.launches import arguments, launch

METRICS = [
    *(
        f"l1tex__t_{stage}_pipe_lsu_mem_global_op_{op}.sum"
        for op in ("ld", "st", "atom", "red")
        for stage in ("requests", "sectors", "set_accesses", "output_wavefronts")
    ),
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum",
    *(f"l1tex__t_sectors_pipe_lsu_mem_local_op_{op}.sum" for op in ("ld", "st")),
    *(
        f"l1tex__data_{what}_mem_shared_op_{op}.sum"
        for op in ("ld", "st", "atom")
        for what in ("pipe_lsu_wavefronts", "bank_conflicts_pipe_lsu")
    ),
    *(f"lts__t_sectors_srcunit_tex_op_{op}.sum" for op in ("read", "write", "atom", "red")),
    "memory_l1_wavefronts_shared",
    "memory_l1_wavefronts_shared_ideal",
    "l1tex__m_xbar2l1tex_read_sectors.sum",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "smsp__inst_executed.sum",
    "smsp__thread_inst_executed.sum",
    "smsp__thread_inst_executed_pred_on.sum",
    "smsp__sass_branch_targets.sum",
    "smsp__sass_branch_targets_threads_divergent.sum",
    "launch__registers_per_thread",
    "launch__occupancy_limit_registers",
    "launch__occupancy_limit_shared_mem",
    "launch__occupancy_limit_warps",
    "launch__occupancy_limit_blocks",
]
UNITS = {"byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}


HOPPER = re.compile("tma|dshared|multicast|gmma|barrier|ops_path_tensor|srcunit_tex_op")
"""Counters of what only Hopper has, by a part of their names: all that ncu knows are taken."""
_COUNTER = re.compile(r"^(\w+__\w+)\s+Counter\b", re.MULTILINE)


def metrics_of(groups: Sequence[str]) -> list[str]:
    """The metrics of these groups."""
    if "hopper" not in groups:
        return METRICS
    listed = _run(["ncu", "--query-metrics"])
    found = [f"{name}.sum" for name in _COUNTER.findall(listed) if HOPPER.search(name)]
    if not found:
        raise SystemExit(f"ncu lists no counters of Hopper: {listed[:2000]}")
    return [*METRICS, *(name for name in sorted(set(found)) if name not in METRICS)]


def measure(groups: Sequence[str]) -> list[dict[str, Any]]:
    """One row of metrics a case of these groups, in their order."""
    metrics = metrics_of(groups)
    options = ["--clock-control", "none", "--csv", "--page", "raw", "--print-units", "base"]
    launches = [sys.executable, __file__, *groups]
    text = _run(["ncu", *options, "--metrics", ",".join(metrics), *launches])
    rows = list(csv.DictReader(io.StringIO(text[text.index('"ID"') :])))
    units = rows.pop(0)
    cases = [case for name in groups for case in GROUPS[name]]
    for row, case in zip(rows, cases, strict=True):
        assert case.kernel in row["Kernel Name"], f"{case.title}: ncu has {row['Kernel Name']}"
    return [
        {m: _number(row[m], units[m]) for m in metrics if _is_number(row.get(m))}
        | {"name": case.title}
        for row, case in zip(rows, cases, strict=True)
    ]


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    if done.returncode:
        raise SystemExit(done.stdout[-3000:] + done.stderr[-3000:])
    return done.stdout


def _is_number(text: str | None) -> bool:
    """Return False for a metric that this GPU does not count."""
    return bool(text) and text[0].isdigit()


def _number(text: str, unit: str) -> float:
    return float(text.replace(",", "")) * UNITS.get(unit, 1.0)


def launch_all(groups: Sequence[str]) -> None:
    """Every case once, on the GPU."""
    import cupy

    for case in (case for name in groups for case in GROUPS[name]):
        launch(case)(*arguments(case, cupy.asarray))
        weft.synchronize()


if __name__ == "__main__":
    launch_all(sys.argv[1:])
