"""The form of a matrix product of a warpgroup, as its instruction spells it."""

from __future__ import annotations

from weft.ir.tensor_layout import WIDTH, N, packed
from weft.records import dataclass

ROWS = 16
"""Rows of a warp."""
PIECE = 16
"""Bytes of k of one row that lie together in every layout of shared memory."""
PIECES = 2
"""Pieces of a row of A; B has twice as many in a sparse product."""
REGISTER = 128
"""Bytes of a register of a warp."""


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
    def shared_bytes(self) -> int:
        """Bytes of shared memory that a product reads, for its four warps."""
        left = 4 * ROWS * PIECES if self.left else 0
        return (left + self.n * self.pieces) * PIECE

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
    def exact(self) -> bool:
        """True if it computes with integers."""
        return self.accumulator == "s32"

    @property
    def sign(self) -> int:
        """The sign bits of A in a 32-bit word."""
        return {8: 0x80808080, 16: 0x80008000, 32: 0x80000000}[WIDTH[self.a]]
