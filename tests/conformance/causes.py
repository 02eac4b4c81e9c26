"""Causes of the differences between results of the two devices."""

from __future__ import annotations

from typing import Any

from conformance import mistakes

Finding = dict[str, Any]
PROGRAMS = {
    "chain": "straight lines of 30 instructions drawn from all lane-wise forms",
    "graph": "arbitrary control-flow graphs, irreducible ones too",
    "tree": "nested loops and branches, shared memory between barriers",
    "straight": "long blocks of address-like arithmetic",
    "warp": "branches and loops with shuffles, votes, reductions and global atomics between",
}
ORDER = "the order in which atomics are served decides: floats are summed, or places handed out"
KERNELS = {
    "places": "stores %warpid, which on a GPU is the slot that a warp happens to run in",
    "reduce": ORDER, "atomic": ORDER, "atomic_each": ORDER, "tiles": ORDER, "compact": ORDER,
    "bfs_level": ORDER,
}  # fmt: skip
"""Kernels whose results a GPU does not repeat either."""
UNKNOWN = "not explained yet"


def cause(kind: str, x: Finding) -> str:
    """The reason for one finding that is not exact."""
    if "skipped" in x:
        return str(x["skipped"])
    if "simulator" in x:
        return f"not covered by the simulator: {x['simulator'].split(': ', 1)[-1]}"
    if kind == "kernels":
        return KERNELS.get(x["name"], UNKNOWN)
    return mistakes.cause(x) or UNKNOWN
