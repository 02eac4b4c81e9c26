"""attention_merge: combine attention over two sets of keys, in place and in one launch."""

from __future__ import annotations

import math
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.core.plan import Buffer, Layout, Plan, Pointer, Step
from weft.ops.families.attention.check import DTYPES
from weft.ops.families.attention.structs import Merged

NAME = "attention_merge"
THREADS = 256
VECTOR = 16
"""Bytes that one instruction reads."""


def _check(out: Any, lse: Any, part: Any, part_lse: Any) -> None:
    tensors = {"out": out, "lse": lse, "part": part, "part_lse": part_lse}
    got = ", ".join(f"{name} {x.dtype} {list(x.shape)}" for name, x in tensors.items())
    floats = all(x.dtype is torch.float32 for x in (out, lse, part_lse))
    shapes = out.shape == part.shape and lse.shape == part_lse.shape == out.shape[:-1]
    if out.dim() != 4 or not shapes or not floats or part.dtype not in DTYPES:
        raise ArgumentError(
            f"weft.ops.{NAME}: results and parts do not fit each other",
            got=got,
            allowed="out float32 and part float32, float16 or bfloat16, both [batch, heads, rows,"
            " elements]; lse and part_lse float32 [batch, heads, rows]",
        )
    if out.shape[-1] > 1 and (out.stride(-1) != 1 or part.stride(-1) != 1):
        raise ArgumentError(
            f"weft.ops.{NAME}: the elements of a row are not contiguous",
            got=f"strides of out {list(out.stride())}, of part {list(part.stride())}",
            next="part.contiguous()",
        )


def _candidates(request: Request) -> list[Candidate]:
    out, lse, part, part_lse = (_given(x) for x in request.inputs)
    # An op returns a tensor: the one that is not needed has no elements.
    nothing = (Buffer((0,), torch.float32),)
    if out.numel == 0:
        return [Candidate("empty", 0.0, "no rows", lambda: Plan((), nothing))]
    batch, heads, rows, width = out.shape
    elements = _elements(out, part)
    lanes = min(32, 1 << (cdiv(width, elements) - 1).bit_length())
    total = batch * heads * rows
    merged = Merged(
        _three(out), _three(lse), _three(part), _three(part_lse), total, heads, rows, width, lanes
    )

    def build() -> Plan:
        name = source.template("merge", source.ctype(part.dtype), elements)
        kernel = source.kernel("attention/merge.cu", name, **Merged.define())
        grid = (cdiv(merged.total * lanes, THREADS),)
        args = (Pointer(0), Pointer(1), Pointer(2), Pointer(3), merged.pack())
        return Plan((Step(kernel, grid, (THREADS,), args, early=True),), nothing)

    moved = out.numel * (2 * out.itemsize + part.itemsize)
    time = request.target.launch + moved / request.target.bandwidth
    return [Candidate("lanes per row", time, f"{lanes} lanes, {elements} elements each", build)]


def _given(x: Layout | None) -> Layout:
    assert x is not None
    return x


def _three(x: Layout) -> tuple[int, ...]:
    """Strides of batch, head and row."""
    return x.strides[:3]


def _elements(out: Layout, part: Layout) -> int:
    """Elements that a thread reads at once from any row of both: at most a vector of the part."""
    sizes = (1 << n for n in range((VECTOR // part.itemsize).bit_length() - 1, -1, -1))
    fit = (n for n in sizes if out.shape[3] % n == 0 and _aligned(out, n) and _aligned(part, n))
    return next(fit)


def _aligned(x: Layout, elements: int) -> bool:
    """True if so many elements from the start of each row on can be read at once."""
    steps = (step for n, step in zip(x.shape[:3], x.strides, strict=False) if n > 1)
    at_once = min(elements, VECTOR // x.itemsize)
    return math.gcd(x.aligned // x.itemsize, *steps) % at_once == 0


DEFINITIONS = (
    Definition(
        name=NAME,
        schema="(Tensor(a!) out, Tensor(b!) lse, Tensor part, Tensor part_lse) -> Tensor",
        doc="""Merge attention over more keys into `out`, in place.

        out and part are [batch, heads, rows, elements], at any strides of the first three; out is
        float32. lse and part_lse are the logarithms that attention_lse returns. A row of a part
        with the logarithm -inf changes nothing. The returned tensor is empty.
        """,
        fake=lambda out, *rest: out.new_empty(0),
        candidates=_candidates,
        check=_check,
        autocast=None,
        public=False,
    ),
)
