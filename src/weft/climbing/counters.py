"""Computes the counters of a rung and verifies its `expect` lines."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from weft.errors import ArgumentError, CheckFailed
from weft.measure import Profile
from weft.values.profile import Access

_Pick = Callable[[Access], bool]


def _of(space: str, *kinds: str) -> _Pick:
    return lambda a: a.space == space and a.kind in kinds


_LOADS = _of("global", "load", "copy", "fragment load")
_STORES = _of("global", "store", "fragment store")
_READS = _of("global", "load", "copy", "fragment load", "bulk load")
_ATOMICS = _of("global", "atomic", "reduction")
_SHARED_LOADS = _of("shared", "load", "matrix load", "fragment load")
_SHARED_STORES = _of("shared", "store", "matrix store", "fragment store")
_SHARED_ATOMICS = _of("shared", "atomic", "reduction")


@dataclass(frozen=True)
class Fact:
    """A counter of memory accesses: a sum, per request, per result of the kernel, or whole.

    pick    the accesses that it sums
    above   the field of `Access` that is summed
    below   the field that the sum is divided by; "results" for the number of results, "" for none
    """

    pick: _Pick
    above: str
    below: str = ""

    def value(self, accesses: Iterable[Access], results: int = 1) -> float:
        """The counter over some accesses; 0 if there is none."""
        picked = [a for a in accesses if self.pick(a)]
        total = float(sum(getattr(a, self.above) for a in picked))
        if self.below == "results":
            return total / max(1, results)
        if self.below:
            count = sum(getattr(a, self.below) for a in picked)
            return total / count if count else 0.0
        return total


FACTS: Mapping[str, Fact] = {
    "load sectors per request": Fact(_LOADS, "sectors", "requests"),
    "store sectors per request": Fact(_STORES, "sectors", "requests"),
    "bytes read per result": Fact(_READS, "bytes", "results"),
    "global atomics per input": Fact(_ATOMICS, "threads", "results"),
    "shared load wavefronts per request": Fact(_SHARED_LOADS, "wavefronts", "requests"),
    "shared store wavefronts per request": Fact(_SHARED_STORES, "wavefronts", "requests"),
    "shared atomic wavefronts per request": Fact(_SHARED_ATOMICS, "wavefronts", "requests"),
    "shared bank conflicts": Fact(lambda a: True, "conflicts"),
}
"""Counters for `expect` lines; `facts` adds those that do not depend on accesses."""

_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    # Headers state rounded numbers.
    "=": lambda a, b: abs(a - b) <= 0.005 * max(1.0, abs(b)),
}
_EXPECT = re.compile(r"(.+?)\s*(<=|>=|<|>|=)\s*([\d.]+)$")


def facts(profiles: Iterable[Profile], results: int) -> dict[str, float]:
    """The counters over all launches; `results` is the number of outputs, or inputs of a fold."""
    # An iterator would be empty after the first pass.
    every = tuple(profiles)
    accesses = [a for p in every for i in p.instructions for a in i.accesses]
    out = {name: fact.value(accesses, results) for name, fact in FACTS.items()}
    branches = sum(line.branches for p in every for line in p.lines)
    out["branch divergence"] = sum(i.diverged for p in every for i in p.instructions) / max(
        1, branches
    )
    out["instructions"] = float(sum(i.executions for p in every for i in p.instructions))
    return out


def holds(where: str, text: str, facts: Mapping[str, float]) -> bool:
    """Return True if the counters meet one expectation, e.g. "load sectors per request <= 4"."""
    match = _EXPECT.match(text)
    if match is None or match[1] not in facts:
        raise ArgumentError(
            "an expectation cannot be read",
            where=where,
            got=text,
            allowed=f"a fact, a comparison, a number; facts are {', '.join(facts)}",
        )
    return _OPERATORS[match[2]](facts[match[1]], float(match[3]))


def fact_of(text: str) -> str:
    """The name of the counter in an expectation."""
    match = _EXPECT.match(text)
    return match[1] if match else text


def verify(where: str, expected: Sequence[str], facts: Mapping[str, float]) -> None:
    """Raise CheckFailed for the first expectation that the counters do not meet."""
    for text in expected:
        if not holds(where, text, facts):
            name = fact_of(text)
            raise CheckFailed(
                "a rung does not do what its header says",
                where=where,
                got=f"{name} {facts[name]:.4g}",
                allowed=text,
                next="fix the kernel, or change its header",
            )
