"""One case on the simulated GPU beside ncu's counters, and the table of both."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from rich.table import Table

import weft
from profiled.cases import Case
from weft.device import models
from weft.measure.profile import fit

ABOUT = {
    "dram": ("dram__bytes_read.sum",),
    "l2 reads": ("lts__t_sectors_srcunit_tex_op_read.sum",),
    "hits": ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum",),
}
"""Modelled counters, which are compared by their ratio."""
SAME_AS_PTX = {
    "smsp__inst_executed.sum": "sim:ptx__inst_executed.sum",
    "smsp__thread_inst_executed.sum": "sim:ptx__thread_inst_executed.sum",
    "smsp__thread_inst_executed_pred_on.sum": "sim:ptx__thread_inst_executed_pred_on.sum",
    "smsp__sass_branch_targets.sum": "sim:ptx__branch_targets.sum",
    "smsp__sass_branch_targets_threads_divergent.sum":
        "sim:ptx__branch_targets_threads_divergent.sum",
}  # fmt: skip
EXACT = ("l1tex__t_requests_", "l1tex__t_sectors_", "l1tex__t_set_", "l1tex__t_output_",
         "l1tex__data_", "lts__t_sectors_srcunit_tex_op_write", "lts__t_sectors_srcunit_tex_op_red",
         "lts__t_sectors_srcunit_tex_op_atom")  # fmt: skip


@cache
def _module(file: Path) -> Any:
    return weft.cuda(file)


def compare(case: Case, counted: dict[str, Any]) -> dict[str, Any]:
    """Both sides of every counter, and the exact ones that differ."""
    launch = getattr(_module(case.file), case.kernel)[case.grid, case.block]
    profile = weft.profile(launch, *case.make(), gpu="h200")
    both: dict[str, tuple[float, float]] = {}
    for name, theirs in counted.items():
        mine = profile.totals.get(SAME_AS_PTX.get(name, f"sim:{name}"))
        if mine is not None:
            both[name] = (mine, theirs)
    limits = fit(profile.launch, models.get("h200")).limits
    for what, name in (("registers", "registers"), ("shared memory", "shared_mem"),
                       ("warps", "warps"), ("blocks", "blocks")):  # fmt: skip
        theirs = counted.get(f"launch__occupancy_limit_{name}")
        if theirs is not None and what in limits:
            both[f"launch__occupancy_limit_{name}"] = (limits[what], theirs)
    differ = [n for n in both if is_exact(n) and both[n][0] != both[n][1]]
    return {"name": case.kernel, "both": both, "differ": differ}


def is_exact(name: str) -> bool:
    """Is the counter one that must be equal?"""
    return name.startswith(EXACT) and "lookup" not in name


def show(rows: list[dict[str, Any]]) -> Table:
    """What is exact and differs, and how far the models are off."""
    table = Table("kernel", "exact counters", "that differ", "DRAM bytes", "L2 reads", "L1 hits")
    for row in rows:
        both = row["both"]
        exact = [n for n in both if is_exact(n)]
        differ = "\n".join(
            f"{n.removesuffix('.sum')}: {both[n][0]:.0f}, ncu {both[n][1]:.0f}"
            for n in row["differ"]
        )
        table.add_row(row["name"], str(len(exact)), differ, _dram(both),
                      *(_ratio(both, ABOUT[k][0]) for k in ("l2 reads", "hits")))  # fmt: skip
    return table


def _dram(both: dict[str, Any]) -> str:
    mine, theirs = (
        sum(both[f"dram__bytes_{op}.sum"][i] for op in ("read", "write")) for i in (0, 1)
    )
    parts = [both[f"dram__bytes_{op}.sum"] for op in ("read", "write")]
    detail = " ".join(f"{a / 1e6:.2f}/{b / 1e6:.2f}" for a, b in parts)
    return f"{mine / theirs:.2f} ({detail} MB)" if theirs else "none"


def _ratio(both: dict[str, Any], name: str) -> str:
    mine, theirs = both.get(name, (0, 0))
    return f"{mine / theirs:.2f}" if theirs else ("1.00" if not mine else f"{mine:.0f}, not 0")
