"""Divides the time of a launch's warps among source lines and stall reasons, in ncu's names.

A warp issues, or it waits for operands of its own (`chain`), or for a unit that others use. The
last part is what is left of the predicted time. It goes to the lines that use the busiest unit, or
where latency decides to the waits for operands.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping

from weft.measure.profile import floor
from weft.measure.profile.latency import needed, slots_of
from weft.measure.profile.prediction.chain import LONG, SELECTED, WAIT, Chain
from weft.measure.profile.prediction.demand import PARTIAL, lookups
from weft.values.profile import Instruction, Profile
from weft.values.time.prediction import LineStalls

Place = tuple[str, int, str]

_REASONS: Mapping[str, str] = {
    "DRAM": LONG,
    "L2": LONG,
    "atomics": LONG,
    PARTIAL: LONG,
    "L1 and shared memory": "mio throttle",
    "L1 tags": "lg throttle",
    "instructions": "not selected",
    "latency": WAIT,
}
"""Unit -> the reason for which a warp waits while others use it; else a pipe is busy."""
PIPE = "math pipe throttle"
LEAST = 0.001
"""The least part of the time of a line that is listed."""


def stalls(p: Profile, chain: Chain, busiest: str, warp_clocks: float) -> tuple[LineStalls, ...]:
    """The lines of a launch, the one with most warp time first."""
    once, times = 1.0 / p.launches, needed(p)
    found: dict[Place, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    places = {i.index: _place(i) for i in p.instructions}
    for i in p.instructions:
        if i.executions:
            found[places[i.index]][SELECTED] += once * times[i.index] * slots_of(i.opcode)
    for (index, reason), clocks in chain.stalls.items():
        found[places[index]][reason] += once * clocks
    known = sum(sum(reasons.values()) for reasons in found.values())
    rest = max(0.0, warp_clocks - known)
    shares = _shares(p, chain, busiest)
    total = sum(shares.values())
    for (index, reason), amount in shares.items():
        if amount:
            found[places[index]][reason] += rest * amount / total
    whole = sum(sum(reasons.values()) for reasons in found.values())
    lines = [_line(place, reasons, whole) for place, reasons in found.items() if whole]
    return tuple(sorted((x for x in lines if x.share >= LEAST), key=lambda x: -x.share))


def _shares(p: Profile, chain: Chain, busiest: str) -> Mapping[tuple[int, str], float]:
    """(instruction, reason) -> its share of the time that warps wait for the busiest unit."""
    if busiest == "latency" and chain.stalls:
        return chain.stalls  # the same waits, longer than in an idle GPU
    reason, use = _REASONS.get(busiest, PIPE), _use(busiest)
    return {(i.index, reason): use(i) for i in p.instructions if i.executions}


def _place(i: Instruction) -> Place:
    if i.line is None:
        return "", 0, ""
    own = i.line.own
    return own.file, own.line, own.quote


def _line(place: Place, reasons: Mapping[str, float], whole: float) -> LineStalls:
    ordered = sorted(reasons.items(), key=lambda pair: -pair[1])
    parts = {name: clocks / whole for name, clocks in ordered if clocks}
    return LineStalls(*place, sum(parts.values()), parts)


def _use(unit: str) -> Callable[[Instruction], float]:
    """Return a measure of the use of a unit by an instruction."""
    if unit in ("DRAM", "L2", PARTIAL, "atomics"):
        far = ("global", "local")
        return lambda i: sum(floor.l2_sectors(a) for a in i.accesses if a.space in far)
    if unit == "L1 and shared memory":
        return lambda i: sum(floor.lsu_steps(a) for a in i.accesses)
    if unit == "L1 tags":
        return lambda i: sum(lookups(a) for a in i.accesses if a.space == "global")
    if unit in ("instructions", "latency"):
        return lambda i: float(i.executions)
    return lambda i: float(i.executions) if floor.named(i.work[0]) == unit else 0.0
