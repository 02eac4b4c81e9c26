"""Why a result of the two devices differs, where it does."""

from __future__ import annotations

import re
from typing import Any

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
FOLDED = "ptxas computes an approximate function of a constant itself, more precisely than the GPU"
LOST = "ptxas folds a `neg` into `cvt.rzi` from f16 and loses the rounding: a bug of ptxas"
UNKNOWN = "not explained yet"


def cause(kind: str, x: Finding) -> str:
    """The reason for one finding that is not exact."""
    if "skipped" in x:
        return str(x["skipped"])
    if "simulator" in x:
        return f"not covered by the simulator: {x['simulator'].split(': ', 1)[-1]}"
    if kind == "kernels":
        return KERNELS.get(x["name"], UNKNOWN)
    if kind == "programs" and x["name"].startswith("chain"):
        return chain(x["text"], x["example"])
    return UNKNOWN


def chain(text: str, example: Finding) -> str:
    """By the first instruction of a chain whose result differs."""
    line = defined(text, f"%v{example['places'][0] // 64}")
    opcode, sources = line.split(" ", 1)[0], re.findall(r"%v\d+", line.split(",", 1)[-1])
    if ".approx" in opcode and not sources:
        return FOLDED
    if opcode.startswith("cvt.rzi") and any("neg" in defined(text, s) for s in sources):
        return LOST
    return f"{UNKNOWN}: `{opcode}`"


def defined(text: str, register: str) -> str:
    """The instruction that writes a register, which only one does."""
    pattern = re.compile(rf"^[a-z]\S* (?:%v\d+\|)?{register}[,|].*$", re.MULTILINE)
    found = pattern.search(text)
    return found[0] if found else ""
