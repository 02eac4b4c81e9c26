"""Instructions at which lanes or warps wait for each other, and loops that may be waiting."""

from __future__ import annotations

from weft.ptx.cfg import Graph
from weft.ptx.model import Instruction


def is_warp_sync(ins: Instruction) -> bool:
    """Lanes of the warp meet here before anything happens."""
    return "sync" in ins.parts and not is_block_barrier(ins) and ins.parts[0] != "barrier"


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


def spin_heads(graph: Graph) -> set[int]:
    """Where loops start that may be waiting for another thread."""
    return {
        head
        for head, members in graph.loops.items()
        if any(may_wait(i) for m in members for i in graph.blocks[m].code)
    }
