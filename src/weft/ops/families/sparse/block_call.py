"""Describe a product with a block-sparse matrix for the kernels: operands without gaps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from weft.kernels.structs import Int, LongLong, Struct
from weft.ops.core import source
from weft.ops.core.choose import Request
from weft.ops.core.plan import Buffer, Plan, Pointer, Step
from weft.ops.families.sparse.call import Contiguous
from weft.ops.families.sparse.indices import COL, CROW, DENSE, VALUES


@dataclass(frozen=True)
class BlockSizes(Struct):
    """Sizes of a product."""

    inner: Annotated[LongLong, "rows of the dense matrix"]
    columns: Annotated[Int, "of the dense matrix"]


@dataclass(frozen=True)
class BlockCall:
    """A product with `count` blocks of `size` rows and columns.

    inner     rows of the dense matrix
    pointers  of crow_indices, col_indices, values and dense
    index     the C++ type of the indices
    before    copies that make the operands contiguous, with their scratch and seconds
    """

    count: int
    size: int
    block_rows: int
    inner: int
    out: Buffer
    pointers: tuple[Pointer, ...]
    index: str
    before: tuple[Step, ...]
    scratch: tuple[Buffer, ...]
    cost: float

    @property
    def columns(self) -> int:
        return self.out.shape[1]

    @property
    def sizes(self) -> bytes:
        """The struct that the kernels take."""
        return BlockSizes(self.inner, self.columns).pack()

    def plan(self, step: Step) -> Plan:
        return Plan((*self.before, step), (self.out,), self.scratch)


def block_call(request: Request) -> BlockCall:
    """The product of a request of `block_sparse_mm`."""
    made = Contiguous(request)
    crow, values, dense = (made.layout(i) for i in (CROW, VALUES, DENSE))
    (count, size, _), (inner, columns) = values.shape, dense.shape
    rows = crow.shape[0] - 1
    pointers = tuple(made.pointer(i) for i in (CROW, COL, VALUES, DENSE))
    return BlockCall(
        count, size, rows, inner, Buffer((rows * size, columns), dense.dtype), pointers,
        source.ctype(crow.dtype), tuple(made.steps), tuple(made.scratch), made.cost,
    )  # fmt: skip
