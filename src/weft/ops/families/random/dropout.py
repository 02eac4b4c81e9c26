"""dropout: zero random elements; the backward pass computes the mask again."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from weft.errors import ArgumentError
from weft.kernels import cdiv
from weft.ops.core import library, source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.core.plan import Buffer, Layout, Plan, Pointer, Step
from weft.ops.families.elementwise.copies import after_copy, contiguous
from weft.ops.families.random import model
from weft.ops.families.random.drawn import Drawn
from weft.ops.families.random.start import beginning
from weft.ops.families.random.threads import BLOCK, blocks

DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def _dropout() -> Callable[..., Any]:
    draw = Drawn("dropout", "seeded_dropout", 1)

    def dropout(
        input: Any,
        p: float = 0.5,
        training: bool = True,
        inplace: bool = False,
        *,
        generator: Any = None,
    ) -> Any:
        """Zero each element with probability p and divide the others by 1 - p.

        Nothing is saved for the backward pass but a seed and an offset. On a GPU the result has
        the bits of torch.nn.functional.dropout for contiguous tensors of whole 16-byte vectors.
        """
        check_probability("weft.ops.dropout", p)
        if not training or p == 0.0:
            return input
        result = draw(input, p, generator=generator)
        return input.copy_(result) if inplace else result

    return dropout


def threshold(p: float) -> int:
    """The count of 32-bit numbers whose uniform value is below 1 - p; these keep their element."""
    keep, low, high = np.float32(1.0 - p), 0, 2**32
    while low < high:
        middle = (low + high) // 2
        # As `uniform` of philox.cuh computes it: rounded twice, which is monotonic.
        value = np.float32(middle) * np.float32(2.0**-32) + np.float32(2.0**-33)
        low, high = (middle + 1, high) if value < keep else (low, middle)
    return low


def scale_of(p: float) -> float:
    """The factor of elements that are kept."""
    keep = np.float32(1.0 - p)
    return float(np.float32(1.0 / float(keep))) if keep else 0.0


# ---- candidates --------------------------------------------------------------------------------
def _candidates(request: Request) -> list[Candidate]:
    x = request.first
    out = Buffer(x.shape, x.dtype)
    if x.numel == 0:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), (out,)))]
    if x.contiguous:
        return [_of_dense(request, x, Pointer(0), ())]
    copy = contiguous(x, Pointer(0), Pointer(3), request.target)
    dense = Layout(x.dtype, x.shape, out.steps, 16)
    made = _of_dense(request, dense, Pointer(3), copy.steps)
    return after_copy(copy, [made], Buffer(x.shape, x.dtype))


def _of_dense(request: Request, x: Layout, at: Pointer, before: tuple[Step, ...]) -> Candidate:
    build = functools.partial(_plan, request, x, at, before)
    name, time = "vectors" if x.aligned == 16 else "elements", model.dropout_time(x, request.target)
    return Candidate(name, time, "one pass, no mask", build)


def _plan(request: Request, x: Layout, at: Pointer, before: tuple[Step, ...]) -> Plan:
    vector, p = 16 // x.itemsize, request.options["p"]
    words = (source.ctype(x.dtype), vector, model.DROPOUT_VECTORS, x.aligned == 16)
    kernel = source.kernel("random/dropout.cu", source.template("dropout", *words))
    count = blocks(x.numel, request.target)
    args = (at, Pointer(2), *beginning(request), x.numel, count, threshold(p), scale_of(p))
    step = Step(kernel, (cdiv(x.numel, model.DROPOUT_VECTORS * vector * BLOCK),), (BLOCK,), args)
    return Plan((*before, step), (Buffer(x.shape, x.dtype),))


# ---- definition --------------------------------------------------------------------------------
def check_probability(who: str, p: float) -> None:
    """Raise unless 0 <= p <= 1; `who` is the function's name for the message."""
    if not 0.0 <= p <= 1.0:
        raise ArgumentError(f"{who}: p is {p}, expected 0 to 1")


def _check(x: Any, p: float, seed: int, offset: int, state: Any) -> None:
    check_probability("weft.ops.dropout", p)
    if x.dtype not in DTYPES:
        raise ArgumentError(
            f"weft.ops.dropout: dtype {x.dtype} is not supported",
            allowed="float32, float16, bfloat16",
            next="convert it: x.float()",
        )


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    _, ctx.p, ctx.seed, ctx.offset, state = inputs
    ctx.save_for_backward(state)


def _backward(ctx: Any, grad: Any) -> Any:
    (state,) = ctx.saved_tensors
    again = library.call("seeded_dropout")(grad, ctx.p, ctx.seed, ctx.offset, state)
    return again, None, None, None, None


DEFINITIONS = (
    Definition(
        name="seeded_dropout",
        schema="(Tensor x, float p, int seed, int offset, Tensor? state=None) -> Tensor",
        doc="Dropout with the random numbers of a seed and an offset.",
        fake=lambda x, p, seed, offset, state=None: x.new_empty(x.shape),
        candidates=_candidates,
        check=_check,
        setup=_setup,
        backward=_backward,
        autocast=None,
        public=False,
        varying=("seed", "offset"),
    ),
)
MAKERS = {"dropout": _dropout}
