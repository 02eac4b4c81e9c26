"""Distinguishes early exits from branches whose sides rejoin and continue.

Two kernels may have the same machine code: in one, a side of a branch stores a value and returns;
in the other, both sides set a value, rejoin, and store it. Compilers turn the first into the
second. So a last block that only stores values that differ between its predecessors is an exit.
"""

from __future__ import annotations

from collections import Counter

from weft.device.sim.analyse.program import KernelProgram
from weft.device.sim.analyse.waits import is_arrival, is_block_barrier, may_change
from weft.ptx.cfg import EXIT
from weft.ptx.isa import decode
from weft.ptx.model import Instruction


def going_on(program: KernelProgram) -> set[int]:
    """The blocks after which a thread does more than exit."""
    blocks = program.graph.blocks
    made = Counter(name for b in blocks for ins in b.code for name in program.defs(ins))
    out = set()
    for block in blocks:
        acts = [i for i in block.code if _acts(i)]
        own = [i for i in acts if all(made[name] < 2 for name in program.uses(i))]
        if own or block.successors != [EXIT]:
            out.add(block.index)
    return out


def _acts(ins: Instruction) -> bool:
    """Return whether other threads may observe its execution."""
    return is_block_barrier(ins) or is_arrival(ins) or may_change(ins, decode(ins).row)
