"""Why a result of the two devices differs, where it does."""

from __future__ import annotations

import re
from collections.abc import Callable
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
FLOWS = (
    "an optimisation of ptxas: a third, thread-by-thread interpreter agrees with the simulator "
    "(where it was looked into: a product with a constant, shifted by 64 or more)"
)
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
    return FLOWS if x["name"].startswith(("straight", "graph", "tree")) else UNKNOWN


def chain(text: str, example: Finding) -> str:
    """By the first instruction of a chain whose result differs."""
    line = defined(text, f"%v{example['places'][0] // 64}")
    return next((why for why, test in CHAINS.items() if test(text, line)), UNKNOWN)


def defined(text: str, register: str) -> str:
    """The instruction that writes a register, which only one does."""
    pattern = re.compile(rf"^[a-z]\S* (?:%v\d+\|)?{register}[,|].*$", re.MULTILINE)
    found = pattern.search(text)
    return found[0] if found else ""


def _sources(line: str) -> list[str]:
    return re.findall(r"%\w+", line.split(",", 1)[-1])


def _constant(text: str, line: str) -> bool:
    """Does it depend on constants alone?"""
    loads = line.startswith("ld") or not line
    return not loads and all(_constant(text, defined(text, r)) for r in _sources(line))


def _from(text: str, line: str, pattern: str, first: int = 0) -> bool:
    """Was one of its sources, after so many, written by an instruction like this?"""
    return any(re.match(pattern, defined(text, r)) for r in _sources(line)[first:])


CHAINS: dict[str, Callable[[str, str], bool]] = {
    "ptxas computes what depends on constants alone, approximate functions more precisely than the "
    "GPU, and NaNs with other bits": _constant,
    "ptxas computes the reciprocal of a constant divisor, more precisely than the GPU":
        lambda text, line: re.match(r"div\.(full|approx).*, 0f\w+;", line) is not None,
    "ptxas converts a shift amount or a bit position that an f32 instruction computed to an "
    "integer first: a bug of ptxas": lambda text, line: (
        line.startswith(("shl", "shr", "bfe")) and _from(text, line, r"\S+\.f32[. ]", 1)
    ),
    "ptxas keeps only the low bits of a constant amount of a 16-bit shift": lambda text, line: (
        re.match(r"sh[lr]\.\w16 .*, \d{3,};", line) is not None
    ),
    "ptxas drops `min(x, x)` and `max(x, x)`, which make a NaN canonical": lambda text, line: (
        re.match(r"(min|max)\S* \S+, (\S+), \2;", line) is not None
    ),
    "ptxas folds a `neg` into `cvt.rzi` from f16 and loses the rounding: a bug of ptxas":
        lambda text, line: line.startswith("cvt.rzi") and _from(text, line, "neg"),
    "ptxas takes `abs` for positive, which it is not for the least integer": lambda text, line: (
        _from(text, line, r"abs\.s")
    ),
    "ptxas takes a saturated f32 for positive, also where its bits are read as two halves: a bug "
    "of ptxas": lambda text, line: line.startswith("abs") and _from(text, line, r"\S+\.sat\.f32"),
    "ptxas drops a double `neg`, which makes a NaN quiet": lambda text, line: (
        line.startswith("neg") and _from(text, line, "neg")
    ),
}  # fmt: skip
"""Why a chain differs -> does this instruction of it say so?"""
