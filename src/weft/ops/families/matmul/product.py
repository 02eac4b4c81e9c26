"""Describe a matrix product for the kernels: strided operands, batch, bias, activation."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch

from weft.kernels import Kernel, cdiv
from weft.ops.core.choose import Request
from weft.ops.core.layouts import merged
from weft.ops.core.plan import Argument, Buffer, Counters, Layout, Plan, Pointer, Step
from weft.ops.families.elementwise.copies import contiguous

ACTIVATIONS = ("", "relu", "gelu", "silu", "gelu_tanh")
VECTOR, SCALAR, ALONG_K = 0, 1, 2
"""Copy modes of an operand: 16 bytes along M or N, 4 bytes along M or N, 4 bytes along K."""


class Operand(NamedTuple):
    """One matrix of a batch: its address and strides along M or N, along K and the batch.

    base      the alignment of its address, at most 16 bytes
    constant  True if no kernel before writes it: it may be read before they have ended
    """

    pointer: Pointer
    along: int
    k: int
    batch: int
    base: int
    constant: bool = False

    @property
    def aligned(self) -> bool:
        return self.base == 16

    def mode(self, extent: int, depth: int) -> int | None:
        """The copy mode of its tiles; None if it must be made contiguous first."""
        if self.k == 1 or depth == 1:
            return ALONG_K
        if self.along != 1 and extent != 1:
            return None
        whole = self.aligned and extent % 4 == 0 and self.k % 4 == 0 and self.batch % 4 == 0
        return VECTOR if whole else SCALAR

    def pitch(self, mode: int) -> int:
        """The stride that is not 1."""
        return self.along if mode == ALONG_K else self.k


class Side(NamedTuple):
    """Access to an operand.

    k_major  True if K is contiguous
    bytes    of a copy
    pitch    the stride that is not 1
    """

    k_major: bool
    bytes: int
    pitch: int


def side(x: Operand, extent: int, depth: int, size: int = 2) -> Side:
    """The widest copies that the address and the strides of an operand allow.

    size  bytes of an element

    A row without a pitch may end where its memory ends, so its copies are whole: compute-sanitizer
    counts all bytes of a copy as read, also those that cp.async leaves out.
    """
    k_major = x.k == 1 or depth == 1
    pitch = x.along if k_major else x.k
    apart = pitch or (depth if k_major else extent)
    wide = 16
    while wide > size and (x.base % wide or size * apart % wide or size * x.batch % wide):
        wide //= 2
    return Side(k_major, wide, pitch)


class Bias(NamedTuple):
    """A bias, and its strides along the batch, M and N; 0 if it repeats."""

    pointer: Pointer
    batch: int
    m: int
    n: int


class Epilogue(NamedTuple):
    """Kernels that complete results by more than a bias and an activation.

    file   has kernels with the names of pipelined.cu
    types  arguments of their templates after the type of the elements
    args   the arguments that these have in the place of a bias
    """

    file: str
    types: tuple[str, ...]
    args: tuple[Argument, ...]


class Split(NamedTuple):
    """Parts of K, the K of each, and the elements of a tile of C."""

    splits: int
    each: int
    tile: int


@dataclass(frozen=True)
class Product:
    """C[batch, M, N] = activation(A[batch, M, K] B[batch, K, N] + bias).

    stored  the dtype of C; None: that of the operands
    """

    batch: int
    m: int
    n: int
    k: int
    a: Operand
    b: Operand
    bias: Bias | None
    row_c: int
    column_c: int
    activation: int
    out: Buffer
    before: tuple[Step, ...] = ()
    scratch: tuple[Buffer, ...] = ()
    inputs: int = 2
    epilogue: Epilogue | None = None
    stored: torch.dtype | None = None

    @property
    def c(self) -> Pointer:
        return Pointer(self.inputs)

    def grid(self, blocks: int) -> tuple[int, int, int]:
        """The grid of so many blocks for each product; products past the last have no work."""
        return blocks, min(self.batch, 32768), cdiv(self.batch, 32768)

    @property
    def sides(self) -> tuple[Side, Side]:
        """Access to both operands."""
        size = self.out.dtype.itemsize
        return side(self.a, self.m, self.k, size), side(self.b, self.n, self.k, size)

    @property
    def bias_pointer(self) -> Argument:
        return self.bias.pointer if self.bias else None

    @property
    def row_bias(self) -> bool:
        """True if the bias differs from row to row."""
        return self.bias is not None and self.bias.m != 0

    def transposed(self) -> Product:
        """The same product as the transpose of B' A'."""
        bias = self.bias and self.bias._replace(m=self.bias.n, n=self.bias.m)
        return replace(
            self, m=self.n, n=self.m, a=self.b, b=self.a, bias=bias, row_c=self.column_c,
            column_c=self.row_c,
        )  # fmt: skip

    def problem(self, splits: int, each: int, tiles: tuple[int, int], lda: int, ldb: int) -> bytes:
        """The struct that the kernels take."""
        strides = (self.bias.m, self.bias.n, self.bias.batch) if self.bias else (0, 0, 0)
        return struct.pack(
            "<6i12q3i4x", self.m, self.n, self.k, splits, each, self.batch, lda, ldb, self.a.along,
            self.a.k, self.a.batch, self.b.batch, self.m * self.n, self.row_c, self.column_c,
            *strides, *tiles, self.a.constant,
        )  # fmt: skip

    def scratch_number(self) -> Pointer:
        """The number of the next scratch buffer."""
        return Pointer(self.inputs + 1 + len(self.scratch))

    def plan(
        self, kernel: Kernel, tiles: tuple[int, int], threads: int, pitches: tuple[int, int],
        shared: int = 0, early: bool = False,
    ) -> Plan:  # fmt: skip
        """The plan of a kernel that computes each tile by one block; see Step.early."""
        problem = self.problem(1, max(self.k, 1), tiles, *pitches)
        args = (self.a.pointer, self.b.pointer, self.bias_pointer, self.c, problem)
        grid = self.grid(tiles[0] * tiles[1])
        step = Step(kernel, grid, (threads,), args, shared, early=early)
        return Plan((*self.before, step), (self.out,), self.scratch)

    def split_plan(
        self, kernel: Kernel, tiles: tuple[int, int], threads: int, pitches: tuple[int, int],
        shared: int, split: Split, early: bool = False,
    ) -> Plan:  # fmt: skip
        """The plan of a kernel whose last block of a tile adds the parts of K; see Step.early."""
        blocks = tiles[0] * tiles[1] * split.splits
        scratch: tuple[Buffer, ...] = ()
        parts: tuple[Argument, ...] = (None, None)
        if split.splits > 1:
            scratch = (Buffer((self.batch * blocks * split.tile,), torch.float32),)
            parts = (self.scratch_number(), Counters())
        problem = self.problem(split.splits, split.each, tiles, *pitches)
        args = (self.a.pointer, self.b.pointer, self.bias_pointer, self.c, *parts, problem)
        step = Step(kernel, self.grid(blocks), (threads,), args, shared, early=early)
        return Plan((*self.before, step), (self.out,), (*self.scratch, *scratch))


# ---- from tensors to a product -----------------------------------------------------------------
class Matrices(NamedTuple):
    """An argument as a batch of matrices, with strides for the broadcast batch."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    layout: Layout
    pointer: Pointer


def _matrices(x: Layout, left: bool, number: int) -> Matrices:
    """Treat a vector as a row on the left and as a column on the right."""
    if len(x.shape) > 1:
        return Matrices(x.shape, x.strides, x, Pointer(number))
    (size,), (stride,) = x.shape, x.strides
    if left:
        return Matrices((1, size), (size * stride, stride), x, Pointer(number))
    return Matrices((size, 1), (stride, 1), x, Pointer(number))


def _broadcast(x: Matrices, lead: Sequence[int]) -> Matrices:
    """Expand to a whole batch; strides are 0 for repeated matrices."""
    missing = len(lead) - (len(x.shape) - 2)
    pairs = zip(x.shape[:-2], x.strides[:-2], strict=True)
    strides = [0] * missing + [0 if size == 1 else stride for size, stride in pairs]
    return x._replace(shape=(*lead, *x.shape[-2:]), strides=(*strides, *x.strides[-2:]))


class ProductBuilder:
    """Build a product: add copies of operands that no kernel can read."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.steps: list[Step] = []
        self.scratch: list[Buffer] = []

    def copied(self, x: Matrices) -> Matrices:
        """Return a contiguous copy."""
        end = Pointer(len(self.request.inputs) + 1 + len(self.scratch))
        view = Layout(x.layout.dtype, x.shape, x.strides, x.layout.aligned)
        self.steps += contiguous(view, x.pointer, end, self.request.target).steps
        buffer = Buffer(x.shape, x.layout.dtype)
        self.scratch.append(buffer)
        dense = Layout(x.layout.dtype, x.shape, buffer.steps, 16)
        return Matrices(x.shape, buffer.steps, dense, end)

    def operand(self, x: Matrices, left: bool) -> tuple[int, Operand]:
        """(size of the batch, operand); copied if its strides are not supported."""
        along, k = (-2, -1) if left else (-1, -2)
        walk = merged(x.shape[:-2], [x.strides[:-2]])
        batch = walk.strides[0][0] if walk.sizes != (1,) else 0
        candidate = Operand(x.pointer, x.strides[along], x.strides[k], batch, x.layout.aligned)
        if len(walk.sizes) > 1 or candidate.mode(x.shape[along], x.shape[k]) is None:
            return self.operand(self.copied(x), left)
        return walk.sizes[0], candidate


class Roles(NamedTuple):
    """Numbers of the inputs that are operands; `transposed`: the right one is [N, K]."""

    left: int
    right: int
    bias: int | None = None
    transposed: bool = False


def product_of(request: Request, roles: Roles) -> Product:
    """The product of a request."""
    left, right = request.inputs[roles.left], request.inputs[roles.right]
    assert left is not None and right is not None
    if roles.transposed:
        right = right._replace(shape=right.shape[::-1], strides=right.strides[::-1])
    a, b = _matrices(left, True, roles.left), _matrices(right, False, roles.right)
    lead = tuple(torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]))
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    making = ProductBuilder(request)
    rows = merged(a.shape[:-1], [a.strides[:-1]])
    if len(b.shape) == 2 and len(rows.sizes) == 1:
        m = rows.sizes[0]  # one B: the rows of all A matrices form one matrix
        a = a._replace(shape=(m, k), strides=(rows.strides[0][0], a.strides[-1]))
        size, first_operand = making.operand(a, True)
        _, second = making.operand(b, False)
    else:
        size, first_operand = making.operand(_broadcast(a, lead), True)
        other, second = making.operand(_broadcast(b, lead), False)
        size = max(size, other)
    shape = (*lead, *left.shape[-2:-1], *(right.shape[-1:] if len(right.shape) > 1 else ()))
    return Product(
        size, m, n, k, first_operand, second, _bias(request, roles.bias), n, 1,
        ACTIVATIONS.index(request.options.get("activation", "")), Buffer(shape, left.dtype),
        tuple(making.steps), tuple(making.scratch), len(request.inputs),
    )  # fmt: skip


def _bias(request: Request, number: int | None) -> Bias | None:
    bias = None if number is None else request.inputs[number]
    if number is None or bias is None:
        return None
    shape = (1,) * (2 - len(bias.shape)) + bias.shape
    strides = (0,) * (2 - len(bias.shape)) + bias.strides
    m, n = (stride if size > 1 else 0 for size, stride in zip(shape, strides, strict=True))
    return Bias(Pointer(number), 0, m, n)
