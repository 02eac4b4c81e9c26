"""Matrix products: square, skinny, short, batched; linear layers of any dtype; fp8."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import torch
import torch.nn.functional as F

from weft.ops.sweep import draw
from weft.ops.sweep.case import FLOATS, Case
from weft.ops.sweep.draw import Call


def _drawn(rng: random.Random, most: int) -> Call:
    """Sizes with a bounded number of products; a batch in one of five calls."""
    edge = max(2, round(most ** (1 / 2)))
    work = most ** (3 / 2)
    least = 1 if rng.random() < 0.35 else max(1, round(edge**0.5))
    m, n, k = (max(least, draw.size(rng, edge)) for _ in range(3))
    while m * n * k > work:
        m, n, k = max(1, m // 2), max(1, n // 2), max(1, k // 2)
    lead: tuple[int, ...] = ()
    if rng.random() < 0.2:
        lead = (draw.size(rng, max(1, min(256, round(work / (m * n * k))))),)
    a = draw.tensor(rng, (*lead, m, k), "float32")
    b = draw.tensor(rng, (*(lead if rng.random() < 0.5 else ()), k, n), "float32")
    return Call("matmul", (a, b), {})


def _half(rng: random.Random, most: int) -> Call:
    """The sizes and layouts of matmul, with 16-bit elements."""
    call, dtype = _drawn(rng, most), rng.choice(("float16", "bfloat16"))
    tensors = tuple(t and dataclasses.replace(t, dtype=dtype) for t in call.tensors)
    return dataclasses.replace(call, tensors=tensors)


def _linear(rng: random.Random, most: int) -> Call:
    """Rows of one to three dimensions, a weight, and a bias in three of four calls."""
    rows = draw.shape(rng, (1, 1, 2), max(1, most // 64))
    edge = max(2, round((most / max(rows)) ** 0.5))
    inner, outer = draw.size(rng, edge), draw.size(rng, edge)
    dtype = rng.choice(FLOATS)
    x = draw.tensor(rng, (*rows, inner), dtype, plain=0.8)
    weight = draw.tensor(rng, (outer, inner), dtype, plain=0.9)
    bias = draw.tensor(rng, (outer,), dtype) if rng.random() < 0.75 else None
    return Call("linear", (x, weight, bias), {})


def _addmm(rng: random.Random, most: int) -> Call:
    """The sizes of matmul without a batch, a bias for each column, and an activation or none."""
    call = _drawn(rng, most)
    a, b = (dataclasses.replace(t, shape=t.shape[-2:], order=_two(t)) for t in call.tensors if t)
    bias = draw.tensor(rng, b.shape[-1:], "float32")
    return Call("addmm", (bias, a, b), {"activation": rng.choice(("", "relu", "gelu"))})


def _two(tensor: draw.Tensor) -> tuple[int, int]:
    """The order of the last two dimensions."""
    first, second = (d for d in tensor.order if d >= len(tensor.shape) - 2)
    return (0, 1) if first < second else (1, 0)


def _with_bias(bias: Any, a: Any, b: Any, activation: str) -> Any:
    result = torch.addmm(bias, a, b)
    return getattr(F, activation)(result) if activation else result


def _scaled(rng: random.Random, most: int) -> Call:
    """Products of fp8 that torch takes as well: scales of operands or of rows."""
    m, n, k = (draw.size(rng, max(2, round(most**0.5))) for _ in range(3))
    n, k = -(-n // 16) * 16, -(-k // 16) * 16
    a_type, b_type = rng.choice((("e4m3fn", "e4m3fn"), ("e4m3fn", "e5m2"), ("e5m2", "e4m3fn")))
    a = draw.Tensor((m, k), f"float8_{a_type}", (0, 1))
    b = draw.Tensor((k, n), f"float8_{b_type}", (1, 0))
    rows = rng.random() < 0.5
    sizes = ((m, 1), (1, n)) if rows else ((1, 1), (1, 1))
    near_one = draw.Between(0.5, 2)
    scales = (draw.Tensor(size, "float32", (0, 1), contents=near_one) for size in sizes)
    return Call("scaled_mm", (a, b, *scales), {"use_fast_accum": rng.random() < 0.5})


def _scaled_by_torch(a: Any, b: Any, scale_a: Any, scale_b: Any, use_fast_accum: bool) -> Any:
    return torch._scaled_mm(
        a, b, scale_a, scale_b, out_dtype=torch.bfloat16, use_fast_accum=use_fast_accum
    )


def _scaled_exactly(a: Any, b: Any, scale_a: Any, scale_b: Any, use_fast_accum: bool) -> Any:
    return (a * scale_a) @ (b * scale_b)


def _integers(rng: random.Random, most: int) -> Call:
    """Products of int8 with scales of operands or of rows."""
    call = _scaled(rng, most)
    a, b, *scales = (t for t in call.tensors if t is not None)
    whole = draw.Between(-128, 128)
    tensors = (dataclasses.replace(t, dtype="int8", contents=whole) for t in (a, b))
    return Call("scaled_mm", (*tensors, *scales), {})


def _integers_by_torch(a: Any, b: Any, scale_a: Any, scale_b: Any) -> Any:
    return ((a.float() @ b.float()) * (scale_a * scale_b)).bfloat16()


def _integers_exactly(a: Any, b: Any, scale_a: Any, scale_b: Any) -> Any:
    return (a.double() * scale_a) @ (b.double() * scale_b)


_LINEAR = Case("linear", _linear, F.linear, depth=lambda call: call.shape()[-1])
CASES = (
    Case("matmul", _drawn, torch.matmul, depth=lambda call: call.shape()[-1]),
    Case("matmul half", _half, torch.matmul, depth=lambda call: call.shape()[-1]),
    Case("addmm", _addmm, _with_bias, depth=lambda call: call.shape(1)[-1], shared=True),
    Case(
        "scaled_mm",
        _scaled,
        _scaled_by_torch,
        depth=lambda call: call.shape()[-1],
        reference=_scaled_exactly,
    ),
    Case("scaled_mm int8", _integers, _integers_by_torch, reference=_integers_exactly),
    _LINEAR,
    _LINEAR.with_backward(depth=lambda call: max(*call.shape(), *call.shape(1)), roundings=8),
)
