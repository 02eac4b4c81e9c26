"""Average pooling along one or two dimensions, fixed and adaptive, forward and backward."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.ops.core import library, source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.core.plan import Buffer, Layout, Plan, Pointer
from weft.ops.families.elementwise.jobs import BroadcastOperand, ElementwiseJob, Strategy
from weft.ops.families.elementwise.pointwise import strategies
from weft.ops.families.pool.candidates import forward
from weft.ops.families.pool.kernels import PoolJob, nothing, read
from weft.ops.families.pool.max_pool import adaptive, of_planes
from weft.ops.families.pool.windows import (
    Windows,
    as_order,
    buffer,
    check,
    empty,
    is_last,
    out_shape,
    view,
    windows,
)
from weft.ops.families.reduce.op import MEAN

Made = Callable[..., tuple[Windows, bool, int]]
"""(*options of an op) -> its windows, whether padding counts, and the divisor or 0."""


def _fixed(rank: int, kernel: Any, stride: Any = None, padding: Any = 0, ceil: bool = False,
           count_include_pad: bool = True, divisor_override: int | None = None,
           ) -> tuple[Windows, bool, int]:  # fmt: skip
    op = f"avg_pool{rank}d"
    if divisor_override is not None and divisor_override == 0:
        raise ArgumentError(
            f"weft.ops.{op}: 'divisor_override' must not be zero", got="0", allowed="None, -1, 1, …"
        )
    made = windows(op, rank, kernel, stride, padding, 1, ceil)
    return made, count_include_pad, divisor_override or 0


def _adaptive(rank: int, size: Any) -> tuple[Windows, bool, int]:
    return adaptive(rank, size), False, 0


# ---- candidates --------------------------------------------------------------------------------
def _forward(rank: int, made: Made, request: Request) -> list[Candidate]:
    x = request.first
    chosen, counted, divisor = made(*request.options.values())
    last = rank == 2 and is_last(x.shape, x.strides)
    out = buffer(out_shape(x.shape, rank, chosen), x.dtype, last)
    if x.numel == 0:
        return nothing((out,))
    if chosen.out == (1, 1):
        return of_planes(MEAN, request, rank)
    given = read(x, last, 0, 2, request.target)
    seen = view(x.shape, rank, last)
    job = PoolJob(
        "mean", False, chosen.simplified(seen.height, seen.width), seen, x.dtype, None,
        (x.numel + math.prod(out.shape)) * x.itemsize, given.aligned,
        (given.pointer, Pointer(1)), (divisor, int(counted)), (out,), given.steps, given.scratch,
    )  # fmt: skip
    return forward(job, x, rank, request.target, given.cost)


def _gradient(request: Request) -> list[Candidate]:
    dy = request.first
    shape, rank, numbers, counted, divisor, of_last = request.options.values()
    # One place of each channel has both orders: the input's decides.
    last = rank == 2 and (of_last or is_last(dy.shape, dy.strides))
    out = buffer(shape, dy.dtype, last)
    if math.prod(shape) == 0:
        return nothing((out,))
    if numbers == [1, 1]:
        return _spread(request, out, rank, last)
    given = read(dy, last, 0, 2, request.target)
    seen = view(shape, rank, last)
    job = PoolJob(
        "mean", True, Windows.decoded(numbers).simplified(seen.height, seen.width), seen, dy.dtype,
        None, (dy.numel + math.prod(shape)) * dy.itemsize, given.aligned,
        (given.pointer, Pointer(1)), (divisor, int(counted)), (out,), given.steps, given.scratch,
    )  # fmt: skip
    return job.candidates(request.target, given.cost)


def _spread(request: Request, out: Buffer, rank: int, last: bool) -> list[Candidate]:
    """Candidates of the gradient of whole planes: every element has its share of one number."""
    dy = request.first
    steps = (*dy.strides[: len(dy.shape) - rank], *(0,) * rank)
    seen = as_order(Layout(dy.dtype, out.shape, steps, dy.aligned), last)
    ctype, share = source.ctype(dy.dtype), 1.0 / math.prod(out.shape[-rank:])
    operand = BroadcastOperand(ctype, dy.itemsize, seen.strides, dy.aligned, Pointer(0))
    compute = "double" if dy.dtype is torch.float64 else "float"
    job = ElementwiseJob(
        "a * s", compute, seen.shape, (operand,), ctype, dy.itemsize, Pointer(1), (share, 0.0)
    )

    def built(strategy: Strategy) -> Plan:
        return Plan((strategy.build(),), (out,))

    return [
        Candidate(f"spread, {s.name}", s.cost, s.why, functools.partial(built, s))
        for s in strategies(job, request.target)
    ]


# ---- gradients ---------------------------------------------------------------------------------
def _setup(rank: int, ctx: Any, inputs: Any, output: Any) -> None:
    x, *ctx.options = inputs
    ctx.shape = list(x.shape)
    ctx.last = rank == 2 and is_last(x.shape, x.stride())


def _backward(rank: int, made: Made, ctx: Any, grad: Any) -> Any:
    chosen, counted, divisor = made(*ctx.options)
    call = library.call("avg_pool_backward")
    last = ctx.last and chosen.out == (1, 1)
    dx = call(grad, ctx.shape, rank, chosen.encoded(), counted, divisor, last)
    return dx, *(None for _ in ctx.options)


def _setup_gradient(ctx: Any, inputs: Any, output: Any) -> None:
    _, ctx.shape, ctx.rank, ctx.numbers, ctx.counted, ctx.divisor, _ = inputs


def _backward_gradient(ctx: Any, v: Any) -> Any:
    """The gradient is linear in dy: its own gradient is the pooling of v."""
    made, rank = Windows.decoded(ctx.numbers), ctx.rank
    if made.out:
        size = list(made.out)[-rank:]
        return library.call(f"adaptive_avg_pool{rank}d")(v, size), *(None,) * 6
    k, s, p = (list(t)[-rank:] for t in (made.kernel, made.stride, made.padding))
    options: list[Any] = [k, s, p, made.ceil, ctx.counted]
    if rank == 2:
        options.append(ctx.divisor or None)
    return library.call(f"avg_pool{rank}d")(v, *options), *(None,) * 6


# ---- definitions -------------------------------------------------------------------------------
def _fake(rank: int, made: Made, x: Any, *options: Any) -> Any:
    shape = out_shape(x.shape, rank, made(*options)[0])
    return empty(x, shape, rank == 2 and is_last(x.shape, x.stride()))


def _public(name: str, rank: int, made: Made, options: str, doc: str) -> Definition:
    def checked(x: Any, *given: Any) -> None:
        check(name, x, rank, made(*given)[0])

    return Definition(
        name=name,
        schema=f"(Tensor input, {options}) -> Tensor",
        doc=doc,
        fake=functools.partial(_fake, rank, made),
        candidates=functools.partial(_forward, rank, made),
        check=checked,
        setup=functools.partial(_setup, rank),
        backward=functools.partial(_backward, rank, made),
        autocast=None,
    )


def _definitions(rank: int) -> tuple[Definition, Definition]:
    dims = f"{rank} dimension{'s' if rank > 1 else ''}"
    options = (
        f"int[{rank}] kernel_size, int[{rank}]? stride=None, int[{rank}] padding=0, "
        "bool ceil_mode=False, bool count_include_pad=True"
    )
    if rank == 2:
        options += ", int? divisor_override=None"
    return (
        _public(f"avg_pool{rank}d", rank, functools.partial(_fixed, rank), options,
                f"The mean of each window along the last {dims}."),
        _public(f"adaptive_avg_pool{rank}d", rank, functools.partial(_adaptive, rank),
                f"int[{rank}] output_size",
                f"The mean of each of `output_size` windows along the last {dims}."),
    )  # fmt: skip


DEFINITIONS = (
    *_definitions(1),
    *_definitions(2),
    Definition(
        name="avg_pool_backward",
        schema="(Tensor dy, int[] shape, int rank, int[] windows, bool count_include_pad, "
        "int divisor, bool channels_last=False) -> Tensor",
        doc="The gradient of average pooling's input.",
        fake=lambda dy, shape, rank, windows, count_include_pad, divisor, last=False: empty(
            dy, shape, rank == 2 and (last or is_last(dy.shape, dy.stride()))
        ),
        candidates=_gradient,
        setup=_setup_gradient,
        backward=_backward_gradient,
        autocast=None,
        public=False,
    ),
)
