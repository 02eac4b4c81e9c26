"""Matrix products of a warpgroup, `wgmma`, as steps of one warp: 16 rows and 8 columns each.

A warp of a warpgroup computes 16 of the 64 rows, so that it needs nothing of the other three. A
tile of the operands lies in memory as the registers of `mma` would: `tensor_operand` has the
layout. All operands have 32 bytes of k, and B has 64 in a sparse product.

The step of fp8 keeps fewer bits than that of `mma`: the tensor cores of sm_90 multiply 8-bit floats
only in `wgmma`.
"""

from __future__ import annotations

from weft.ir.builder import Builder, Val
from weft.ir.tensor_exact import BitStep, IntegerStep, call_bits, call_integer
from weft.ir.tensor_layout import WIDTH, packed
from weft.ir.tensor_operand import N, TensorStep
from weft.ir.tensor_prepare import places_of_columns, places_of_rows, prepare_columns, prepare_rows
from weft.ir.tensor_sparse import store_picks
from weft.ir.tensor_step import call_prepared, call_step
from weft.records import dataclass

ROWS = 16
"""Rows of a warp."""
PIECE = 16
"""Bytes of k of one row that lie together in every layout of shared memory."""
PIECES = 2
"""Pieces of a row of A; B has twice as many in a sparse product."""
REGISTER = 128
"""Bytes of a register of a warp."""
_FP8 = ("e4m3", "e5m2")
_FP8_BITS = 13
"""Fraction bits of the sums of 8-bit floats, and of their f32 results."""


@dataclass(frozen=True)
class WarpgroupForm:
    """One form of `wgmma.mma_async`: columns, types, modifiers, and where its operands lie.

    left       A is in shared memory, not in registers
    turned     A, B are stored with neighbouring rows (columns) together, not neighbouring k
    negated    the products are subtracted
    selector   of the metadata; None: A is dense
    """

    n: int
    a: str
    b: str
    accumulator: str
    saturate: bool = False
    left: bool = True
    turned: tuple[bool, bool] = (False, False)
    negated: bool = False
    selector: int | None = None

    @property
    def sparse(self) -> bool:
        return self.selector is not None

    @property
    def depth(self) -> int:
        """Products of one sum."""
        return 8 * PIECE * PIECES // WIDTH[self.a]

    @property
    def pieces(self) -> int:
        """Pieces of a column of B."""
        return 2 * PIECES if self.sparse else PIECES

    @property
    def tile_registers(self) -> int:
        """Registers of the accumulators of 8 columns."""
        return 4 // packed(self.accumulator)

    @property
    def registers(self) -> int:
        """Registers of all accumulators."""
        return self.n // N * self.tile_registers

    @property
    def name(self) -> str:
        """An identifier of the function that computes it."""
        words = [f"n{self.n}", self.a, self.b, self.accumulator, f"t{sum(self.turned)}"]
        words += ["left"] * self.left + ["minus"] * self.negated + ["sat"] * self.saturate
        words += ["a"] * self.turned[0] + ([] if self.selector is None else [f"sp{self.selector}"])
        return "wgmma." + ".".join(words)

    @property
    def step(self) -> TensorStep:
        """The step of a product of floats."""
        right = "" if self.a == self.b else self.b
        step = TensorStep(self.a, self.accumulator, ROWS, self.depth, sparse=self.sparse)
        if self.a not in _FP8:
            return step
        return TensorStep(
            self.a, self.accumulator, ROWS, self.depth, sparse=self.sparse, right=right,
            fraction=_FP8_BITS, out_mantissa=_FP8_BITS,
        )  # fmt: skip

    @property
    def exact(self) -> bool:
        """True if it computes with integers."""
        return self.accumulator == "s32"

    @property
    def sign(self) -> int:
        """The sign bits of A in a 32-bit word."""
        return {8: 0x80808080, 16: 0x80008000, 32: 0x80000000}[WIDTH[self.a]]


class WarpgroupSteps:
    """The steps of one product, emitted into the function that computes it.

    a     the tile of A in memory
    fast  floats are summed by FMAs in f32
    """

    def __init__(
        self, b: Builder, form: WarpgroupForm, a: Val, metadata: Val | None, *, fast: bool
    ) -> None:
        self.b, self.form, self.a = b, form, a
        self.fast = fast and not form.exact
        self.prepares = not (form.exact or fast)
        if self.prepares:
            self._rows = b.array("i8", places_of_rows(form.step).size)
            self._columns = b.array("i8", places_of_columns(form.step).size)
            prepare_rows(b, form.step, a, self._rows)
        self._picks: list[Val] = []
        if metadata is not None and form.selector is not None:
            self._picks = [b.array("i8", 16 * form.depth)]
            store_picks(b, form.a, form.depth, form.selector, metadata, self._picks[0])

    def tile(self, bt: Val, c: Val, d: Val) -> None:
        """D = A*B + C for the 8 columns whose tile is at `bt`."""
        b, form = self.b, self.form
        if form.a == "b1":
            call_bits(b, BitStep("and", ROWS, form.depth), self.a, bt, c, d)
        elif form.exact:
            step = IntegerStep(form.a, form.b, ROWS, form.depth, form.saturate, form.sparse)
            call_integer(b, step, self.a, bt, c, d, *self._picks)
        elif self.fast:
            call_step(b, form.step, self.a, bt, c, d, *self._picks, fast=True)
        else:
            prepare_columns(b, form.step, bt, self._columns)
            left, right = (self.a, self._rows), (bt, self._columns)
            call_prepared(b, form.step, left, right, c, d, *self._picks)
