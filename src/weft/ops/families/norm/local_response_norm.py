"""local_response_norm, forward and backward: each element by the squares of channels around it.

strips  windows of few channels: a thread has those of several results in registers
window  windows of any size: a thread reads that of one result; the gradient is two launches
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Annotated, Any

import torch

from weft.errors import ArgumentError
from weft.kernels import cdiv
from weft.kernels.structs import Float, Int, LongLong, Struct
from weft.ops.core import library, source
from weft.ops.core.bind.derive import derive
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.core.layouts import dense_strides, memory_order, permuted
from weft.ops.core.plan import Argument, Buffer, Layout, Plan, Step
from weft.ops.families.loss.operands import Operands
from weft.ops.families.norm.arguments import LONGEST, check_dtype

BLOCK = 256
EACH, BACKWARD_EACH = 4, 8
"""Results of a thread of `strips` along the channels, forward and backward."""
VECTOR = 4
"""The most neighbours of a thread; one in the backward pass of `strips`, for its registers."""
IN_REGISTERS = 8
"""The most channels of a window that `strips` has."""
NEAR = 0.4
"""The time to read an element from the L2 cache, relative to one from memory: an estimate."""


@dataclass(frozen=True)
class Response(Struct):
    """A call, as the kernels take it."""

    outer: LongLong
    channels: Int
    inner: Int
    size: Int
    before: Int
    alpha: Annotated[Float, "divided by the size of a window"]
    beta: Float
    k: Float


# ---- plans -------------------------------------------------------------------------------------
def _order(x: Any) -> tuple[int, ...] | None:
    """The memory order of the result if channels are last, else None: row-major."""
    layout = x if isinstance(x, Layout) else Layout(x.dtype, tuple(x.shape), tuple(x.stride()), 16)
    last = (0, *range(2, len(layout.shape)), 1)
    found = None if layout.contiguous else memory_order(layout)
    return last if found == last else None


def _result(x: Layout) -> Buffer:
    order = _order(x)
    return Buffer(x.shape, x.dtype, strides=dense_strides(x.shape, order) if order else None)


def _candidates(backward: bool, request: Request) -> list[Candidate]:
    x = request.inputs[-1]
    assert x is not None
    out, size, gpu = _result(x), request.options["size"], request.target
    if x.numel == 0:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), (out,)))]
    moved = (2 + backward) * x.numel * x.itemsize
    again = 1 + NEAR * (min(size, x.shape[1]) - 1)
    why = f"windows of {size} channels"
    found = []
    for name, reads in (("strips", 1 + NEAR * (size - 1) / EACH), ("window", again)):
        if name == "strips" and size > IN_REGISTERS:
            continue
        launches = 2 if backward and name == "window" else 1
        time = gpu.launch * launches + moved * reads * launches / gpu.bandwidth
        build = functools.partial(_plan, request, backward, name, out)
        found.append(Candidate(name, time, why, build))
    return found


def _plan(request: Request, backward: bool, name: str, out: Buffer) -> Plan:
    tensors = Operands(request, (out,))
    x = request.inputs[-1]
    assert x is not None
    outer, channels, inner = x.shape[0], x.shape[1], math.prod(x.shape[2:])
    if out.strides is None:
        found = [tensors.dense(i) for i in range(len(request.inputs))]
    else:  # channels are last in memory: rows of them
        outer, inner = outer * inner, 1
        found = [_as_result(tensors, i) for i in range(len(request.inputs))]
    pointers = [pointer for pointer, _ in found]
    aligned = min(layout.aligned for _, layout in found if layout is not None)
    vector = 1 if backward and name == "strips" else min(16 // x.itemsize, VECTOR)
    while inner % vector or aligned % (vector * x.itemsize):
        vector //= 2
    options = request.options
    size = options["size"]
    problem = Response(
        outer, channels, inner, size, size // 2, options["alpha"] / size, options["beta"],
        options["k"],
    ).pack()  # fmt: skip
    each = 1 if name == "window" else BACKWARD_EACH if backward else EACH
    threads = outer * cdiv(channels, each) * (inner // vector)
    grid = (cdiv(threads, BLOCK),)
    types = f"{source.ctype(x.dtype)}, {vector}"

    def step(kernel: str, *args: Argument) -> Step:
        made = source.kernel("norm/local_response.cu", kernel, **Response.define())
        return Step(made, grid, (BLOCK,), (*args, problem))

    end = tensors.output(0)
    if name == "strips":
        kernel = "strips_backward" if backward else "strips"
        return tensors.plan(step(f"{kernel}<{types}, {size}, {each}>", *pointers, end))
    if not backward:
        return tensors.plan(step(f"window<{types}>", *pointers, end))
    ratios = tensors.buffer(Buffer((x.numel,), torch.float32))
    return tensors.plan(
        step(f"ratios<{types}>", *pointers, ratios),
        step(f"window_backward<{types}>", *pointers, ratios, end),
    )


def _as_result(tensors: Operands, number: int) -> tuple[Argument, Layout | None]:
    """An input in the order of the result, copied if it has another one."""
    given = tensors.request.inputs[number]
    assert given is not None
    turned = permuted(given, (0, *range(2, len(given.shape)), 1))
    return tensors.as_dense(number, turned)


# ---- definitions -------------------------------------------------------------------------------
def _check(x: Any, size: int, alpha: float, beta: float, k: float) -> None:
    check_dtype("local_response_norm", x)
    if x.dim() < 3:
        raise ArgumentError(
            "weft.ops.local_response_norm: 'input' needs a batch, a channel and another dimension",
            got=f"shape {list(x.shape)}",
            allowed="3 dimensions or more",
        )
    if not 0 < size <= LONGEST:
        raise ArgumentError(
            "weft.ops.local_response_norm: 'size' is a number of channels",
            got=f"size={size}",
            allowed=f"1 to {LONGEST}",
        )
    if max(x.shape[1], math.prod(x.shape[2:])) > LONGEST:
        raise ArgumentError(
            "weft.ops.local_response_norm: a plane has too many elements",
            got=f"shape {list(x.shape)}",
            allowed=f"at most {LONGEST}",
        )


def _fake(x: Any, *rest: Any) -> Any:
    order = _order(x)
    made = x.new_empty(x.shape)
    return made.as_strided(x.shape, dense_strides(x.shape, order)) if order else made


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    x, *ctx.options = inputs
    ctx.save_for_backward(x)


def _backward(ctx: Any, dy: Any) -> Any:
    (x,) = ctx.saved_tensors
    backward = library.call("local_response_norm_backward")
    return backward(dy.to(x.dtype), x, *ctx.options), None, None, None, None


def _setup_second(ctx: Any, inputs: Any, output: Any) -> None:
    *tensors, size, alpha, beta, k = inputs
    ctx.options = size, alpha, beta, k
    ctx.save_for_backward(*tensors)


def _second(ctx: Any, grad: Any) -> Any:
    """Second derivatives, by torch: the first ones written out and differentiated."""
    found = derive(functools.partial(_written_out, *ctx.options), ctx.saved_tensors, (grad,))
    return (*found, None, None, None, None)


def _windows(x: Any, before: int, after: int) -> Any:
    """The sums of `before` channels before each one, of itself, and of `after` channels after."""
    padded = torch.nn.functional.pad(x.flatten(2), (0, 0, before, after))
    return padded.unfold(1, before + 1 + after, 1).sum(-1).view(x.shape)


def _written_out(
    size: int, alpha: float, beta: float, k: float, dy: Any, x: Any
) -> tuple[Any, ...]:
    before, after = size // 2, (size - 1) // 2
    wide, g = x.float(), dy.float()
    d = k + alpha / size * _windows(wide.square(), before, after)
    shares = _windows(g * wide * d ** (-beta - 1), after, before)
    dx = g * d**-beta - 2 * alpha * beta / size * wide * shares
    return (dx.to(x.dtype),)


_OPTIONS = "int size, float alpha=0.0001, float beta=0.75, float k=1.0"
DEFINITIONS = (
    Definition(
        name="local_response_norm",
        schema=f"(Tensor input, {_OPTIONS}) -> Tensor",
        doc="Local response norm, as torch.nn.functional.local_response_norm.",
        fake=_fake,
        candidates=functools.partial(_candidates, False),
        check=_check,
        setup=_setup,
        backward=_backward,
    ),
    Definition(
        name="local_response_norm_backward",
        schema=f"(Tensor dy, Tensor x, {_OPTIONS}) -> Tensor",
        doc="The gradient of local_response_norm's input.",
        fake=lambda dy, x, *rest: _fake(x),
        candidates=functools.partial(_candidates, True),
        setup=_setup_second,
        backward=_second,
        public=False,
    ),
)
