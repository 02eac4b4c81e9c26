"""Finds the peak of allocated memory in a log, and who holds it at that moment."""

from __future__ import annotations

from collections.abc import Sequence

from weft.measure.layers.layers import LayerNames
from weft.values.layers import Holding, PeakMemory
from weft.values.model import BACKWARD, OPTIMIZER, Allocation, MemoryLog

ACTIVATIONS = "activations"
_TEMPORARY = {
    BACKWARD: "temporaries of the backward pass",
    OPTIMIZER: "temporaries of the optimizer",
}
OUTSIDE = "tensors made outside of modules"


def peak(log: MemoryLog, names: LayerNames, allocated: int) -> PeakMemory:
    """The peak of a script; `allocated` is the peak that the allocator reports."""
    live, last = _live_at_peak(log)
    found: dict[tuple[str, str], list[int]] = {}
    for number in live:
        one = log.allocations[number]
        role = _role(one)
        # Whole roles have one owner; results are held by the layers that made them.
        owner = "" if one.role else names.of(one.place)
        found.setdefault((role, owner), []).append(one.bytes)
    holdings = [Holding(*key, sum(of), len(of)) for key, of in found.items()]
    tensors = sum(h.bytes for h in holdings)
    ordered = tuple(sorted(holdings, key=lambda h: -h.bytes))
    return PeakMemory(max(allocated, tensors), last, ordered, max(0, allocated - tensors))


def _live_at_peak(log: MemoryLog) -> tuple[Sequence[int], str]:
    """The numbers of the allocations at the peak, and the place of the last one."""
    now, most, at = 0, 0, 0
    for index, number in enumerate(log.order, 1):
        size = log.allocations[abs(number)].bytes
        now += size if number > 0 else -size
        if now > most:
            most, at = now, index
    live: dict[int, None] = {}
    for number in log.order[:at]:
        if number > 0:
            live[number] = None
        else:
            live.pop(-number, None)
    if not at:
        return (), ""
    last = log.allocations[log.order[at - 1]].place
    words = [last.module or last.line, f"({last.node})" if last.node else ""]
    return tuple(live), " ".join(word for word in words if word)


def _role(one: Allocation) -> str:
    if one.role:
        return one.role
    if one.phase in _TEMPORARY:
        return _TEMPORARY[one.phase]
    return ACTIVATIONS if one.place.module else OUTSIDE


def held(memory: PeakMemory) -> dict[str, int]:
    """Bytes of activations by row."""
    return {h.owner: h.bytes for h in memory.holdings if h.role == ACTIVATIONS}
