"""Records the accesses of work items and finds data races between them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from weft.device.sim.run.failures.lines import line_of
from weft.device.sim.run.launch import LaunchPlan
from weft.device.sim.tools.sanitizer import extents
from weft.device.sim.tools.sanitizer.extents import Extents
from weft.device.sim.tools.sanitizer.findings import Decoder
from weft.device.sim.tools.sanitizer.observer import Seen
from weft.frontends.program.sanitizer.order import Order, WorkItem
from weft.frontends.program.sanitizer.places import HostLines
from weft.values.findings import Access, Finding

REMEMBERED = 4096
"""The most unfinished work items that new ones are compared with."""
FREES = ("cudaFree", "cudaFreeAsync", "cudaFreeHost")
_STREAMS = "order the two: cudaStreamWaitEvent on an event of the other stream, or synchronise"
_HOST = "wait for the work first: cudaDeviceSynchronize, cudaStreamSynchronize, or an event"
_FREE = "free it in the stream that uses it last, or wait for that stream first"


@dataclass(frozen=True, slots=True)
class Touched:
    """The accesses of one launch, copy or fill; `frames` is the stack of its call."""

    work: WorkItem
    name: str
    plan: LaunchPlan | None
    reads: Extents
    writes: Extents
    frames: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Clash:
    """Two unordered accesses to the same bytes."""

    one: Touched
    index: int
    writes: bool
    other: Touched
    other_index: int
    other_writes: bool
    address: int


class Touches:
    """The unfinished work items; `source` is the program's name."""

    def __init__(self, order: Order, source: str, places: HostLines) -> None:
        self._order, self._source, self._places = order, source, places
        self._under_way: deque[Touched] = deque(maxlen=REMEMBERED)
        self._lock = threading.Lock()

    def under_way(self) -> list[Touched]:
        """WorkItem items that the host has not waited for."""
        with self._lock:
            # Completed work cannot race any more.
            left = [t for t in self._under_way if not self._order.ended(t.work)]
            self._under_way = deque(left, maxlen=REMEMBERED)
        return left

    def add(self, touched: Touched) -> list[Clash]:
        """Add work and compare it with concurrent work."""
        clashes = [
            clash
            for other in self.under_way()
            if other.work.concurrent_with(touched.work)
            and (clash := _clash(other, touched)) is not None
        ]
        with self._lock:
            self._under_way.append(touched)
        return clashes

    # ---- findings ---------------------------------------------------------------------------
    def race(self, clash: Clash, place: str) -> Finding:
        """The finding for a race between two streams."""
        accesses = (
            self.access(clash.one, clash.index, clash.writes),
            self.access(clash.other, clash.other_index, clash.other_writes),
        )
        frees = {clash.one.name, clash.other.name} & set(FREES)
        kind = "free in flight" if frees else "data race"
        what = (
            "memory is freed that other work may still use"
            if frees
            else "work of two streams touches the same memory, in no order"
        )
        return Finding(
            kind, f"{kind}: {what}", "", accesses, 1, _FREE if frees else _STREAMS, place,
            clash.address,
        )  # fmt: skip

    def host_race(
        self, touched: Touched, index: int, writes: bool, host: Access, place: str, address: int
    ) -> Finding:
        """The finding for a race between the host and unfinished work."""
        accesses = (self.access(touched, index, writes), host)
        what = "data race: the host touches memory that work under way uses"
        return Finding("data race", what, "", accesses, 1, _HOST, place, address)

    def freed_in_flight(
        self, touched: Touched, index: int, writes: bool, call: str, place: str, address: int
    ) -> Finding:
        """The finding for memory that the host frees while unfinished work uses it."""
        host = self.of_host(call, call, self._places.here())
        accesses = (self.access(touched, index, writes), host)
        what = "free in flight: memory is freed that other work may still use"
        return Finding("free in flight", what, "", accesses, 1, _FREE, place, address)

    def no_peer_access(
        self, touched: Touched, index: int, writes: bool, devices: tuple[int, int], place: str,
        address: int,
    ) -> Finding:  # fmt: skip
        """The finding for a kernel on one device that accesses the memory of another."""
        own, owner = devices
        what = f"peer access: a kernel of device {own} touches memory of device {owner}, "
        what += "to which it has no access"
        accesses = (self.access(touched, index, writes),)
        advice = f"call cudaDeviceEnablePeerAccess({owner}, 0) while device {own} is current"
        return Finding("peer access", what, "", accesses, 1, advice, place, address)

    def of_host(self, verb: str, what: str, frames: Sequence[int], kernel: str = "") -> Access:
        """A host access: a call, a memory access, or a kernel launch."""
        place = self._places.of(frames, kernel=kernel)
        if place is None:
            return Access(verb, f"{what} of {self._source}", self._source, 0, None, None)
        line = f"{place.file}:{place.line}  `{place.text}`  ({what})"
        return Access(verb, line, place.file, place.line, None, None)

    def access(self, touched: Touched, index: int, writes: bool) -> Access:
        """One access of a clash, with its location."""
        verb, where = "write" if writes else "read", self._order.name_of(touched.work.stream)
        if touched.plan is None or index < 0:
            return self.of_host(verb, f"{touched.name} in {where}", touched.frames)
        sim = touched.plan.sim
        ins = Decoder(sim, touched.plan.entry, touched.plan.config, Seen()).code[index]
        source = ins.loc.own if ins.loc is not None else None
        launch = self._places.of(touched.frames, kernel=touched.name)
        launched = f", launched at {launch}" if launch else ""
        line = f"{line_of(ins)}  ({touched.name} in {where}{launched})"
        file = source.file if source else sim.ptx.origin
        return Access(verb, line, file, source.line if source else ins.ptx_line, None, None)


def find(
    touched: Sequence[Touched], spot: Extents, writes: bool
) -> list[tuple[Touched, int, bool]]:
    """(work, instruction, writes) for accesses to these bytes; at most one per work item."""
    hits = []
    for one in touched:
        for extent, is_write in ((one.writes, True), (one.reads, False)):
            if (is_write or writes) and (hit := extents.overlap(extent, spot)) is not None:
                hits.append((one, hit.index, is_write))
                break
    return hits


def _clash(a: Touched, b: Touched) -> Clash | None:
    """The first conflict of two work items: two writes, or a read and a write."""
    for of_a, a_writes in ((a.writes, True), (a.reads, False)):
        for of_b, b_writes in ((b.writes, True), (b.reads, False)):
            if not (a_writes or b_writes):
                continue
            hit = extents.overlap(of_a, of_b)
            if hit is not None:
                return Clash(a, hit.index, a_writes, b, hit.other, b_writes, hit.address)
    return None
