"""Matrix products of a warpgroup, `wgmma`, as steps of one warp: 16 rows and 8 columns each.

A warp of a warpgroup computes 16 of the 64 rows, so that it needs nothing of the other three. A
tile of the operands lies in memory as the registers of `mma` would: `tensor_operand` has the
layout. All operands have 32 bytes of k, and B has 64 in a sparse product.

The step of fp8 keeps fewer bits than that of `mma`: the tensor cores of sm_90 multiply 8-bit floats
only in `wgmma`.
"""

from __future__ import annotations

from weft.ir import Builder, Val
from weft.ir.tensor_exact import BitStep, IntegerStep, call_bits, call_integer
from weft.ir.tensor_operand import TensorStep
from weft.ir.tensor_prepare import places_of_columns, places_of_rows, prepare_columns, prepare_rows
from weft.ir.tensor_sparse import store_picks
from weft.ir.tensor_step import call_prepared, call_step
from weft.ptx.isa.matrix.warpgroup_form import ROWS, WarpgroupForm

_FP8 = ("e4m3", "e5m2")
_FP8_BITS = 13
"""Fraction bits of the sums of 8-bit floats, and of their f32 results."""


def step_of(form: WarpgroupForm) -> TensorStep:
    """The step of a product of floats."""
    shape = (form.a, form.accumulator, ROWS, form.depth)
    if form.a not in _FP8:
        return TensorStep(*shape, sparse=form.sparse)
    right = "" if form.a == form.b else form.b
    bits = _FP8_BITS
    return TensorStep(*shape, sparse=form.sparse, right=right, fraction=bits, out_mantissa=bits)


class WarpgroupSteps:
    """The steps of one product, emitted into the function that computes it.

    a     the tile of A in memory
    fast  floats are summed by FMAs in f32
    """

    def __init__(
        self, b: Builder, form: WarpgroupForm, a: Val, metadata: Val | None, *, fast: bool
    ) -> None:
        self.b, self.form, self.a, self.step = b, form, a, step_of(form) if not form.exact else None
        self.fast = fast
        if self.step is not None and not fast:
            self._rows = b.array("i8", places_of_rows(self.step).size)
            self._columns = b.array("i8", places_of_columns(self.step).size)
            prepare_rows(b, self.step, a, self._rows)
        self._picks: list[Val] = []
        if metadata is not None and form.selector is not None:
            self._picks = [b.array("i8", 16 * form.depth)]
            store_picks(b, form.a, form.depth, form.selector, metadata, self._picks[0])

    def tile(self, bt: Val, c: Val, d: Val) -> None:
        """D = A*B + C for the 8 columns whose tile is at `bt`."""
        b, form = self.b, self.form
        if form.a == "b1":
            call_bits(b, BitStep("and", ROWS, form.depth), self.a, bt, c, d)
        elif self.step is None:
            step = IntegerStep(form.a, form.b, ROWS, form.depth, form.saturate, form.sparse)
            call_integer(b, step, self.a, bt, c, d, *self._picks)
        elif self.fast:
            call_step(b, self.step, self.a, bt, c, d, *self._picks, fast=True)
        else:
            prepare_columns(b, self.step, bt, self._columns)
            left, right = (self.a, self._rows), (bt, self._columns)
            call_prepared(b, self.step, left, right, c, d, *self._picks)
