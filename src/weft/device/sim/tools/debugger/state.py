"""The state of the threads of a debugged launch: registers, places, masks and memory."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence

from weft.device.base import Allocation, Dim3
from weft.device.sim.analyse.form import AFFINE
from weft.device.sim.analyse.program import KernelProgram
from weft.device.sim.layout import BUSY, SlotFields
from weft.device.sim.tools.debugger.layout import ShadowLayout, WarpFields
from weft.device.sim.tools.debugger.observer import DebugObserver
from weft.errors import Error
from weft.ptx.model import Instruction, Label
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread of a resident block: the slot of the block, and the warp and lane in it."""

    slot: int
    warp: int
    lane: int


class LaunchState:
    """The state of a launch while it is stopped, or after it has failed."""

    def __init__(
        self, program: KernelProgram, shadow: ShadowLayout, memory: Sequence[Allocation]
    ) -> None:
        self.program, self.shadow, self.memory = program, shadow, memory
        self.code: list[Instruction] = [
            x for x in program.function.body if not isinstance(x, Label)
        ]
        self._ends = {b.index: _last(b.code, b.last) for b in program.graph.blocks}
        self.observer: DebugObserver | None = None

    # ---- threads ----------------------------------------------------------------------------
    def slots(self) -> list[int]:
        """The slots of blocks that run."""
        areas = self.observer.areas if self.observer is not None else {}
        return [s for s in areas if ctypes.c_int32.from_address(s).value == BUSY]

    def block_of(self, slot: int) -> Dim3:
        """The index of the block in a slot."""
        x, y, z = (ctypes.c_int32 * 3).from_address(slot + SlotFields.BLOCK_X)
        return x, y, z

    def thread_index(self, thread: Thread) -> Dim3:
        """`threadIdx` of a thread."""
        x, y, _ = self.program.shape
        n = 32 * thread.warp + thread.lane
        return n % x, n // x % y, n // (x * y)

    def thread(self, slot: int, index: Dim3) -> Thread:
        """The thread with this `threadIdx` in the block of a slot."""
        x, y, _ = self.program.shape
        n = index[0] + x * (index[1] + y * index[2])
        return Thread(slot, n // 32, n % 32)

    def lanes_of(self, warp: int) -> int:
        """The lanes of a warp that are threads, as bits."""
        return (1 << min(32, self.program.threads - 32 * warp)) - 1

    def _word(self, slot: int, warp: int, at: int) -> int:
        assert self.observer is not None
        area = self.observer.areas[slot] + warp * self.shadow.warp_bytes
        return ctypes.c_uint32.from_address(area + at).value

    def place(self, slot: int, warp: int) -> Instruction | None:
        """The instruction at which a warp was last noted; None before it starts."""
        number = self._word(slot, warp, WarpFields.PLACE)
        return self.code[number - 1] if number else None

    def mask(self, slot: int, warp: int) -> int:
        """The lanes of a warp that run, as bits."""
        return self._word(slot, warp, WarpFields.MASK) & self.lanes_of(warp)

    def done(self, slot: int, warp: int) -> int:
        """The lanes of a warp that have returned, as bits."""
        return self._word(slot, warp, WarpFields.DONE) & self.lanes_of(warp)

    def lane_place(self, thread: Thread) -> Instruction | None:
        """The last instruction of the basic block that a lane entered last."""
        number = self._word(thread.slot, thread.warp, WarpFields.BLOCKS + 4 * thread.lane)
        return self._ends.get(number - 1) if number else None

    # ---- registers --------------------------------------------------------------------------
    def register(self, thread: Thread, name: str) -> int | None:
        """The bits of a register; None for one that the code does not write."""
        if name in self.shadow.constants:
            return self.shadow.constants[name]
        stored = self.shadow.registers.get(name)
        if stored is None:
            return None
        assert self.observer is not None
        area = self.observer.areas[thread.slot] + thread.warp * self.shadow.warp_bytes
        at, size = area + stored.offset, max(1, stored.bits // 8)
        if stored.bits == 1:
            return ctypes.c_uint32.from_address(at).value >> thread.lane & 1
        if stored.scalar:
            value = int.from_bytes(ctypes.string_at(at, size), "little")
            moved = stored.form.off[thread.lane] if stored.form.kind == AFFINE else 0
            return (value + moved) & ((1 << stored.bits) - 1)
        return int.from_bytes(ctypes.string_at(at + thread.lane * size, size), "little")

    # ---- memory -----------------------------------------------------------------------------
    def shared(self, slot: int) -> tuple[int, int]:
        """The address and the size of the shared memory of a block."""
        start = ctypes.c_int64.from_address(slot + SlotFields.SHARED).value
        return start, ctypes.c_int64.from_address(slot + SlotFields.SHARED_BYTES).value

    def local(self, thread: Thread) -> tuple[int, int]:
        """The address and the size of the local memory of a thread."""
        size = self.program.local_bytes
        start = ctypes.c_int64.from_address(thread.slot + SlotFields.LOCAL).value
        return start + (32 * thread.warp + thread.lane) * size, size

    def _windows(self, thread: Thread) -> Iterator[tuple[int, int, bool]]:
        for x in self.memory:
            yield x.address, x.nbytes, x.writable
        for start, size in (self.shared(thread.slot), self.local(thread)):
            yield start, size, True

    def _check(self, thread: Thread, address: int, size: int, *, write: bool) -> None:
        for start, nbytes, writable in self._windows(thread):
            if start <= address and address + size <= start + nbytes:
                if write and not writable:
                    raise Error("this memory is read-only", got=f"address {address:#x}")
                return
        raise Error(
            "this address is in no memory of the launch",
            got=f"{size} bytes at {address:#x}",
            allowed="arrays of the launch, shared memory of the block, local memory of the thread",
        )

    def room(self, thread: Thread, address: int) -> int:
        """Bytes from an address to the end of its memory; 0 where a thread may not read."""
        ends = (s + n for s, n, _ in self._windows(thread) if s <= address < s + n)
        return next(ends, address) - address

    def read(self, thread: Thread, address: int, size: int) -> bytes:
        """Bytes of memory that a thread may access; raise for others."""
        self._check(thread, address, size, write=False)
        return ctypes.string_at(address, size)

    def write(self, thread: Thread, address: int, data: bytes) -> None:
        """Change memory that a thread may access."""
        self._check(thread, address, len(data), write=True)
        ctypes.memmove(address, data, len(data))

    def symbol(self, thread: Thread, name: str) -> int | None:
        """The address of a variable of PTX in a thread's view; None for an unknown one."""
        if name not in self.program.symbols:
            return None
        space, offset = self.program.symbols[name]
        if space == "shared":
            return self.shared(thread.slot)[0] + offset
        if space == "local":
            return self.local(thread)[0] + offset
        return None


def _last(code: Sequence[Instruction], last: Instruction | None) -> Instruction | None:
    return last if last is not None else (code[-1] if code else None)
