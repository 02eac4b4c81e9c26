"""Records the accesses of threads to global memory: all of them, or the writes of one place.

A failed check shows the writer of a wrong element; pictures of the course show all accesses of a
launch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.device.sim.access import FragmentRows, MemoryAccess, touching
from weft.device.sim.lane_sets import each_lane
from weft.device.sim.layout import ContextFields, SlotFields, Space, WorkerFields
from weft.device.sim.observe import Watched, Watcher
from weft.device.sim.run.failures.lines import line_of
from weft.device.sim.run.observation import Observation
from weft.ir import Builder, Val

REMEMBERED = 64
"""The number of accesses that are stored for each host thread; later ones are only counted."""
EVERYWHERE = (0, 2**63 - 1)

# Seven words: the instruction, the block's x, y and z, the thread's number, address and size.
_ROW = 56
_P, _I32, _I64 = ("ptr", 0), ("i32", 0), ("i64", 0)


@dataclass(frozen=True)
class ThreadAccess:
    """One access of one thread.

    does   "read", "write", "atomic" or "reduction"
    """

    does: str
    line: str
    block: tuple[int, int, int]
    thread: tuple[int, int, int]
    address: int
    nbytes: int

    def __str__(self) -> str:
        return f"{self.line}, block {self.block}, thread {self.thread}"


class TouchRecorder:
    """Records the accesses of the `nbytes` at an address; without `reads`, the writes alone.

    seen    the first accesses of each host thread, in the order in which it executed them
    count   how many there were in all
    """

    def __init__(
        self, address: int, nbytes: int, *, reads: bool = False, remembered: int = REMEMBERED
    ) -> None:
        self._reads, self._remembered = reads, remembered
        self.key = f"touches {remembered}" if reads else f"writes {remembered}"
        self._place = np.array([address, nbytes], np.int64)
        self.seen: list[ThreadAccess] = []
        self.count = 0

    def watcher(self, e: Watched) -> Watcher:
        return _PlaceWatcher(e, self._reads, self._remembered)

    def begin(self, observation: Observation) -> None:
        observation.for_launch(self._place.view(np.uint8))
        self._memory = observation.for_workers(8 + self._remembered * _ROW)

    def end(self, observation: Observation) -> None:
        notes: Mapping[str, tuple[str, str]] = observation.notes["touches"]
        bx, by, _ = observation.config.block
        for memory in self._memory:
            words = memory.view(np.int64)
            count = int(words[0])
            self.count += count
            rows = words[1:].reshape(-1, _ROW // 8)[: min(count, self._remembered)]
            for number, x, y, z, n, address, nbytes in rows.tolist():
                does, line = notes[str(number)]
                thread = (n % bx, n // bx % by, n // (bx * by))
                self.seen.append(ThreadAccess(does, line, (x, y, z), thread, address, nbytes))


class TouchWatcher(Watcher):
    """Before each access to global memory, a helper receives the address of each lane.

    name        of the helper
    reads_too   whether it is called for reads
    """

    name: str
    reads_too: bool

    def access(self, access: MemoryAccess) -> None:
        if not (access.writes or self.reads_too):
            return
        if access.space not in (Space.GLOBAL, Space.GENERIC):
            return
        e, b = self.e, self.e.b
        if access.rows is not None:
            self._fragment(access, access.rows)  # its lanes share one address
            return
        if access.sizes is None:
            sizes = b.splat(b.integer("i32", access.nbytes), 32)
        else:
            sizes = access.sizes
        self._note(access, e.memory.addresses(access.address), sizes)

    def number(self, access: MemoryAccess) -> int:
        """The number that describes an access to the helper."""
        raise NotImplementedError

    def body(self, b: Builder, args: list[Val]) -> None:
        """Emit the helper; `args` are those that `_note` gives it."""
        raise NotImplementedError

    def _fragment(self, access: MemoryAccess, rows: FragmentRows) -> None:
        """Record each register of each lane by itself."""
        e, b = self.e, self.e.b
        sizes = b.splat(b.integer("i32", rows.unit), 32)
        parts = max(1, 4 // rows.unit)  # of a register, which has four bytes at least
        for first in range(0, len(rows.parts), 32 * parts):
            for part in range(parts):
                places = rows.parts[first + part : first + 32 * parts : parts]
                row, byte = (b.lanes("i64", [p[i] for p in places]) for i in range(2))
                at = b.splat(rows.first, 32) + b.splat(rows.step, 32) * row + byte
                b.store(at, e.memory.table(), 64)
                self._note(access, e.memory.table(), sizes)

    def _note(self, access: MemoryAccess, addresses: Val, sizes: Val) -> None:
        """Call the helper with the addresses and sizes of the lanes."""
        e, b = self.e, self.e.b
        table = e.memory.offsets()  # an array of 32 words, whatever they are
        b.store(sizes, table, 64)
        note = b.helper(self.name, [_P, _P, _P, _P, _P, _I32, _I64, _I32], None, self.body)
        number, first = b.integer("i64", self.number(access)), e.warp << 5
        lanes = touching(e, access)
        note(e.context, e.worker, e.slot, addresses, table, lanes, number, first)


class _PlaceWatcher(TouchWatcher):
    """Compares the addresses with the place."""

    name = "note_touches"

    def __init__(self, e: Watched, reads: bool, remembered: int) -> None:
        super().__init__(e)
        self.reads_too, self._remembered = reads, remembered
        self._notes: dict[str, tuple[str, str]] = {}

    def notes(self) -> Mapping[str, Any]:
        return {"touches": self._notes}

    def number(self, access: MemoryAccess) -> int:
        self._notes[str(access.ins.index)] = access.kind.name.lower(), line_of(access.ins)
        return access.ins.index

    def body(self, b: Builder, args: list[Val]) -> None:
        _note_touches(b, args, remembered=self._remembered)


def _note_touches(b: Builder, args: list[Val], *, remembered: int) -> None:
    context, worker, slot, addresses, sizes, lanes, number, first = args
    place = b.load("ptr", 0, b.at(context, ContextFields.OBSERVER))
    start, size = b.load("i64", 0, place, 8), b.load("i64", 0, b.at(place, 8), 8)
    memory = b.load("ptr", 0, b.at(worker, WorkerFields.OBSERVER))

    def look(lane: Val) -> None:
        address = b.load("i64", 0, b.at(addresses, lane.zext("i64") << 3), 8)
        nbytes = b.load("i32", 0, b.at(sizes, lane.zext("i64") << 2)).zext("i64")
        hit = (address + nbytes).ugt(start) & address.ult(start + size)
        with b.when(hit, rare=True):
            count = b.load("i64", 0, memory, 8)
            b.store(count + 1, memory, 8)
            with b.when(count.ult(remembered)):
                row = b.at(memory, count * _ROW + 8)
                b.store(number, row, 8)
                for i, axis in enumerate(
                    (SlotFields.BLOCK_X, SlotFields.BLOCK_Y, SlotFields.BLOCK_Z)
                ):
                    value = b.load("i32", 0, b.at(slot, axis)).zext("i64")
                    b.store(value, b.at(row, 8 + 8 * i), 8)
                b.store((first + lane).zext("i64"), b.at(row, 32), 8)
                b.store(address, b.at(row, 40), 8)
                b.store(nbytes, b.at(row, 48), 8)

    each_lane(b, lanes, look)
