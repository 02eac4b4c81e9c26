"""Instructions at which lanes or warps wait for each other, and loops that may be waiting."""

from __future__ import annotations

from weft.device.sim.analyse.validate import slots
from weft.ptx.cfg import Graph
from weft.ptx.isa import Row
from weft.ptx.model import Instruction, Operand, Special


def is_warp_sync(ins: Instruction) -> bool:
    """Lanes of the warp meet here before anything happens."""
    return "sync" in ins.parts and not is_block_barrier(ins) and ins.parts[0] != "barrier"


def member_mask(ins: Instruction, row: Row) -> Operand | None:
    """The operand that names the lanes of a warp-wide instruction; None: it is for all of them."""
    places = [i for i, slot in enumerate(slots(row.syntax)) if slot.name == "membermask"]
    return ins.operands[places[0]] if places and places[0] < len(ins.operands) else None


def is_block_barrier(ins: Instruction) -> bool:
    """A barrier at which a warp waits for other warps."""
    return (
        ins.parts[0] in ("bar", "barrier") and "warp" not in ins.parts and "arrive" not in ins.parts
    )


def may_wait(ins: Instruction) -> bool:
    """A loop around such an instruction may be waiting for another thread."""
    kind = ins.parts[0]
    if kind == "ld":
        return any(x in ins.parts for x in ("volatile", "relaxed", "acquire", "mmio"))
    return kind in ("atom", "mbarrier", "nanosleep")


_CLOCKS = ("clock", "globaltimer")
_QUIET = {
    "ld", "ldu", "ldmatrix", "bar", "barrier", "membar", "fence", "setmaxnreg", "griddepcontrol",
}  # fmt: skip
"""Rows with a side effect that change no memory: they read, or they wait."""


def may_change(ins: Instruction, row: Row) -> bool:
    """Can another thread, or this one, see something new after this instruction?

    Time is new whenever it is read: a loop that reads a clock may end by itself.
    """
    if not row.side_effect:
        return any(isinstance(x, Special) and x.name.startswith(_CLOCKS) for x in ins.operands)
    if ins.parts[0] == "wmma":
        return "load" not in ins.parts
    if ins.parts[0] == "mbarrier":
        return not {"test_wait", "try_wait"} & set(ins.parts)
    return ins.parts[0] not in _QUIET


def spin_heads(graph: Graph) -> set[int]:
    """Where loops start that may be waiting for another thread."""
    return {
        head
        for head, members in graph.loops.items()
        if any(may_wait(i) for m in members for i in graph.blocks[m].code)
    }
