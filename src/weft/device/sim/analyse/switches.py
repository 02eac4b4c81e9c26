"""Places where a schedule may switch to other threads, in code that is compiled for schedules.

A warp may be suspended before it changes memory that other threads see, and before an access with
which threads synchronise. Of several stores in a row only the first counts: between them, another
thread finds nothing that it would not find before or after.

Lanes of one warp may also part where they exchange data through shared memory: before an access
that another one follows without a `.sync` instruction or a barrier in between, if one writes and
one reads. Without such a pair, the order of the lanes does not matter, unless they wait for each
other in a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum, auto

from weft.device.sim.analyse.program import KernelProgram
from weft.device.sim.analyse.waits import is_block_barrier, is_warp_sync, may_wait, spin_heads
from weft.ptx.cfg import EXIT, BasicBlock
from weft.ptx.isa.columns import AsyncStep, Control, Ordering, Participants
from weft.ptx.model import Instruction, Label
from weft.records import dataclass

_SEEN = ("global", "shared", "generic")
"""State spaces that other threads see."""


class _Kind(Enum):
    LOAD, STORE, COPY, STRONG = auto(), auto(), auto(), auto()


def of_warps(program: KernelProgram) -> set[int]:
    """Instructions before which a schedule may suspend a warp, by their index."""
    found: set[int] = set()
    before: _Kind | None = None
    for ins in program.function.body:
        if isinstance(ins, Label) or program.decoded[ins.index].row.control is not Control.NEXT:
            before = None
            continue
        kind = _kind(program, ins)
        if kind is _Kind.STRONG or (kind in (_Kind.STORE, _Kind.COPY) and kind is not before):
            found.add(ins.index)
        before = kind or before
    return found


def _kind(program: KernelProgram, ins: Instruction) -> _Kind | None:
    """The kind of an instruction's access to memory that other threads see; None: no access."""
    d = program.decoded[ins.index]
    row = d.row
    effects = [x for x in row.effects if x.state_space(d.words) in _SEEN]
    if not effects:
        return None
    if row.async_ is not None and row.async_.step is AsyncStep.ISSUE:
        return _Kind.COPY
    strong = row.ordering is Ordering.STRONG or row.is_atomic or any(x.barrier for x in effects)
    if strong:
        return _Kind.STRONG
    return _Kind.STORE if any(x.writes for x in effects) else _Kind.LOAD


def polling(program: KernelProgram) -> set[int]:
    """Blocks of loops in which a value that another thread may write decides: a lock, a flag."""
    graph = program.graph
    found: set[int] = set()
    for head in spin_heads(graph):
        members = graph.loops[head]
        code = [i for x in members for i in graph.blocks[x].code]
        read = {r for i in code if may_wait(i) for r in program.defs(i)}
        grown = True
        while grown:
            after = {r for i in code if read.intersection(program.uses(i)) for r in program.defs(i)}
            grown = not after <= read
            read |= after
        ends = (graph.blocks[x].last for x in members)
        if any(i is not None and i.guard in read for i in (*code, *ends)):
            found |= members
    return found


# ---- lanes ------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Ahead:
    """Accesses to shared memory that lanes may make before they meet again."""

    reads: bool = False
    writes: bool = False
    atomics: bool = False
    """Atomics are in no conflict with each other."""

    def __or__(self, other: _Ahead) -> _Ahead:
        return _Ahead(
            self.reads or other.reads, self.writes or other.writes, self.atomics or other.atomics
        )


def of_lanes(program: KernelProgram) -> set[int]:
    """Instructions before which lanes of a warp may part, by their index."""
    ahead = _ahead(program)
    code = [i for block in program.graph.blocks for i in block.code]
    pairs = _pairs(program, ahead, _written_first)
    if spin_heads(program.graph):  # lanes may wait for each other, as for a lock
        scattered = [i for x in program.scattered for i in program.graph.blocks[x].code]
        pairs |= {i.index for i in scattered if _kind(program, i) is _Kind.STRONG}
    # A warp that meets by itself exchanges data by itself: then a lane may also write too early.
    if pairs or any(_is_syncwarp(program, i) for i in code):
        pairs |= _pairs(program, ahead, _read_first)
    return pairs


def _written_first(here: _Ahead, then: _Ahead) -> bool:
    return (here.writes and (then.reads or then.atomics)) or (here.atomics and then.reads)


def _read_first(here: _Ahead, then: _Ahead) -> bool:
    return (here.reads and (then.writes or then.atomics)) or (here.atomics and then.writes)


def _is_syncwarp(program: KernelProgram, ins: Instruction) -> bool:
    row = program.decoded[ins.index].row
    return row.participants is Participants.MASK and not row.has_dest and not row.effects


def _accesses(program: KernelProgram, ins: Instruction) -> _Ahead:
    """The accesses of an instruction to data in shared memory."""
    d = program.decoded[ins.index]
    spaces = ("shared", "generic") if program.uses_shared else ()
    data = [x for x in d.row.effects if not x.barrier and x.state_space(d.words) in spaces]
    atomic = d.row.is_atomic and bool(data)
    return _Ahead(
        any(x.reads for x in data) and not atomic,
        any(x.writes for x in data) and not atomic,
        atomic,
    )


def _meets(ins: Instruction) -> bool:
    return is_warp_sync(ins) or is_block_barrier(ins)


def _scan(program: KernelProgram, code: Iterable[Instruction], after: _Ahead) -> _Ahead:
    """The accesses from the start of some code on; `after` are those that follow it."""
    found = _Ahead()
    for ins in code:
        if _meets(ins):
            return found
        found |= _accesses(program, ins)
    return found | after


def _ahead(program: KernelProgram) -> list[_Ahead]:
    """For each block, the accesses from its start on before the lanes meet."""
    graph = program.graph
    found = [_Ahead()] * len(graph.blocks)
    changed = True
    while changed:
        changed = False
        for block in reversed(graph.blocks):
            new = _scan(program, block.code, _following(found, block))
            changed |= new != found[block.index]
            found[block.index] = new
    return found


def _following(found: Sequence[_Ahead], block: BasicBlock) -> _Ahead:
    out = _Ahead()
    for x in block.successors:
        if x != EXIT:
            out |= found[x]
    return out


def _pairs(
    program: KernelProgram, ahead: Sequence[_Ahead], conflict: Callable[[_Ahead, _Ahead], bool]
) -> set[int]:
    """Accesses that another one may conflict with before the lanes meet."""
    found: set[int] = set()
    for block in program.graph.blocks:
        then = _following(ahead, block)
        for ins in reversed(block.code):
            here = _accesses(program, ins)
            if _meets(ins):  # it executes for all lanes at once
                then = _Ahead()
                continue
            if conflict(here, then):
                found.add(ins.index)
            then |= here
    return found
