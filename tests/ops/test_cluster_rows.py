"""Rows that the blocks of a cluster share: softmax, norms and cross-entropy, against float64."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import draw

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

import weft  # noqa: E402
from weft.ops.core import library  # noqa: E402
from weft.ops.core.runner import runner  # noqa: E402
from weft.ops.core.target import named  # noqa: E402

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
H200 = named("sim:h200")
LIMITS = {F32: 1e-6, F16: 6e-4, BF16: 4e-3}
ROWS = {
    "whole vectors": ((2, 33_000), BF16),
    "odd rows": ((3, 32_805), F16),
    "floats": ((1, 16_500), F32),
}


def drawn(shape: tuple[int, ...], seed: int, dtype: Any, shift: float = 0) -> Any:
    return (draw.seeded(seed).normal(shape) * 2 + shift).to(dtype)


def run(op: str, *args: Any) -> Any:
    """The results of an op by clusters of an H200."""
    function = library.function(op)
    request = dataclasses.replace(function.request(*args), target=H200)
    found = {c.name: c for c in function.definition.candidates(request)}
    tensors = [
        a for a, row in zip(args, function.arguments, strict=True) if row.name in function.tensors
    ]
    plan = found["rows in clusters"].build()
    assert plan.steps[0].cluster is not None
    return runner(plan, len(tensors), torch.device("cpu"))(*tensors)


def close(got: Any, want: Any, dtype: Any) -> None:
    error = (got.double() - want).norm() / want.norm()
    assert error < LIMITS[dtype]


@pytest.mark.parametrize("op", ["softmax", "log_softmax"])
@pytest.mark.parametrize("subject", ROWS)
def test_softmax(subject: str, op: str) -> None:
    shape, dtype = ROWS[subject]
    x, dy = drawn(shape, 1, dtype), drawn(shape, 2, dtype)
    wide = x.double().requires_grad_()
    want = getattr(torch, op)(wide, -1)
    close(run(op, x, -1), want.detach(), dtype)
    want.backward(dy.double())
    close(run(f"{op}_backward", dy, want.detach().to(dtype), -1), wide.grad, dtype)


def test_softmax_of_special_numbers() -> None:
    """A row of -inf and one with NaN are NaN; single ones of -inf are 0."""
    x = drawn((3, 33_000), 1, BF16)
    x[0, 5], x[1, :], x[2, 32_999] = -torch.inf, -torch.inf, torch.nan
    y = run("softmax", x, -1)
    close(y[0], x[0].double().softmax(-1), BF16)
    assert y[0, 5] == 0 and y[1:].isnan().all()


@pytest.mark.parametrize("subject", ROWS)
def test_norms(subject: str) -> None:
    shape, dtype = ROWS[subject]
    x, n = drawn(shape, 1, dtype, shift=20), shape[1:]
    w, b = drawn(n, 2, dtype), drawn(n, 3, dtype)
    want = F.layer_norm(x.double(), n, w.double(), b.double(), 1e-5)
    y, mean, rstd = run("layer_norm_forward", x, list(n), w, b, 1e-5)
    close(y, want, dtype)
    close(mean, x.double().mean(-1), F32)
    close(rstd, (x.double().var(-1, correction=0) + 1e-5).rsqrt(), F32)
    close(run("rms_norm", x, list(n), w, 1e-5), F.rms_norm(x.double(), n, w.double(), 1e-5), dtype)


def test_large_mean() -> None:
    """The mean of numbers around 10,000 loses no digits."""
    x = drawn((1, 16_500), 1, F32, shift=1e4)
    wide = F.layer_norm(x.double(), x.shape[1:])
    got = run("layer_norm", x, list(x.shape[1:]), None, None, 1e-5)
    assert (got - wide).abs().max() < 1e-5


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("subject", ROWS)
def test_cross_entropy(subject: str, reduction: str) -> None:
    """With a label that does not count; with weights and smoothing where losses are summed."""
    shape, dtype = ROWS[subject]
    x = drawn(shape, 1, dtype)
    labels = torch.arange(shape[0]) * 7919 % shape[1]
    if shape[0] > 2:
        labels[1] = -100
    smoothing = 0.1 if reduction == "sum" else 0.0
    weight = drawn(shape[1:], 2, dtype).abs() if reduction == "sum" else None
    wide = x.double().requires_grad_()
    want = F.cross_entropy(
        wide, labels, None if weight is None else weight.double(), reduction=reduction,
        label_smoothing=smoothing,
    )  # fmt: skip
    want.sum().backward()
    args = (x, labels, weight, -100, reduction, smoothing)
    loss, gradient = run("cross_entropy_with_gradient", *args)
    close(loss, want.detach(), dtype)
    close(gradient, wide.grad, dtype)
    assert torch.equal(run("cross_entropy", *args), loss)


def test_sanitized() -> None:
    with weft.sanitize() as session:
        run("softmax", drawn((1, 33_003), 1, BF16), -1)
    assert not session.findings


def test_other_gpus_have_none() -> None:
    function = library.function("softmax")
    request = function.request(drawn((2, 33_000), 1, BF16), -1)
    old = dataclasses.replace(request, target=dataclasses.replace(H200, capability=(8, 0)))
    assert all("cluster" not in c.name for c in function.definition.candidates(old))
