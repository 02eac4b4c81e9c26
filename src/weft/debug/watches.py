"""Watched memory: which instruction is about to write it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.device.base import Dim3
from weft.device.sim.tools.debugger.observer import Hit
from weft.device.sim.tools.debugger.state import Thread
from weft.ptx.isa import decode
from weft.ptx.isa.columns import Per
from weft.ptx.model import Imm, Instruction, Mem, Operand, Reg, Sym

if TYPE_CHECKING:
    from weft.debug.inspection import Inspection


@dataclass(frozen=True)
class Place:
    """Bytes of memory: of all threads, or at an offset in the shared or local memory of one."""

    start: int
    size: int
    space: str = ""
    block: Dim3 = (0, 0, 0)
    warp: int = 0
    lane: int = 0


@dataclass(frozen=True)
class Watch:
    """A place that is watched for writes; `writers` are the instructions that write memory."""

    text: str
    place: Place
    writers: list[int]

    @property
    def reason(self) -> str:
        """The reason of a stop."""
        return f"a write of {self.text}"

    def written_by(self, hit: Hit, view: Inspection) -> int | None:
        """The first lane whose next instruction writes the place."""
        if hit.index not in self.writers:
            return None
        ins = view.source.code[hit.index]
        start = self._start(hit, view)
        if start is None:
            return None
        lanes = hit.lanes & view.state.lanes_of(hit.warp)
        for lane in (i for i in range(32) if lanes >> i & 1):
            thread = Thread(hit.slot, hit.warp, lane)
            if not executes(ins, thread, view):
                continue
            for address, size in written(ins, thread, view):
                if address < start + self.place.size and start < address + size:
                    return lane
        return None

    def _start(self, hit: Hit, view: Inspection) -> int | None:
        """The address of the place in this execution; None where the warp cannot reach it."""
        place = self.place
        if not place.space:
            return place.start
        if view.state.block_of(hit.slot) != place.block:
            return None
        if place.space == "shared":
            return view.state.shared(hit.slot)[0] + place.start
        return view.state.local(Thread(hit.slot, place.warp, place.lane))[0] + place.start


def place_of(address: int, size: int, thread: Thread, view: Inspection) -> Place:
    """The place of an address that a thread sees."""
    state = view.state
    block = state.block_of(thread.slot)
    for space, (start, nbytes) in (
        ("shared", state.shared(thread.slot)),
        ("local", state.local(thread)),
    ):
        if start <= address < start + nbytes:
            return Place(address - start, size, space, block, thread.warp, thread.lane)
    return Place(address, size)


def writers(view: Inspection) -> list[int]:
    """The instructions that write memory by lanes."""
    return [ins.index for ins in view.source.code if any(effects(ins))]


def effects(ins: Instruction, *, reads: bool = False) -> list[tuple[int, str, int]]:
    """The operand, the state space and the bytes of each write of a lane; or of each read."""
    d = decode(ins)
    out = []
    for effect in d.row.effects:
        wanted = effect.reads if reads else effect.writes
        if not wanted or effect.barrier or effect.per is not Per.LANE:
            continue
        size = effect.nbytes(d.words)
        names = [x.name for x in d.row.written]
        if size is not None and effect.operand in names:
            out.append((names.index(effect.operand), effect.state_space(d.words), size))
    return out


def executes(ins: Instruction, thread: Thread, view: Inspection) -> bool:
    if ins.guard is None:
        return True
    return bool(view.state.register(thread, ins.guard)) != ins.guard_negated


def written(
    ins: Instruction, thread: Thread, view: Inspection, *, reads: bool = False
) -> list[tuple[int, int]]:
    """The addresses and sizes that an instruction of a thread is about to write; or to read."""
    out = []
    for at, space, size in effects(ins, reads=reads):
        address = (
            _address(ins.operands[at], space, thread, view) if at < len(ins.operands) else None
        )
        if address is not None:
            out.append((address, size))
    return out


def _address(operand: Operand, space: str, thread: Thread, view: Inspection) -> int | None:
    offset = operand.offset if isinstance(operand, Mem) else 0
    operand = operand.base if isinstance(operand, Mem) else operand
    state = view.state
    if isinstance(operand, Sym):
        known = state.symbol(thread, operand.name)
        return None if known is None else known + operand.offset + offset
    if isinstance(operand, Imm):
        base: int | None = operand.value
    else:
        base = state.register(thread, operand.name) if isinstance(operand, Reg) else None
    if base is None:
        return None
    start = {"shared": state.shared(thread.slot)[0], "local": state.local(thread)[0]}.get(space, 0)
    return base + offset + start
