"""Max pooling along one or two dimensions, fixed and adaptive, forward and backward.

A call that needs a gradient goes to `max_pool_places`, which also returns where each maximum is:
the number of the tap in its window, one byte. The backward pass does not need the input.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from weft.ops.core import eager, library
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.core.plan import Pointer
from weft.ops.families.pool.candidates import forward
from weft.ops.families.pool.kernels import CODES, PoolJob, code_dtype, nothing, read
from weft.ops.families.pool.windows import (
    Windows,
    buffer,
    check,
    empty,
    is_last,
    out_shape,
    view,
    windows,
)
from weft.ops.families.reduce.candidates import candidates as reductions
from weft.ops.families.reduce.op import AMAX
from weft.ops.families.reduce.reduction import Reduction

Made = Callable[..., Windows]
"""(*options of an op) -> its windows; raises for invalid ones."""


def _fixed(rank: int, kernel: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
           ceil: bool = False, *_: Any) -> Windows:  # fmt: skip
    return windows(f"max_pool{rank}d", rank, kernel, stride, padding, dilation, ceil)


def adaptive(rank: int, size: Any, *_: Any) -> Windows:
    """The windows of an adaptive pooling to a size."""
    rows, columns = (size, size) if isinstance(size, int) else (size[0], size[-1])
    return Windows(out=(1 if rank == 1 else rows, columns))


def of_planes(row: Reduction, request: Request, rank: int) -> list[Candidate]:
    """Candidates of a reduction of whole planes: it has kernels for long rows and any strides."""
    options = {"dim": list(range(-rank, 0)), "keepdim": True}
    return reductions(row, replace(request, op=row.name, options=options))


# ---- forward -----------------------------------------------------------------------------------
def _forward(
    request: Request, rank: int, made: Windows, code: torch.dtype | None
) -> list[Candidate]:
    x = request.first
    shape = out_shape(x.shape, rank, made)
    last = rank == 2 and is_last(x.shape, x.strides)
    outputs = tuple(buffer(shape, d, last) for d in (x.dtype, code) if d is not None)
    if x.numel == 0:
        return nothing(outputs)
    if made.out == (1, 1) and code is None:
        return of_planes(AMAX, request, rank)
    source = read(x, last, 0, 1 + len(outputs), request.target)
    seen = view(x.shape, rank, last)
    moved = x.numel * x.itemsize + sum(math.prod(shape) * o.dtype.itemsize for o in outputs)
    job = PoolJob(
        "max", False, made.simplified(seen.height, seen.width), seen, x.dtype,
        CODES[code] if code else "", moved, source.aligned,
        (source.pointer, Pointer(1), Pointer(2) if code else None), (), outputs,
        source.steps, source.scratch,
    )  # fmt: skip
    return forward(job, x, rank, request.target, source.cost)


def _values(rank: int, made: Made, request: Request) -> list[Candidate]:
    return _forward(request, rank, made(*request.options.values()), None)


def _with_places(request: Request) -> list[Candidate]:
    rank, numbers, flat = request.options.values()
    made = Windows.decoded(numbers)
    return _forward(request, rank, made, torch.int64 if flat else code_dtype(made))


def _fake_places(x: Any, rank: int, numbers: Any, flat: bool) -> Any:
    made = Windows.decoded(numbers)
    shape, last = out_shape(x.shape, rank, made), rank == 2 and is_last(x.shape, x.stride())
    code = torch.int64 if flat else code_dtype(made)
    return empty(x, shape, last), empty(x, shape, last, code)


# ---- backward ----------------------------------------------------------------------------------
def _gradient(request: Request) -> list[Candidate]:
    dy, where = request.inputs
    assert dy is not None and where is not None
    shape, rank, numbers = request.options.values()
    last = rank == 2 and is_last(where.shape, where.strides)
    out = buffer(shape, dy.dtype, last)
    if math.prod(shape) == 0:
        return nothing((out,))
    seen, made = view(shape, rank, last), Windows.decoded(numbers)
    values = read(dy, last, 0, 3, request.target)
    places = read(where, last, 1, 3 + len(values.scratch), request.target)
    moved = math.prod(shape) * dy.itemsize + dy.numel * (dy.itemsize + where.itemsize)
    aligned = min(values.aligned, places.aligned)
    job = PoolJob(
        "max", True, made if where.itemsize == 1 else made.simplified(seen.height, seen.width),
        seen, dy.dtype, CODES[where.dtype], moved, aligned,
        (values.pointer, places.pointer, Pointer(2)), (), (out,),
        (*values.steps, *places.steps), (*values.scratch, *places.scratch),
    )  # fmt: skip
    return job.candidates(request.target, values.cost + places.cost)


def _fake_gradient(dy: Any, where: Any, shape: Any, rank: int, numbers: Any) -> Any:
    return empty(dy, shape, rank == 2 and is_last(where.shape, where.stride()))


def _setup_places(ctx: Any, inputs: Any, output: Any) -> None:
    x, ctx.rank, ctx.numbers, _ = inputs
    ctx.shape = list(x.shape)
    ctx.save_for_backward(output[1])
    ctx.mark_non_differentiable(output[1])


def _backward_places(ctx: Any, grad: Any, *_: Any) -> Any:
    (where,) = ctx.saved_tensors
    call = library.call("max_pool_backward")
    return call(grad, where, ctx.shape, ctx.rank, ctx.numbers), None, None, None


def _setup_gradient(ctx: Any, inputs: Any, output: Any) -> None:
    _, where, ctx.shape, ctx.rank, ctx.numbers = inputs
    ctx.save_for_backward(where)


def _backward_gradient(ctx: Any, v: Any) -> Any:
    """The gradient of dy: what v has at each maximum."""
    (where,) = ctx.saved_tensors
    at = positions(where, ctx.shape[-1], Windows.decoded(ctx.numbers), ctx.rank)
    return v.flatten(-ctx.rank).gather(-1, at.flatten(-ctx.rank)).view(where.shape), *(None,) * 4


def positions(where: Any, width: int, made: Windows, rank: int) -> Any:
    """Positions of maxima in their planes, from the places that a forward pass has saved."""
    if where.dtype != torch.uint8:
        return where.long()
    ky, kx = (
        torch.div(where, made.kernel[1], rounding_mode="floor").long(),
        (where % made.kernel[1]).long(),
    )
    rows, columns = made.stride
    line = torch.arange(where.shape[-1], device=where.device) * columns - made.padding[1]
    down = torch.zeros(1, dtype=torch.long, device=where.device)
    if rank == 2:
        down = torch.arange(where.shape[-2], device=where.device)[:, None] * rows - made.padding[0]
    return (down + ky * made.dilation[0]) * width + line + kx * made.dilation[1]


# ---- definitions -------------------------------------------------------------------------------
def _redirect(rank: int, made: Made, count: int, op: Any) -> eager.Redirect:
    """Calls that need a gradient or indices; `count` options come before `return_indices`."""
    places = library.call("max_pool_places")

    @functools.lru_cache(1024)
    def numbers(shape: torch.Size, dtype: torch.dtype, options: tuple[Any, ...]) -> tuple[int, ...]:
        chosen = made(*options)
        check(f"max_pool{rank}d", torch.empty(shape, dtype=dtype, device="meta"), rank, chosen)
        return tuple(chosen.encoded())

    def every(x: Any, *options: Any) -> Any:
        indices = options[count]
        if not indices and not (torch.is_grad_enabled() and x.requires_grad):
            return NotImplemented
        chosen = made(*options)
        check(f"max_pool{rank}d", x, rank, chosen)
        result = places(x, rank, chosen.encoded(), indices)
        return result if indices else result[0]

    def given(x: Any, *options: Any) -> Any:
        if options[count]:
            return None
        fixed = tuple(tuple(o) if isinstance(o, list) else o for o in options)
        return x, rank, numbers(x.shape, x.dtype, fixed), False

    return eager.Redirect(every, library.function("max_pool_places"), 1, given)


def _backward_values(rank: int, made: Made, ctx: Any, grad: Any) -> Any:
    """For calls that do not come through `_redirect`: the maxima are searched again."""
    (x,) = ctx.saved_tensors
    numbers = made(*ctx.options).encoded()
    _, where = library.call("max_pool_places")(x.detach(), rank, numbers, False)
    dx = library.call("max_pool_backward")(grad, where, list(x.shape), rank, numbers)
    return dx, *(None for _ in ctx.options)


def setup(ctx: Any, inputs: Any, output: Any) -> None:
    x, *ctx.options = inputs
    ctx.save_for_backward(x)


def _fake(rank: int, made: Made, x: Any, *options: Any) -> Any:
    shape = out_shape(x.shape, rank, made(*options))
    return empty(x, shape, rank == 2 and is_last(x.shape, x.stride()))


def _public(name: str, rank: int, made: Made, options: str, count: int, doc: str) -> Definition:
    def checked(x: Any, *given: Any) -> None:
        check(name, x, rank, made(*given))

    return Definition(
        name=name,
        schema=f"(Tensor input, {options}, bool return_indices=False) -> Tensor",
        doc=doc,
        fake=functools.partial(_fake, rank, made),
        candidates=functools.partial(_values, rank, made),
        check=checked,
        setup=setup,
        backward=functools.partial(_backward_values, rank, made),
        autocast=None,
        redirect=functools.partial(_redirect, rank, made, count),
        planless="return_indices",
    )


def _definitions(rank: int) -> tuple[Definition, Definition]:
    dims = f"{rank} dimension{'s' if rank > 1 else ''}"
    options = (
        f"int[{rank}] kernel_size, int[{rank}]? stride=None, int[{rank}] padding=0, "
        f"int[{rank}] dilation=1, bool ceil_mode=False"
    )
    return (
        _public(f"max_pool{rank}d", rank, functools.partial(_fixed, rank), options, 5,
                f"The largest element of each window along the last {dims}, or NaN."),
        _public(f"adaptive_max_pool{rank}d", rank, functools.partial(adaptive, rank),
                f"int[{rank}] output_size", 1,
                f"The largest element of each of `output_size` windows along the last {dims}."),
    )  # fmt: skip


DEFINITIONS = (
    *_definitions(1),
    *_definitions(2),
    Definition(
        name="max_pool_places",
        schema="(Tensor input, int rank, int[] windows, bool flat) -> (Tensor, Tensor)",
        doc="Max pooling, and where each maximum is: its position in its plane if `flat`.",
        fake=_fake_places,
        candidates=_with_places,
        setup=_setup_places,
        backward=_backward_places,
        autocast=None,
        public=False,
    ),
    Definition(
        name="max_pool_backward",
        schema="(Tensor dy, Tensor where, int[] shape, int rank, int[] windows) -> Tensor",
        doc="The gradient of max pooling's input.",
        fake=_fake_gradient,
        candidates=_gradient,
        setup=_setup_gradient,
        backward=_backward_gradient,
        autocast=None,
        public=False,
    ),
)
