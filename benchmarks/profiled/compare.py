"""One case on the simulated GPU beside ncu's counters, and the table of both."""

from __future__ import annotations

from typing import Any

from rich.table import Table

import weft
from profiled.case import Case
from profiled.exact import is_exact
from profiled.launches import arguments, launch
from weft.device import models
from weft.measure.profile.profile import fit

MISSES = "l1tex__m_xbar2l1tex_read_sectors.sum"
SAME_AS_PTX = {
    "smsp__inst_executed.sum": "sim:ptx__inst_executed.sum",
    "smsp__thread_inst_executed.sum": "sim:ptx__thread_inst_executed.sum",
    "smsp__thread_inst_executed_pred_on.sum": "sim:ptx__thread_inst_executed_pred_on.sum",
    "smsp__sass_branch_targets.sum": "sim:ptx__branch_targets.sum",
    "smsp__sass_branch_targets_threads_divergent.sum":
        "sim:ptx__branch_targets_threads_divergent.sum",
}  # fmt: skip


def compare(case: Case, counted: dict[str, Any]) -> dict[str, Any]:
    """Both sides of every counter, and the exact ones that differ."""
    given = arguments(case, lambda array: array)
    profile = weft.profile(launch(case), *given, device="sim:h200")
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
    return {"name": case.title, "both": both, "differ": differ, "marks": _marks(profile)}


def _marks(profile: weft.Profile) -> list[str]:
    """The properties of a kernel that make counters differ: copies past L1, waits for blocks."""
    ran = [i.opcode.split(".") for i in profile.instructions if i.executions]
    found = {
        "cp.async.cg": any(p[:3] == ["cp", "async", "cg"] for p in ran),
        "waits": any(p[0] == "ld" and {"volatile", "acquire", "relaxed"} & set(p) for p in ran),
    }
    return [mark for mark, does in found.items() if does]


def show(rows: list[dict[str, Any]]) -> Table:
    """The table of exact counters that differ, and of the errors of the models."""
    table = Table("kernel", "equal", "differ: simulated, ncu", "DRAM bytes", "L1 misses", "lanes")
    for row in rows:
        both, differ = row["both"], row["differ"]
        equal = sum(is_exact(n) for n in both) - len(differ)
        told = "\n".join(
            f"{n.removesuffix('.sum')}: {both[n][0]:.0f}, {both[n][1]:.0f}" for n in differ
        )
        table.add_row(
            row["name"], str(equal), told, _shown(dram(both)), _shown(both[MISSES]), lanes(both)
        )
    return table


def dram(both: dict[str, Any]) -> tuple[float, float]:
    """Bytes to and from memory: the model's and ncu's."""
    pairs = [both[f"dram__bytes_{op}.sum"] for op in ("read", "write")]
    return sum(a for a, _ in pairs), sum(b for _, b in pairs)


def lanes(both: dict[str, Any]) -> str:
    """Active lanes of an instruction, on average."""
    threads, times = both["smsp__thread_inst_executed.sum"], both["smsp__inst_executed.sum"]
    return ", ".join(f"{t / n:.1f}" for t, n in zip(threads, times, strict=True))


def _shown(pair: tuple[float, float]) -> str:
    mine, theirs = pair
    ratio = f" = {mine / theirs:.2f}" if theirs else ""
    return f"{mine:.0f} / {theirs:.0f}{ratio}"
