"""Gives each event of a block a clock of the model: what waits for what, and which units are busy.

The warp that is furthest behind goes on. It takes some clocks for each instruction. The copy engine
of an SM moves one copy after the other, and each arrives some time later; products follow one
another on the tensor cores. A warp that waits goes on when all that it waits for has happened.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from weft.device.sim.layout import CLUSTER_SHIFT
from weft.device.sim.tools.counters.stages.layout import EventKind, StageEvent
from weft.measure.profile.stages.trace import Meeting, Phase, Resolved, Trace, Warp, moved

CLOCKS = 2
"""Clocks of an instruction, until the next one of its warp."""
COPY_CLOCKS = 360
"""Clocks until a bulk copy arrives from L2, beyond the time for its bytes."""
ALONE, SHARED = 106, 30
"""Bytes a clock that copies bring to an SM from L2: to one SM, and to each of all SMs."""
PIECE_CLOCKS = 287
"""Clocks until `cp.async` arrives from L2."""
PEER_CLOCKS = 194
"""Clocks until another block of the cluster sees an arrival.

These numbers were measured on an H200 (benchmarks/copy_clocks.py, memory_levels.py)."""
QUARTERS = 4
"""An SM has four tensor cores; a warp uses one of them."""


def copy_rate(blocks: int, sms: int) -> float:
    """Bytes a clock that copies bring to an SM while so many blocks run on so many SMs."""
    return min(ALONE, SHARED * sms / max(1, min(blocks, sms)))


@dataclass
class Use:
    """A use of a stage: clocks of its events, and their instructions."""

    issued: float
    copy: int
    nbytes: int = 0
    opened: float | None = None
    wait: int | None = None
    consumed: float | None = None
    read: int | None = None
    released: float | None = None
    release: int | None = None


@dataclass
class _Products:
    """Products of a warp: when each closed group ends, and the open one."""

    closed: list[float] = field(default_factory=list)
    open: float = 0.0


class Clocks:
    """One run of the model.

    now     the clock of each warp
    ends    when each phase of an mbarrier has ended, and each meeting at a barrier
    uses    phases with copies
    tensor, copies   (rank, start, end) of what the units have done
    """

    def __init__(
        self, trace: Trace, pending: Mapping[int, int], products: Mapping[int, float], rate: float
    ) -> None:
        self._trace, self._pending, self._products = trace, pending, products
        self._rate = rate
        self.now: dict[Warp, float] = dict.fromkeys(trace.warps, 0.0)
        self.ends: dict[Phase | Meeting, float] = defaultdict(float)
        self.uses: dict[Phase, Use] = {}
        self.tensor: list[tuple[int, float, float]] = []
        self.copies: list[tuple[int, float, float]] = []
        self._missing = dict(trace.needed)
        self._waiting: dict[Phase | Meeting, list[Warp]] = defaultdict(list)
        self._next: dict[Warp, int] = dict.fromkeys(trace.warps, 0)
        self._steps: dict[Warp, int] = dict.fromkeys(trace.warps, 0)
        self._engines: dict[int, float] = defaultdict(float)
        self._cores: dict[Warp, float] = defaultdict(float)
        self._groups: dict[Warp, _Products] = defaultdict(_Products)
        self._last_arrival: dict[Phase, int] = {}
        self._passed: dict[Warp, Phase] = {}
        self._pieces: dict[StageEvent, tuple[float, float]] = {}
        self._latest: dict[int, Phase] = {}
        """mbarrier -> the phase that copies have filled last."""
        self._copied: dict[Warp, tuple[object, float]] = {}
        """The last copy of a warp, and when it arrives."""
        self._heap: list[tuple[float, Warp]] = [(0.0, warp) for warp in sorted(trace.warps)]

    def run(self) -> None:
        """Let all events happen."""
        while self._heap:
            _, warp = heapq.heappop(self._heap)
            events, at = self._trace.warps[warp], self._next[warp]
            if at == len(events):
                continue
            one = events[at]
            self.now[warp] += CLOCKS * max(0, one.event.step - self._steps[warp])
            self._steps[warp] = one.event.step
            self._next[warp] = at + 1
            self._happen(one, warp)

    def _happen(self, one: Resolved, warp: Warp) -> None:
        kind = one.event.kind
        if kind is EventKind.PIECES:
            self._pieces[one.event] = self._move(one.event, warp, PIECE_CLOCKS)
        elif kind in (EventKind.COPY, EventKind.AFTER):
            self._fill(one, warp)
        elif kind is EventKind.ARRIVE:
            self._arrive(one, self.now[warp])
        elif kind in (EventKind.READ, EventKind.PRODUCT):
            self._read(one, warp)
        elif kind is EventKind.COMMIT:
            self._groups[warp].closed.append(self._groups[warp].open)
        elif kind is EventKind.WAIT:
            closed = self._groups[warp].closed
            complete = closed[: len(closed) - self._pending.get(one.event.instruction, 0)]
            self.now[warp] = max([self.now[warp], *complete[-1:]])
        elif kind in (EventKind.BARRIER, EventKind.CLUSTER_ARRIVE):
            away = PEER_CLOCKS * (kind is EventKind.CLUSTER_ARRIVE)
            assert one.meeting is not None
            self._complete(one.meeting, self.now[warp] + away)
        awaited = _awaited(one)
        if awaited is not None and self._missing.get(awaited, 0):
            self._waiting[awaited].append(warp)
            return
        self._go_on(one, warp, awaited)

    def _go_on(self, one: Resolved, warp: Warp, awaited: Phase | Meeting | None) -> None:
        if awaited is not None:
            self.now[warp] = max(self.now[warp], self.ends.get(awaited, 0.0))
        if one.event.kind is EventKind.PASS:
            assert one.phase is not None
            use = self.uses.get(one.phase)
            if use is None:
                self._passed[warp] = one.phase
            elif use.opened is None or self.now[warp] < use.opened:
                use.opened, use.wait = self.now[warp], one.event.instruction
        heapq.heappush(self._heap, (self.now[warp], warp))

    def _complete(self, key: Phase | Meeting, clock: float) -> None:
        """Count an event for a phase or a meeting; the last one lets those that wait go on."""
        self.ends[key] = max(self.ends[key], clock)
        self._missing[key] -= 1
        if self._missing[key] == 0:
            for warp in self._waiting.pop(key, []):
                self._go_on(self._trace.warps[warp][self._next[warp] - 1], warp, key)

    def _arrive(self, one: Resolved, clock: float) -> None:
        assert one.phase is not None
        if one.event.barrier >> CLUSTER_SHIFT != one.event.rank:
            clock += PEER_CLOCKS
        if clock >= self.ends[one.phase]:
            self._last_arrival[one.phase] = one.event.instruction
        self._complete(one.phase, clock)

    # ---- copies -----------------------------------------------------------------------------
    def _move(self, event: StageEvent, warp: Warp, later: int) -> tuple[float, float]:
        """Occupy the copy engine -> when a copy was issued, and when it arrives."""
        start = max(self.now[warp], self._engines[event.rank])
        self._engines[event.rank] = end = start + moved(event) / self._rate
        self.copies.append((event.rank, start, end))
        return self.now[warp], end + later

    def _fill(self, one: Resolved, warp: Warp) -> None:
        """Copies arrive at an mbarrier."""
        assert one.phase is not None
        there = self.now[warp]
        for copy in one.fills:
            early = copy in self._pieces
            issued, arrives = self._pieces.pop(copy) if early else self._copy(copy, warp)
            there = max(there, arrives)
            use = self.uses.get(one.phase)
            if use is None:
                use = self.uses[one.phase] = Use(issued, copy.instruction)
                self._reuse(one.phase, warp)
            use.issued = min(use.issued, issued)
            use.nbytes += moved(copy)
        if one.event.kind is EventKind.AFTER:
            self._arrive(one, there)
        else:
            self._complete(one.phase, there)

    def _copy(self, event: StageEvent, warp: Warp) -> tuple[float, float]:
        # A multicast is an event for each block that it writes to, and one copy.
        offset = event.first & ((1 << CLUSTER_SHIFT) - 1)
        one = event.instruction, event.step, offset
        if warp not in self._copied or self._copied[warp][0] != one:
            self._copied[warp] = one, self._move(event, warp, COPY_CLOCKS)[1]
        return self.now[warp], self._copied[warp][1]

    def _reuse(self, phase: Phase, warp: Warp) -> None:
        """Note what the warp has waited for before it fills a stage again."""
        before, passed = self._latest.get(phase[0]), self._passed.pop(warp, None)
        self._latest[phase[0]] = phase
        if before is not None and passed is not None and passed[1] >= 0:
            use = self.uses[before]
            use.released, use.release = self.ends[passed], self._last_arrival.get(passed)

    # ---- reads ------------------------------------------------------------------------------
    def _read(self, one: Resolved, warp: Warp) -> None:
        end = self.now[warp]
        if one.event.kind is EventKind.PRODUCT:
            end = self._product(one.event, warp)
        for phase in one.reads:
            use = self.uses.get(phase)
            if use is not None and (use.consumed is None or end >= use.consumed):
                use.consumed, use.read = end, one.event.instruction

    def _product(self, event: StageEvent, warp: Warp) -> float:
        core = event.rank, event.warp % QUARTERS
        start = max(self.now[warp], self._cores[core])
        self._cores[core] = end = start + self._products.get(event.instruction, 0.0)
        group = self._groups[warp]
        group.open = max(group.open, end)
        if core[1] == 0:  # the four do the same
            self.tensor.append((event.rank, start, end))
        return end


def _awaited(one: Resolved) -> Phase | Meeting | None:
    """The phase or meeting that must be complete before the warp goes on."""
    if one.event.kind is EventKind.PASS:
        return one.phase
    if one.event.kind is EventKind.CLUSTER_PASS:
        return one.meeting
    return one.meeting if one.event.kind is EventKind.BARRIER and one.event.second else None
