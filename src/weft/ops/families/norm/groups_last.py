"""Plan group norm of tensors whose channels are last in memory; the results have them last, too."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import torch

from weft.kernels import cdiv
from weft.kernels.structs import Int, Struct
from weft.ops.core import source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.plan import Buffer, Layout, Plan, Pointer, Step
from weft.ops.families.elementwise.copies import contiguous
from weft.ops.families.norm import model
from weft.ops.families.norm.channels import flat_order, permuted
from weft.ops.families.norm.forward import epsilon
from weft.ops.families.norm.rows import BLOCK, RowJob, row_job

WeightSums = Callable[
    [RowJob, Pointer, tuple[int, int], Callable[[Buffer], Pointer]], tuple[Step, ...]
]
"""Launches that add rows of parts, with buffers that the last argument adds."""
SILU = "group_norm_silu"
"""Ops whose names begin so pass their results through silu."""
WIDEST = BLOCK
"""Channels of a group at the most: a thread has one at least."""


@dataclass(frozen=True)
class GroupsLast(Struct):
    """The work of the blocks of groups_last.cu."""

    samples: Int
    inner: Annotated[Int, "places of a sample"]
    channels: Int
    share: Annotated[Int, "channels of a group"]
    width: Annotated[Int, "channels of a block, whole groups"]
    tiles: Annotated[Int, "blocks that share a place"]
    parts: Annotated[Int, "blocks that share the places of a sample"]
    each: Annotated[Int, "places of a block"]


def stays_last(x: Any, groups: int) -> bool:
    """True if the results for x, a layout or a tensor, have their channels last."""
    rank = len(x.shape)
    if rank < 3 or not 0 < x.shape[1] // groups <= WIDEST:
        return False
    if isinstance(x, Layout):
        return not x.contiguous and permuted(x, flat_order(rank)).contiguous
    return not x.is_contiguous() and x.permute(flat_order(rank)).is_contiguous()


def result(x: Layout) -> Buffer:
    """A result like x."""
    return Buffer(x.shape, x.dtype, strides=x.strides)


class Shape(NamedTuple):
    """The elements of a vector, and the work of blocks."""

    vector: int
    work: GroupsLast

    @property
    def groups(self) -> int:
        """Groups of a block."""
        return self.work.width // self.work.share

    @property
    def blocks(self) -> int:
        return self.work.samples * self.work.tiles * self.work.parts

    @property
    def row(self) -> int:
        """Elements of a group."""
        return self.work.share * self.work.inner

    @property
    def sums(self) -> Buffer:
        """Two sums for each group and part."""
        groups = self.work.samples * self.work.channels // self.work.share
        return Buffer((groups, self.work.parts, 2), torch.float32)

    @property
    def why(self) -> str:
        each = f"{self.groups} groups and {self.work.each} places"
        return f"{self.blocks} blocks of {each}, in two passes"

    @property
    def pairs(self) -> int:
        """Bytes of the sums of a block's threads."""
        return 8 * BLOCK * self.vector


def _shape(x: Layout, groups: int, sms: int) -> Shape:
    """The widest vectors, and blocks that leave the fewest threads without work."""
    samples, channels, inner = x.shape[0], x.shape[1], math.prod(x.shape[2:])
    share = channels // groups
    vector = math.gcd(channels, max(1, x.aligned // x.itemsize))
    counts = [n for n in range(1, groups + 1) if groups % n == 0]
    while True:
        fitting = [n * share for n in counts if n * share % vector == 0]
        fitting = [width for width in fitting if width // vector <= BLOCK]
        if fitting:
            break
        vector //= 2

    def busy(width: int) -> int:
        wide = width // vector
        return BLOCK // wide * wide

    width = max(fitting, key=lambda one: (busy(one), one))
    tiles, deep = channels // width, BLOCK // (width // vector)
    wanted = cdiv(model.LAST_BLOCKS_PER_SM * sms, samples * tiles)
    parts = max(1, min(wanted, model.LAST_PARTS, cdiv(inner, deep * model.LAST_PLACES)))
    each = cdiv(inner, parts)
    work = GroupsLast(samples, inner, channels, share, width, tiles, cdiv(inner, each), each)
    return Shape(vector, work)


def forward(request: Request, outputs: tuple[Buffer, ...]) -> list[Candidate]:
    """The candidate of the forward pass, of a tensor that `stays_last`."""
    x, gpu = request.first, request.target
    shape = _shape(x, request.options["num_groups"], gpu.sms)
    made = row_job(request, shape.row, (0,), (1, 2), outputs, forward=True, in_place=(0,))
    moved = x.numel * x.itemsize
    time = made.cost + model.two_pass_time(gpu, 2 * moved, moved, moved, 2)
    build = functools.partial(_forward_plan, made, shape)
    return [Candidate("channels last", time, shape.why, build)]


def _forward_plan(made: RowJob, shape: Shape) -> Plan:
    x, w, b = made.inputs
    saved = (made.output(1), made.output(2)) if len(made.outputs) > 1 else (None, None)
    sums, shifts, work = made.extra(0), made.extra(1), shape.work.pack()
    first, second = _kernels(made, shape, "sum_groups", "apply_groups")
    end = (work, epsilon(made.request))
    steps = (
        Step(first, (shape.blocks,), (BLOCK,), (x, sums, shifts, work),
             shape.pairs + 4 * shape.groups, early=True),
        Step(second, (shape.blocks,), (BLOCK,),
             (x, w, b, sums, shifts, made.output(0), *saved, *end), 12 * shape.groups, early=True),
    )  # fmt: skip
    return made.plan(*steps, scratch=(shape.sums, Buffer(shape.sums.shape[:1], torch.float32)))


def backward(
    request: Request, outputs: tuple[Buffer, ...], weight_sums: WeightSums
) -> list[Candidate]:
    """The candidate of the gradients; `weight_sums` adds the parts of those of weights."""
    dy, x = request.inputs[:2]
    assert dy is not None and x is not None
    gpu, wanted = request.target, request.options["weights"]
    view = permuted(dy, flat_order(len(dy.shape)))
    aligned = min(x.aligned, dy.aligned) if view.contiguous else x.aligned
    shape = _shape(x._replace(aligned=aligned), request.options["num_groups"], gpu.sms)
    parameters = (2, 3) if request.op.startswith(SILU) else (2,)
    made = row_job(request, shape.row, (0, 1), parameters, outputs, in_place=(0, 1))
    moved = x.numel * x.itemsize
    time = made.cost + model.two_pass_time(gpu, 3 * moved, 2 * moved, 2 * moved, 2 + wanted)
    if not view.contiguous:
        time += contiguous(view, Pointer(0), made.extra(0), gpu).cost
    build = functools.partial(_backward_plan, made, shape, view, wanted, weight_sums)
    return [Candidate("channels last", time, shape.why, build)]


def _backward_plan(
    made: RowJob, shape: Shape, view: Layout, wanted: bool, weight_sums: WeightSums
) -> Plan:
    scratch: list[Buffer] = []
    steps: list[Step] = []

    def extra(buffer: Buffer) -> Pointer:
        scratch.append(buffer)
        return made.extra(len(scratch) - 1)

    dy, x, w, b, mean, rstd = made.inputs if len(made.inputs) > 5 else _without_bias(made.inputs)
    rest = (x, w, b, mean, rstd)
    if not view.contiguous:
        dy = extra(Buffer((view.numel,), view.dtype))
        steps += contiguous(view, Pointer(0), dy, made.request.target).steps
    sums, work = extra(shape.sums), shape.work
    rows = work.samples * work.parts
    partial = extra(Buffer((2, rows, work.channels), torch.float32)) if wanted else None
    first, second = _kernels(made, shape, "sum_gradients", "gradients_of_groups")
    grid, end = ((shape.blocks,), (BLOCK,)), work.pack()
    steps += (
        Step(first, *grid, (dy, *rest, partial, sums, end), shape.pairs, early=True),
        Step(second, *grid, (dy, *rest, sums, made.output(0), end), 8 * shape.groups, early=True),
    )
    if partial is not None:
        steps += weight_sums(made, partial, (rows, work.channels), extra)
    return made.plan(*steps, scratch=tuple(scratch))


def _without_bias(inputs: tuple[Pointer | None, ...]) -> tuple[Pointer | None, ...]:
    """The inputs of group_norm_backward, with none for the bias that it does not need."""
    return (*inputs[:3], None, *inputs[3:])


def _kernels(made: RowJob, shape: Shape, *names: str) -> list[Any]:
    own, of_weights = source.ctype(made.dtype), source.ctype(made.weight)
    all_words = (own, of_weights, shape.vector, made.request.op.startswith(SILU))
    words = [
        source.template(n, *((own, shape.vector) if n == "sum_groups" else all_words))
        for n in names
    ]
    return [source.kernel("norm/groups_last.cu", w, **GroupsLast.define()) for w in words]
