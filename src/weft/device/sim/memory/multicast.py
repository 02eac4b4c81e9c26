"""`.multicast::cluster`: one copy with a target in each block of a mask.

Bit i of the mask names rank i. The target and the mbarrier have the same offset in shared memory
of every block, and shared memory of the blocks of a cluster lies `1 << CLUSTER_SHIFT` bytes apart.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.device.sim.layout import CLUSTER_SHIFT, Fault, SlotFields
from weft.device.sim.memory import checks
from weft.device.sim.memory.accessing import Accessing
from weft.ir import Val

Each = Callable[[Val, Val], None]
"""Emits code for one block: (lanes whose mask has it, bytes from the own addresses to its own)."""


def for_each_block(e: Accessing, lanes: Val, masks: Val, each: Each) -> None:
    """Emit `each` in a loop over the blocks of the cluster; `masks` has each lane's, 32 x i32."""
    b = e.b
    size = checks.cluster_size(b, e.context)
    beyond = lanes & e.bits_of((masks >> size).ne(0))
    _refuse(e, beyond, Fault.RANKS)
    with b.loop(size) as rank:
        chosen = lanes & e.bits_of(((masks >> rank) & 1).ne(0))
        with b.when(chosen.ne(0)):
            group = b.load("ptr", 0, b.at(e.slot, SlotFields.GROUP))
            exited = b.load("i32", 0, b.at(group, SlotFields.EXITED)) >> rank
            _refuse(e, b.select((exited & 1).ne(0), chosen, b.integer("i32", 0)), Fault.EXITED)
            each(chosen, ((rank << CLUSTER_SHIFT) - e.rank_base).sext("i64"))


def _refuse(e: Accessing, lanes: Val, fault: int) -> None:
    """End the launch if there are lanes."""
    b = e.b
    with b.when(lanes.ne(0), rare=True):
        e.fault(fault, b.intrinsic("cttz", [lanes], extra="false"))
