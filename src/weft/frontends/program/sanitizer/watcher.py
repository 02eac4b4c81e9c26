"""Sanitizes a whole program: order between streams and host, and memory in use.

The library reports the calls of the program (`hooks`), launches what they access (`extents`). This
module combines both. Two unordered accesses to the same memory are a race. Memory that the host can
access is protected while work uses it, so that accesses of the host are seen. Allocated memory
counts as unwritten until a copy, a fill or a kernel writes it.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from bisect import bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.device.sim.run import initialised
from weft.device.sim.run.launch import LaunchPlan
from weft.device.sim.tools.sanitizer import extents
from weft.device.sim.tools.sanitizer.extents import Extents
from weft.frontends.program.answers import answers
from weft.frontends.program.sanitizer import guards, hooks, written
from weft.frontends.program.sanitizer.order import Order, WorkItem
from weft.frontends.program.sanitizer.places import HostLines, call_addresses
from weft.frontends.program.sanitizer.touches import Touched, Touches, find
from weft.frontends.program.sanitizer.traffic import Traffic
from weft.values.findings import Finding

_KINDS = ("device memory", "pinned memory", "managed memory")
_IN_ORDER = ("cudaMallocAsync", "cudaMallocFromPoolAsync")
"""Stream-ordered allocation calls; cudaFree of their memory does not wait for other streams."""
_OF_ONE_DEVICE = ("cudaMalloc", "cudaMallocPitch", "cudaMalloc3D")
"""Calls whose memory other devices may access by cudaDeviceEnablePeerAccess alone."""
_OVERLAP = "copy by way of other memory, or with a kernel that knows the order"
_FREES = "free each allocation once, by the call that belongs to what made it"
_MISUSED = {
    "use after free": "free it after its last use",
    "invalid copy": "give pointers in the order to, from, and the kind that fits them",
    "out of bounds": "compare the size of the copy with that of the allocation",
}
_UNWRITTEN = "write it first, or copy only what was written"


@dataclass(frozen=True, slots=True)
class ProgramAllocation:
    """An allocation of the program."""

    address: int
    nbytes: int
    kind: int
    call: str
    device: int


class ProgramSanitizer:
    """One program under the sanitizer; the library calls the methods listed in `Hooks`."""

    def __init__(
        self, library: ctypes.CDLL, source: str, places: HostLines, say: Callable[[str], None],
        note: Callable[[Sequence[Finding]], None],
    ) -> None:  # fmt: skip
        self.library, self.say, self._note = library, say, note
        devices = ctypes.c_int()
        library.cudaGetDeviceCount(ctypes.byref(devices))
        self._order = Order(devices.value)
        self.traffic = Traffic()
        self._places = places
        self._touches = Touches(self._order, source, places)
        self._works: dict[int, WorkItem] = {}
        self._thread_state = threading.local()
        self._starts: list[int] = []
        self._memory: dict[int, ProgramAllocation] = {}
        self._reported: set[object] = set()
        self._lock = threading.RLock()
        self._submitted = 0
        self._on: dict[int, Callable[[int, int], None]] = {
            hooks.CREATED: self._order.created,
            hooks.DESTROYED: lambda a, _: self._order.destroyed(a),
            hooks.RECORDED: self._order.recorded,
            hooks.WAITS: self._order.waits,
            hooks.HOST_WAITS_STREAM: lambda a, _: self._order.host_waits_for_stream(a),
            hooks.HOST_WAITS_EVENT: lambda a, _: self._order.host_waits_for_event(a),
            hooks.HOST_WAITS_DEVICE: lambda a, _: self._order.host_waits_for_device(a),
            hooks.HOST_FUNCTION: lambda *_: self._order.host_learns_of(self._thread_state.work),
            hooks.WORK_WAITS: lambda a, _: self._order.work_waits(self._thread_state.work, a),
            hooks.STREAMS_JOINED: self._order.joined,
        }
        fields = hooks.Hooks._fields_
        self._table = hooks.Hooks(*(kind(getattr(self, name)) for name, kind in fields))
        library.weft_watch(ctypes.byref(self._table))

    # ---- order ------------------------------------------------------------------------------
    @answers(0)
    def happened(self, what: int, a: int, b: int) -> None:
        with self._lock:
            self._on[what](a, b)
            if hooks.HOST_WAITS_STREAM <= what <= hooks.HOST_FUNCTION:
                self._guard()

    @answers(0)
    def submitted(self, stream: int) -> int:
        with self._lock:
            self._submitted += 1
            self._works[self._submitted] = self._order.submitted(stream)
            return self._submitted

    @answers(0)
    def begins(self, number: int) -> None:
        self._thread_state.work = self._works.pop(number)

    @answers(0)
    def ends(self, number: int) -> None:
        self._thread_state.work = None
        with self._lock:
            self._guard()

    # ---- what is touched --------------------------------------------------------------------
    @contextlib.contextmanager
    def launching(self, plan: LaunchPlan, name: str) -> Iterator[None]:
        """Record the accesses of the launch inside, as part of this thread's work.

        With a single stream only host-accessible memory can race, so only that is recorded.
        """
        with self._lock:
            shared = [(m.address, m.nbytes) for m in self._memory.values() if m.kind]
            ranges = None if self._order.several else shared
        with extents.collecting(ranges) as seen:
            yield
        self._add(name, plan, seen.reads, seen.writes)

    @answers(0)
    def copied(self, copy: Any) -> None:
        c = copy[0]
        name, none = c.call.decode(), extents.nothing()
        to, source = _rows(c, c.to), _rows(c, c.source) if c.source.start else None
        reads = none if source is None else self._reachable(source)
        if source is not None:
            self._overlapping(name, _extents(source), _extents(to))
            if c.to_host:
                self._unwritten(name, source)
        _fill(to, source)
        self._add(name, None, reads, self._reachable(to))

    @answers(0)
    def accessed(
        self, call: bytes, source: int, read: int, to: int, written: int, frames: Any, count: int
    ) -> None:
        """Record the accesses of a call of NCCL to memory of its rank."""
        reads, writes = _whole(source, read), _whole(to, written)
        initialised.filled(to, written)
        name = call.decode()
        with self._lock:
            device = self._order.device_of(self._thread_state.work.stream)
            self.traffic.called(device, name, read)
        self._add(name, None, reads, writes, call_addresses(frames, count))

    def _reachable(self, rows: tuple[Any, Any]) -> Extents:
        """Extents of device-accessible rows; pageable memory is copied before the call returns."""
        return extents.nothing() if self._at(int(rows[0][0])) is None else _extents(rows)

    def _add(
        self, name: str, plan: LaunchPlan | None, reads: Extents, writes: Extents,
        frames: tuple[int, ...] = (),
    ) -> None:  # fmt: skip
        with self._lock:
            work = self._thread_state.work
            frames = frames or self._places.here()
            touched = Touched(work, name, plan, reads, writes, frames)
            for clash in self._touches.add(touched):
                self._report(self._touches.race(clash, self._place(clash.address)))
            if plan is not None:
                self._without_peer_access(touched)

    def _without_peer_access(self, touched: Touched) -> None:
        """Report accesses of a kernel to memory of a device that its own may not access."""
        device = self._order.device_of(touched.work.stream)
        for memory in self._memory.values():
            given = memory.call not in _OF_ONE_DEVICE or memory.device == device
            if given or self.library.weft_may_access(device, memory.device):
                continue
            spot = _whole(memory.address, memory.nbytes)
            for _, index, writes in find([touched], spot, writes=True):
                place, address = self._place(memory.address), memory.address
                self._report(
                    self._touches.no_peer_access(
                        touched, index, writes, (device, memory.device), place, address
                    )
                )

    # ---- memory -----------------------------------------------------------------------------
    @answers(0)
    def allocated(self, call: bytes, address: int, nbytes: int, kind: int, device: int) -> None:
        name = call.decode()
        with self._lock:
            self._memory[address] = ProgramAllocation(address, nbytes, kind, name, device)
            # Sorted, so that an address is found by bisection.
            insort(self._starts, address)
            if kind == hooks.DEVICE:
                self.traffic.allocated(device, nbytes)
        if kind == hooks.DEVICE and nbytes <= written.PATTERN_LIMIT:
            initialised.register(address, nbytes)
        if name in _IN_ORDER:
            self._add(name, None, extents.nothing(), _whole(address, nbytes))

    @answers(0)
    def freed(self, call: bytes, address: int, nbytes: int) -> None:
        """Called before memory is freed."""
        name = call.decode()
        initialised.forget(address)
        if getattr(self._thread_state, "work", None) is not None:
            self._add(name, None, extents.nothing(), _whole(address, nbytes))
        else:
            self._freed_by_host(name, self._memory[address])
        with self._lock:
            memory = self._memory.pop(address, None)
            if memory is not None:
                self._starts.remove(address)
                if memory.kind == hooks.DEVICE:
                    self.traffic.allocated(memory.device, -memory.nbytes)
            self._guard()

    def _freed_by_host(self, call: str, memory: ProgramAllocation) -> None:
        """Report unfinished work that uses freed memory; cudaFree waits for the default stream."""
        spot = _whole(memory.address, memory.nbytes)
        waits = memory.call not in _IN_ORDER
        others = [t for t in self._touches.under_way() if t.work.stream > 0 or not waits]
        for touched, index, writes in find(others, spot, writes=True):
            place = self._place(memory.address)
            self._report(
                self._touches.freed_in_flight(touched, index, writes, call, place, memory.address)
            )
        if waits:
            self._order.host_waits_for_all()

    def _at(self, address: int) -> ProgramAllocation | None:
        i = bisect_right(self._starts, address) - 1
        memory = self._memory[self._starts[i]] if i >= 0 else None
        return memory if memory and address < memory.address + memory.nbytes else None

    def _place(self, address: int) -> str:
        memory = self._at(address)
        if memory is None:
            return f"{address:#x}"
        offset = address - memory.address
        return f"{_KINDS[memory.kind]}, byte {offset:,} of {memory.nbytes:,} ({address:#x})"

    # ---- the host ---------------------------------------------------------------------------
    def _guard(self) -> None:
        """Guard host-accessible memory that unfinished work accesses."""
        under_way = self._touches.under_way()
        shared = [m for m in self._memory.values() if m.kind != hooks.DEVICE]
        rows = [row for m in shared for row in guards.rows(m.address, m.nbytes, under_way)]
        table = np.array(rows, np.uint64).reshape(-1, 3)
        self.library.weft_guard(ctypes.c_void_p(table.ctypes.data), ctypes.c_size_t(len(rows)))

    @answers(0)
    def host_touched(self, address: int, writes: int, instruction: int) -> None:
        with self._lock:
            for touched in self._touches.under_way():
                for index, is_write, strong in _hits(touched, address, bool(writes)):
                    if strong:  # a flag by which the host may learn that work is complete
                        self._order.host_learns_of(touched.work)
                        break
                    frames = (instruction, *self._places.here())
                    verb = "write" if writes else "read"
                    host = self._touches.of_host(verb, "the host", frames)
                    self._report(
                        self._touches.host_race(
                            touched, index, is_write, host, self._place(address), address
                        )
                    )
                    break

    # ---- findings ---------------------------------------------------------------------------
    def _overlapping(self, call: str, source: Extents, to: Extents) -> None:
        hit = extents.overlap(source, to)
        if hit is not None:
            access = self._touches.of_host(call, call, self._places.here())
            what = "overlapping copy: source and destination share bytes"
            self._report(Finding(
                "overlapping copy", what, "", (access,), 1, _OVERLAP, self._place(hit.address),
                hit.address,
            ))  # fmt: skip

    def _unwritten(self, call: str, rows: tuple[Any, Any]) -> None:
        addresses = (written.unwritten(int(a), int(n)) for a, n in zip(*rows, strict=True))
        address = next((a for a in addresses if a is not None), None)
        if address is not None:
            access = self._touches.of_host("read", call, self._places.here())
            what = "uninitialised: a copy to the host of memory that was never written"
            self._report(Finding(
                "uninitialised", what, "", (access,), 1, _UNWRITTEN, self._place(address), address
            ))  # fmt: skip

    def misused(self, kind: str, call: str, address: int, why: str) -> None:
        """Report an invalid pointer argument of a call or kernel."""
        access = self._touches.of_host(call, call, self._places.here(), kernel=call)
        what, next = f"{kind}: the memory {why}", _MISUSED.get(kind, _FREES)
        self._note([Finding(kind, what, "", (access,), 1, next, self._place(address), address)])

    def _report(self, finding: Finding) -> None:
        """Report each pair of accesses once."""
        key = (finding.kind, *((a.verb, a.line) for a in finding.accesses))
        if key not in self._reported:
            self._reported.add(key)
            self._note([finding])


def _rows(copy: Any, box: Any) -> tuple[Any, Any]:
    """Addresses and sizes of the rows of a region."""
    y, z = np.arange(copy.height, dtype=np.int64), np.arange(copy.depth, dtype=np.int64)
    starts = (box.start + z[:, None] * box.plane + y * box.pitch).reshape(-1).astype(np.int64)
    return starts, np.full(len(starts), copy.width, np.int64)


def _extents(rows: tuple[Any, Any]) -> Extents:
    return extents.of_ranges(*rows)


def _whole(address: int, nbytes: int) -> Extents:
    if nbytes == 0:
        return extents.nothing()
    return extents.of_ranges(np.array([address], np.int64), np.array([nbytes], np.int64))


def _hits(touched: Touched, address: int, writes: bool) -> list[tuple[int, bool, bool]]:
    """(instruction, writes, atomic or volatile) for accesses that race with the host."""
    sides = [(touched.writes, True)] + ([(touched.reads, False)] if writes else [])
    candidates = [(e, extents.at(e, address), is_write) for e, is_write in sides]
    return [(int(e.index[i]), is_write, bool(e.strong[i])) for e, i, is_write in candidates
            if i is not None]  # fmt: skip


def _fill(to: tuple[Any, Any], source: tuple[Any, Any] | None) -> None:
    """Mark copied bytes as initialised if their source bytes are."""
    for i, (address, nbytes) in enumerate(zip(*to, strict=True)):
        if source is None:
            initialised.filled(int(address), int(nbytes))
        else:
            initialised.copied(int(address), int(source[0][i]), int(nbytes))
