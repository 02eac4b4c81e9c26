"""The job of a tensor copy, for whichever map it is given.

A map is decoded when the copy is issued, and nothing of it is read later.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.device.sim.memory.tensors.boxes import BoxPlan
from weft.device.tensor_map_layout import LEAST_SLICED
from weft.ir import Builder, Val

_PARAMETERS = (("ptr", 0), ("ptr", 0), ("ptr", 0), ("i64", 0), ("i32", 0))
_REASON = ("i64", 0)


def plan(b: Builder, rank: int, *, columns: bool, loads: bool) -> Callable[..., Val]:
    """The function (map, coordinates, job, window, offset): fills the job; i64.

    `coordinates` has 32 words for each dimension, then for each offset of im2col; it points to
    those of one lane. The result is 0, or a Refusal and, from bit 8 on, the number that is wrong.
    """

    def body(x: Builder, args: list[Val]) -> Val:
        made = BoxPlan(x, args, rank, columns, loads)
        interleave = made.interleave()
        if rank >= LEAST_SLICED:
            with x.when(interleave.ne(0), rare=True):
                x.ret(x.helper(f"{name}_slices", _PARAMETERS, _REASON, slices)(*args))
        made.fill()
        return x.integer("i64", 0)

    def slices(x: Builder, args: list[Val]) -> Val:
        from weft.device.sim.memory.tensors.slices import SlicedPlan

        SlicedPlan(x, args, rank, columns, loads).fill()
        return x.integer("i64", 0)

    mode = "columns" if columns else "tile"
    name = f"tensor_plan_{'load' if loads else 'store'}_{mode}_{rank}"
    return b.helper(name, _PARAMETERS, _REASON, body)
