"""Tensors with channels: their layout in memory, and their division among blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Request
from weft.ops.core.plan import COUNTERS, Argument, Buffer, Layout, Plan, Pointer, Step, partials
from weft.ops.families.elementwise.copies import contiguous
from weft.ops.families.norm import model
from weft.ops.families.norm.rows import BLOCK
from weft.ops.families.norm.structs import ChannelShape


def flat_order(rank: int) -> tuple[int, ...]:
    """The dimensions with the channels last."""
    return (0, *range(2, rank), 1)


def permuted(x: Layout, order: Sequence[int]) -> Layout:
    """The layout with its dimensions in another order."""
    shape, strides = (tuple(values[d] for d in order) for values in (x.shape, x.strides))
    return Layout(x.dtype, shape, strides, x.aligned)


def order_of(x: Layout) -> tuple[int, ...]:
    """The order in which the kernels read a tensor: channels last where they are in memory."""
    flat = flat_order(len(x.shape))
    return flat if permuted(x, flat).contiguous else tuple(range(len(x.shape)))


def result_like(x: torch.Tensor) -> torch.Tensor:
    """An empty result for x: with the channels last where x has them so."""
    last = x.movedim(1, -1)
    if not last.is_contiguous():
        return x.new_empty(x.shape)
    return last.new_empty(last.shape).movedim(-1, 1)


@dataclass(frozen=True)
class Channels:
    """A call on tensors of one shape: the work of blocks, and copies that come first.

    flat     the channels are last in memory
    ragged   planes are no whole vectors; with `flat`: rows of channels
    plane    elements of a plane; with `flat` and `ragged`: channels
    wide     elements of the largest vectors that the addresses allow
    columns  channels; with `flat` and `ragged`: of the fewest rows that are whole vectors
    small    planes of few elements are no whole vectors, but those of some channels are
    inputs   the addresses of inputs, by their number; None for an omitted one
    size     elements of a channel
    widest   vectors of channels of a block with `flat`, at the most
    """

    request: Request
    dtype: torch.dtype
    flat: bool
    ragged: bool
    plane: int
    vector: int
    wide: int
    channels: int
    columns: int
    inner: int
    count: int
    size: int
    inputs: tuple[Pointer | None, ...]
    outputs: tuple[Buffer, ...]
    before: tuple[Step, ...]
    scratch: tuple[Buffer, ...]
    cost: float
    small: bool = False
    widest: int = 8

    @property
    def fold(self) -> int:
        """The fewest channels whose planes are whole vectors."""
        return self.vector // math.gcd(self.plane, self.vector)

    @property
    def width(self) -> int:
        """Vectors of channels of a block: 128 bytes of a row are enough for full bandwidth."""
        if self.small:
            return self.plane * self.fold // self.vector
        most = 1 << (self.columns // self.vector - 1).bit_length()
        return min(self.widest, most) if self.flat else 1

    @property
    def tiles(self) -> int:
        """Blocks that have all channels."""
        if self.small:
            return self.channels // self.fold
        return cdiv(self.columns // self.vector, self.width) if self.flat else self.channels

    @property
    def summing(self) -> int:
        """Blocks for each channel in a sum: one wave, because the last block joins their sums."""
        if self.tiles > COUNTERS:
            return 1
        least = cdiv(self.count, BLOCK // self.width * self.per_thread)
        return max(
            1, min(model.CHANNEL_BLOCKS_PER_SM * self.request.target.sms // self.tiles, least)
        )

    @property
    def writing(self) -> int:
        """Blocks for each channel where results are written: short ones if all SMs have few."""
        longest = max(model.CHANNEL_VECTORS, self._worth)
        some = (cdiv(self.count, BLOCK // self.width * (longest // n)) for n in (4, 2))
        most = model.WRITING_BLOCKS_PER_SM * self.request.target.sms
        whole = cdiv(self.count, BLOCK // self.width * longest)
        return next((parts for parts in some if parts * self.tiles <= most), whole)

    @property
    def per_thread(self) -> int:
        """Vectors of a thread in a block of its own."""
        few = self.small or (self.flat and self.count < model.FEW_ROWS)
        return max(model.CHANNEL_VECTORS * (2 if few else 1), self._worth)

    @property
    def _worth(self) -> int:
        """Vectors of a thread with the bytes that are worth a block."""
        return model.CHANNEL_BYTES // (self.vector * int(self.dtype.itemsize))

    def folded(self) -> Channels:
        """The same for a kernel that writes results: odd rows of channels in whole vectors.

        Several rows are one of the kernel's. Sums would be those of its columns, which are more
        than channels: to join them takes as long as whole vectors save.
        """
        fold, elements = self.wide // self.vector, self.size * self.channels
        if not self.flat or fold == 1 or elements * self.dtype.itemsize < model.FOLD_BYTES:
            return self
        columns = self.channels * fold
        count = cdiv(elements, columns)
        return replace(
            self, ragged=True, plane=self.channels, vector=self.wide, columns=columns,
            inner=elements - (count - 1) * columns, count=count,
        )  # fmt: skip

    def shape(self, parts: int) -> bytes:
        """The struct Shape of the kernels."""
        each = cdiv(self.count, parts)
        numbers = (self.columns, self.inner, self.count, self.width, parts, each, self.plane)
        return ChannelShape(*numbers).pack()

    def kernel(self, file: str, name: str, *dtypes: torch.dtype, last: Sequence[str] = ()) -> Any:
        """A kernel for these tensors and further dtypes."""
        words = map(source.ctype, (self.dtype, *dtypes))
        walk = source.template("Walk", self.vector, self.flat, self.ragged)
        if self.small:
            walk = source.template("Planes", self.vector)
        text = ", ".join((*words, walk, *last))
        return source.kernel(f"norm/{file}", f"{name}<{text}>", **ChannelShape.define())

    def step(self, kernel: Any, parts: int, *args: Any) -> Step:
        """A launch with so many blocks for each channel."""
        return Step(kernel, (self.tiles * parts,), (BLOCK,), args, early=True)

    def output(self, number: int) -> Pointer:
        """The address of an output."""
        return Pointer(len(self.request.inputs) + number)

    def extra(self, number: int) -> Pointer:
        """The address of a scratch buffer that a plan adds."""
        return self.output(len(self.outputs) + len(self.scratch) + number)

    def found(self, number: int, numbers: int) -> tuple[Argument, tuple[Buffer, ...]]:
        """Memory for so many numbers of each channel and block of a sum.

        Also returns the scratch buffer that it is, the given one among those of the plan, if any.
        """
        if self.summing == 1:
            return None, ()
        shared = partials(4 * numbers * self.summing * self.channels)
        if shared is not None:
            return shared, ()
        made = Buffer((self.summing * self.channels, numbers), torch.float32)
        return self.extra(number), (made,)

    def plan(self, *steps: Step, scratch: tuple[Buffer, ...] = ()) -> Plan:
        """The plan of some launches."""
        return Plan((*self.before, *steps), self.outputs, (*self.scratch, *scratch))


def channels(request: Request, numbers: Sequence[int], outputs: Sequence[Buffer]) -> Channels:
    """The call of a request whose inputs `numbers` are tensors of one shape.

    All are read in the order of the last one; those in another order, and weights with gaps, are
    copied first.
    """
    leader = request.inputs[numbers[-1]]
    assert leader is not None
    order = order_of(leader)
    flat = order == flat_order(len(order))
    inputs: list[Pointer | None] = []
    before: list[Step] = []
    scratch: list[Buffer] = []
    cost, aligned = 0.0, 16
    for number, x in enumerate(request.inputs):
        pointer = None if x is None else Pointer(number)
        ordered = permuted(x, order) if x is not None and number in numbers else x
        if ordered is not None and not ordered.contiguous:
            pointer = Pointer(len(request.inputs) + len(outputs) + len(scratch))
            copy = contiguous(ordered, Pointer(number), pointer, request.target)
            before += copy.steps
            cost += copy.cost
            scratch.append(Buffer(ordered.shape, ordered.dtype))
        elif x is not None and number in numbers:
            aligned = min(aligned, x.aligned)
        inputs.append(pointer)
    batch, n = leader.shape[:2]
    plane = math.prod(leader.shape[2:])
    wide = max(1, aligned // leader.itemsize)
    vector = math.gcd(n if flat else plane, wide)
    # Most vectors of a longer plane are whole.
    ragged = not flat and vector < wide and plane >= 16 * wide
    fold = wide // vector
    small = not flat and not ragged and fold > 1 and n % fold == 0 and plane * fold // wide <= BLOCK
    vector = wide if ragged or small else vector
    inner = cdiv(plane, vector) + 1 if ragged else plane // vector
    count = plane if flat else 1 if small else inner
    return Channels(
        request, leader.dtype, flat, ragged, plane, vector, wide, n, n, 1 if flat else inner,
        batch * count, batch * plane, tuple(inputs), tuple(outputs), tuple(before),
        tuple(scratch), cost, small,
    )  # fmt: skip


def result_of(x: Layout) -> Buffer:
    """The buffer of a result for x; see `result_like`."""
    order = order_of(x)
    dense = Buffer(tuple(x.shape[d] for d in order), x.dtype).steps
    strides = [dense[order.index(d)] for d in range(len(order))]
    return Buffer(x.shape, x.dtype, strides=tuple(strides))
