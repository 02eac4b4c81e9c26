"""Instructions at which lanes or warps wait for each other, and loops that may be waiting."""

from __future__ import annotations

from weft.ptx.cfg import Graph
from weft.ptx.isa import InstructionRow, decode
from weft.ptx.isa.columns import Async, AsyncStep, Completion, Control, Participants, Waits
from weft.ptx.model import Instruction, Operand, Special

_OF_A_WARP = (Participants.MASK, Participants.WARP, Participants.WARPGROUP)
_OF_BLOCKS = (Participants.BLOCK, Participants.CLUSTER)


def is_warp_sync(ins: Instruction) -> bool:
    """Return whether lanes of the warp meet at the instruction before it executes."""
    row = decode(ins).row
    return row.waits is Waits.PARTICIPANTS and row.participants in _OF_A_WARP


def member_mask(ins: Instruction, row: InstructionRow) -> Operand | None:
    """The operand that names the lanes of a warp-wide instruction; None: it is for all of them."""
    if row.participants is not Participants.MASK:
        return None
    return ins.operands[row.position("membermask")]


def is_block_barrier(ins: Instruction) -> bool:
    """Return whether a warp waits for other warps at the instruction."""
    row = decode(ins).row
    return row.waits is Waits.PARTICIPANTS and row.participants in _OF_BLOCKS


def is_cluster_barrier(ins: Instruction) -> bool:
    """Return whether a warp waits for warps of other blocks at the instruction."""
    return is_block_barrier(ins) and decode(ins).row.participants is Participants.CLUSTER


def awaits_warpgroup(ins: Instruction) -> bool:
    """Return whether a warp waits for products of its warpgroup, which all four warps issue."""
    return decode(ins).row.async_ == Async(AsyncStep.WAIT, Completion.PRODUCTS)


def is_arrival(ins: Instruction) -> bool:
    """Return whether a warp arrives at a barrier of the block here without waiting."""
    row = decode(ins).row
    return row.participants is Participants.BLOCK and row.waits is Waits.NOTHING


def may_wait(ins: Instruction) -> bool:
    """Return whether a loop around the instruction may be waiting for another thread."""
    return decode(ins).row.polls


def polls_global(ins: Instruction) -> bool:
    """Return whether a loop around it may wait for a value outside of shared memory."""
    d = decode(ins)
    return d.row.waits in (Waits.VALUE, Waits.LOCK) and d.space != "shared"


_CLOCKS = ("clock", "globaltimer")


def may_change(ins: Instruction, row: InstructionRow) -> bool:
    """Return whether this or another thread can observe a change after the instruction.

    Copies change memory when they are waited for, and the host may change anything when it is
    called. Time is new whenever it is read: a loop that reads a clock may end by itself.
    """
    called = row.control is Control.CALL
    if called or row.async_ is not None or any(x.writes for x in row.effects):
        return True
    return any(isinstance(x, Special) and x.name.startswith(_CLOCKS) for x in ins.operands)


def spin_heads(graph: Graph) -> set[int]:
    """The heads of loops that may be waiting for another thread."""
    return {
        head
        for head, members in graph.loops.items()
        if any(may_wait(i) for m in members for i in graph.blocks[m].code)
    }
