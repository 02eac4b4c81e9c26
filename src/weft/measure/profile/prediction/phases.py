"""Bounds the time between two barriers of a block by the units that its warps share.

At a barrier the warps of a block have done the same work: while they load, the arithmetic units of
the SM are idle, and while they compute, nothing is loaded. Only other blocks of the SM use them
then. A block that has the SM to itself takes the sum of the times of its phases.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from weft.measure.profile import floor
from weft.measure.profile.latency import slots_of
from weft.measure.profile.prediction.constants import PRODUCT_RATE
from weft.measure.profile.work import is_removed, is_warpgroup_product
from weft.values.profile import BULK, Instruction

SCHEDULERS = 4
ALONE_BYTES = 64.0
"""Bytes of a clock that one SM gets from L2, where it has no competition."""
PIPES: Mapping[str, float] = {
    "special": 2.0, "integer": 0.5, "fp32": 0.25, "fp16": 0.25, "fp64": 0.5, "convert": 0.5,
}  # fmt: skip
"""Clocks of an SM for an instruction of one warp, by its unit."""
_PRODUCTS: Mapping[str, float] = {"tf32": 0.5, "e4m3": 2.0, "e5m2": 2.0, "s8": 2.0, "u8": 2.0}
"""The rate of products by the type of their inputs, where it is not that of 16 bits."""


@dataclass
class Phase:
    """The work that the warps of a block have given each unit since a barrier, in clocks."""

    begin: float
    clocks: dict[str, float] = field(default_factory=dict)

    def add(self, asked: Mapping[str, float]) -> None:
        """An instruction."""
        for unit, clocks in asked.items():
            self.clocks[unit] = self.clocks.get(unit, 0.0) + clocks

    def restart(self, clock: float) -> None:
        """Begin again at a barrier."""
        self.begin = clock
        self.clocks.clear()

    def end(self) -> float:
        """The clock at which the busiest unit is done."""
        return self.begin + max(self.clocks.values(), default=0.0)


@dataclass(frozen=True)
class Memory:
    """The place in which reads find their data.

    dram  the part of reads that L2 does not have
    rate  the bytes of a clock that an SM gets from DRAM while all others ask as well
    met   the warps of a block meet at barriers, so that no other uses these units meanwhile
    """

    dram: float
    rate: float
    met: bool = False


def asked(i: Instruction, times: int, warps: float, memory: Memory) -> dict[str, float]:
    """Clocks of each unit for one execution of an instruction by so many warps of a block."""
    if not times or is_removed(i.opcode):
        return {}
    slots = slots_of(i.opcode)
    out = {"issue": warps * slots / SCHEDULERS}
    unit = i.work[0]
    if unit in PIPES:
        out["pipe " + unit] = warps * slots * PIPES[unit]
    each = warps / times
    for a in i.accesses if memory.met else ():
        if a.kind in BULK or a.kind == "copy":
            continue  # these go on behind the barrier
        out["lsu"] = out.get("lsu", 0.0) + each * floor.lsu_steps(a)
        if a.space == "global" and a.kind in floor.READS:
            fetched = each * 32.0 * floor.l2_sectors(a)
            slow = max(0.0, 1 / memory.rate - 1 / ALONE_BYTES)
            clocks = fetched * (1 / ALONE_BYTES + memory.dram * slow)
            out["memory"] = out.get("memory", 0.0) + clocks
    return out


def product_clocks(i: Instruction) -> float:
    """Clocks of the tensor cores of an SM for a product of a warpgroup; 0 for what is none."""
    if not is_warpgroup_product(i.opcode):
        return 0.0
    unit, operations = i.work
    return operations * 128 / (PRODUCT_RATE * _PRODUCTS.get(unit.partition(".")[2], 1.0))
