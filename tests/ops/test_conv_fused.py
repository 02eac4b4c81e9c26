"""conv2d_fused: convolutions that store completed results, against float64."""

from __future__ import annotations

from typing import Any

import pytest

import draw
import weft

torch = pytest.importorskip("torch")

from torch.nn import functional as F  # noqa: E402

from candidates import by  # noqa: E402
from weft.errors import ArgumentError  # noqa: E402
from weft.ops.core import library  # noqa: E402

HALF, BFLOAT, FLOAT = torch.float16, torch.bfloat16, torch.float32
NAME = "conv2d_fused"
EPS = 1e-3
TOLERANCE = {HALF: 1e-3, BFLOAT: 8e-3}
"""Errors relative to the result's norm: roundings of the sum, and of the residual's addition."""


def call(
    shape: tuple[int, ...], k: int, taps: int, dtype: Any = HALF, parameters: Any = HALF,
    last: bool = True, groups: int = 1,
) -> list[Any]:  # fmt: skip
    """Input, weight, bias, mean, variance, weight and bias of the norm."""
    random = draw.seeded(k + taps + shape[1])
    order = torch.channels_last if last else torch.contiguous_format
    x = random.normal(*shape).to(dtype).contiguous(memory_format=order)
    w = random.normal(k, shape[1] // groups, taps, taps).to(dtype).contiguous(memory_format=order)
    bias, mean, scale, shift = (random.normal(k) for _ in range(4))
    var = random.uniform((k,)) * 50 + 1
    return [x, w, bias.to(dtype), *(t.to(parameters) for t in (mean, var, scale, shift))]


def like(result: Any) -> Any:
    """A residual with the order of a result."""
    values = draw.seeded(5).normal(*result.shape).to(result.dtype)
    return torch.empty_like(result).copy_(values)


def exact(
    args: list[Any], residual: Any, stride: int, padding: int, groups: int, relu: bool
) -> Any:
    x, w, bias, mean, var, scale, shift = (None if t is None else t.double() for t in args)
    y = F.conv2d(x, w, bias, stride, padding, 1, groups)
    y = F.batch_norm(y, mean, var, scale, shift, False, 0.0, EPS)
    y = y if residual is None else y + residual.double()
    return y.relu() if relu else y


def close(got: Any, want: Any) -> None:
    assert got.shape == want.shape
    assert (got.double() - want).norm() / want.norm() < TOLERANCE[got.dtype]


KERNELS = [
    # kernel, (n, c, h, w), filters, taps, stride, padding, dtype, dtype of the norm, residual
    ("boxes of", (2, 16, 9, 7), 24, 3, 1, 1, HALF, HALF, True),
    ("boxes of", (1, 64, 8, 8), 72, 1, 2, 0, BFLOAT, FLOAT, False),
    ("boxes of", (1, 3, 13, 13), 16, 7, 2, 3, BFLOAT, BFLOAT, True),
    ("source in 2", (1, 128, 6, 6), 64, 3, 1, 1, BFLOAT, FLOAT, True),
    ("tensor", (2, 16, 7, 7), 24, 3, 2, 1, HALF, FLOAT, True),
    ("taps", (2, 16, 7, 7), 40, 3, 1, 1, BFLOAT, BFLOAT, True),
    ("16, pipelined", (2, 48, 6, 7), 16, 1, 1, 0, HALF, HALF, True),
    ("16, turned, pipelined", (1, 64, 3, 5), 136, 1, 1, 0, BFLOAT, FLOAT, True),
    ("K in 2, pipelined", (1, 256, 5, 7), 64, 1, 1, 0, HALF, HALF, True),
    ("an SM, pipelined", (1, 64, 12, 12), 64, 1, 1, 0, HALF, FLOAT, False),
    ("in turns, pipelined", (2, 64, 16, 16), 208, 1, 1, 0, BFLOAT, FLOAT, True),
    ("turned, in turns, pipelined", (2, 64, 16, 16), 208, 1, 1, 0, HALF, HALF, True),
]


@pytest.mark.parametrize("row", KERNELS, ids=lambda row: f"{row[0]}, {row[3]} x {row[3]}")
def test_kernels(row: Any) -> None:
    name, shape, k, taps, stride, padding, dtype, parameters, added = row
    args = call(shape, k, taps, dtype, parameters)
    want = exact(args, None, stride, padding, 1, False)
    order = torch.empty(want.shape, dtype=dtype).contiguous(memory_format=torch.channels_last)
    residual = like(order) if added else None
    options = {"stride": stride, "padding": padding, "eps": EPS, "relu": True}
    with weft.sanitize():
        got = by(name, NAME, *args, residual, **options)
    assert got.is_contiguous(memory_format=torch.channels_last)
    close(got, exact(args, residual, stride, padding, 1, True))


@pytest.mark.parametrize(
    ("last", "groups", "missing"),
    [(True, 2, (2,)), (False, 1, (5, 6)), (True, 1, (2, 5)), (False, 2, ())],
    ids=["groups, no bias", "channels first, no parameters", "no weight", "channels first, groups"],
)
def test_what_is_left_out(last: bool, groups: int, missing: tuple[int, ...]) -> None:
    args = call((2, 32, 6, 6), 48, 3, last=last, groups=groups)
    for number in missing:
        args[number] = None
    options = {"padding": 1, "groups": groups, "eps": EPS}
    got = library.call(NAME)(*args, None, **options)
    close(got, exact(args, None, 1, 1, groups, False))


@pytest.mark.parametrize("last", [True, False])
def test_a_residual_of_another_order_is_copied(last: bool) -> None:
    args = call((2, 16, 6, 6), 24, 3, last=last)
    other = torch.contiguous_format if last else torch.channels_last
    residual = draw.seeded(9).normal(2, 24, 6, 6).half().contiguous(memory_format=other)
    got = library.call(NAME)(*args, residual, padding=1, eps=EPS, relu=True)
    close(got, exact(args, residual, 1, 1, 1, True))


def test_nan_stays_and_negative_results_are_cut() -> None:
    args = call((1, 16, 6, 6), 16, 1)
    args[0][0, :, 2, 3] = float("nan")
    got = library.call(NAME)(*args, None, eps=EPS, relu=True)
    assert got[0, :, 2, 3].isnan().all() and int(got.isnan().sum()) == 16
    assert (got[~got.isnan()] >= 0).all() and (got == 0).any()


def test_refused() -> None:
    args = call((1, 16, 6, 6), 16, 1)
    with pytest.raises(ArgumentError, match="unsupported dtype"):
        library.call(NAME)(*(t.float() for t in args), None)
    with pytest.raises(ArgumentError, match="residual must have the shape"):
        library.call(NAME)(*args, torch.zeros(1, 16, 5, 5).half())
    with pytest.raises(ArgumentError, match="running_mean is not contiguous"):
        library.call(NAME)(*args[:3], torch.zeros(32).half()[::2], *args[4:])
