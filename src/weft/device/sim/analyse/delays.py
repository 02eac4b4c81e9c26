"""Stores that a schedule may delay: other threads see what follows them first.

A thread's stores reach other threads in any order, unless a fence, a barrier or a release comes
between them. It matters where a thread stores data and then signals others by an atomic or a strong
store: such a store may be delayed, up to the next instruction that orders it.
"""

from __future__ import annotations

from weft.device.sim.analyse.program import KernelProgram
from weft.device.sim.analyse.waits import is_arrival, is_block_barrier, is_warp_sync
from weft.ptx.cfg import EXIT
from weft.ptx.isa.columns import Control, Ordering
from weft.ptx.model import Instruction

WIDEST = 16
"""Bytes of the widest store of a lane that is delayed."""
_FAR = ("global", "generic")


def find(program: KernelProgram) -> tuple[set[int], set[int]]:
    """(stores that may be delayed, instructions that order them), by their indices."""
    tells = _telling(program)
    stores: set[int] = set()
    for block in program.graph.blocks:
        told = any(tells[x] for x in block.successors if x != EXIT)
        for ins in reversed(block.code):
            if told and _may_be_delayed(program, ins):
                stores.add(ins.index)
            told = _before(program, ins, told)
    code = [i for block in program.graph.blocks for i in block.code]
    return stores, {i.index for i in code if stores and orders(program, i)}


def orders(program: KernelProgram, ins: Instruction) -> bool:
    """Return whether the stores before an instruction are seen before those after it."""
    d = program.decoded[ins.index]
    if d.row.ordering in (Ordering.FENCE, Ordering.PROXY_FENCE) or d.row.async_ is not None:
        return True
    if is_block_barrier(ins) or is_arrival(ins) or is_warp_sync(ins):
        return True
    barrier = any(x.barrier for x in d.row.effects)
    return barrier or d.order in ("release", "acq_rel") or d.row.control is Control.CALL


def reaches(program: KernelProgram, ins: Instruction) -> bool:
    """Return whether it accesses global memory in another way than `ld`, `st` and `atom`."""
    row = program.decoded[ins.index].row
    return not (row.is_load or row.is_store or row.is_atomic) and _is_far(program, ins)


def _is_far(program: KernelProgram, ins: Instruction) -> bool:
    d = program.decoded[ins.index]
    return any(x.state_space(d.words) in _FAR for x in d.row.effects)


def _may_be_delayed(program: KernelProgram, ins: Instruction) -> bool:
    d = program.decoded[ins.index]
    if not d.row.is_store or d.space != "global" or d.order == "release" or d.row.async_:
        return False
    sizes = [x.nbytes(d.words) for x in d.row.effects]
    return all(size is not None and size <= WIDEST for size in sizes)


def _tells(program: KernelProgram, ins: Instruction) -> bool:
    """Return whether other threads may learn from an instruction that something has been stored."""
    d = program.decoded[ins.index]
    strong = d.row.is_atomic or (d.row.is_store and d.row.ordering is Ordering.STRONG)
    return strong and _is_far(program, ins)


def _before(program: KernelProgram, ins: Instruction, told: bool) -> bool:
    """Return whether others may be told from `ins` on, before an instruction that orders."""
    return not orders(program, ins) and (told or _tells(program, ins))


def _telling(program: KernelProgram) -> list[bool]:
    """For each block, whether others may be told from its start on."""
    blocks = program.graph.blocks
    found = [False] * len(blocks)
    changed = True
    while changed:
        changed = False
        for block in reversed(blocks):
            told = any(found[x] for x in block.successors if x != EXIT)
            for ins in reversed(block.code):
                told = _before(program, ins, told)
            changed |= told != found[block.index]
            found[block.index] = told
    return found
