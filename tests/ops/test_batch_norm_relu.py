"""batch_norm_relu: batch norm, a residual and ReLU, held against float64."""

from __future__ import annotations

from typing import Any

import pytest

import draw
from candidates import by

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

import weft  # noqa: E402

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
LIMITS = {F32: 1e-5, F16: 1e-3, BF16: 8e-3}


def drawn(shape: tuple[int, ...], seed: int, dtype: Any, last: bool = False) -> Any:
    x = (draw.seeded(seed).normal(*shape) + 0.3).to(dtype)
    return x.movedim(1, -1).contiguous().movedim(-1, 1) if last else x


def by_torch(x: Any, mean: Any, var: Any, w: Any, b: Any, r: Any, training: bool) -> Any:
    y = F.batch_norm(x, mean, var, w, b, training)
    return F.relu(y if r is None else y + r)


def wide(*tensors: Any) -> list[Any]:
    return [None if t is None else t.detach().double().requires_grad_() for t in tensors]


def near(got: Any, want: Any, dtype: Any) -> None:
    assert got.shape == want.shape
    assert (got.double() - want).norm() <= LIMITS[dtype] * max(want.norm().item(), 1e-3)


CASES: dict[str, Any] = {
    "channels last": ((4, 16, 6, 6), F16, True, True),
    "channels first": ((4, 16, 6, 6), F16, False, True),
    "small planes": ((4, 16, 7, 7), BF16, False, True),
    "planes of half vectors": ((2, 3, 14, 14), F16, False, True),
    "odd planes": ((2, 3, 13, 13), F16, False, True),
    "odd channels": ((3, 5, 4, 4), BF16, True, True),
    "single precision": ((2, 3, 10, 10), F32, False, True),
    "no residual": ((4, 12, 6, 6), F16, True, False),
    "no residual, rows": ((40, 12), F32, False, False),
}


QUICK = {
    ("channels last", "channels"), ("channels last", "resident"), ("channels first", "chosen"),
    ("small planes", "resident"), ("odd planes", "channels"), ("no residual", "chosen"),
}  # fmt: skip
"""The kernels of each case; the others are compiled in the slow set."""
PAIRS = [
    pytest.param(case, kernels, marks=() if (case, kernels) in QUICK else pytest.mark.slow)
    for case in CASES
    for kernels in ("channels", "resident", "chosen")
    if kernels != "resident" or not case.startswith("odd")  # 2 bytes do not stay on chip
]


@pytest.mark.parametrize(("case", "kernels"), PAIRS)
def test_training(case: str, kernels: str) -> None:
    """Results and gradients by each candidate, and by the op."""
    shape, dtype, last, residual = CASES[case]
    x, dy = drawn(shape, 1, dtype, last), drawn(shape, 2, dtype, last)
    r = drawn(shape, 3, dtype, last) if residual else None
    w, b = (drawn(shape[1:2], seed, F32) for seed in (4, 5))
    points = wide(x, w, b, r)
    want = by_torch(points[0], None, None, *points[1:], True)
    want.backward(dy.double())
    if kernels != "chosen":
        y, mean, var, mask = by(kernels, "batch_norm_relu_training", x, r, w, b, 1e-5)
        given = (dy, x, mask, mean, var, w, b, 1e-5, True, residual)
        dx, dr, dw, db = by(kernels, "batch_norm_relu_backward", *given)
        found = [dx, dw, db, dr if residual else None]
    else:
        leaves = [None if t is None else t.clone().requires_grad_() for t in (x, w, b, r)]
        y = weft.ops.batch_norm_relu(leaves[0], None, None, *leaves[1:], True)
        y.backward(dy)
        found = [None if t is None else t.grad for t in leaves]
    assert y.stride() == x.stride() and found[0].stride() == x.stride()
    near(y, want, dtype)
    for got, point in zip(found, points, strict=True):
        if point is not None:
            near(got, point.grad, dtype)


def test_running_statistics() -> None:
    x, w, b = drawn((6, 8, 5, 5), 1, F32), drawn((8,), 2, F32), drawn((8,), 3, F32)
    ours, theirs = ([torch.zeros(8), torch.ones(8)] for _ in range(2))
    y = weft.ops.batch_norm_relu(x, *ours, w, b, training=True, momentum=0.3)
    want = F.relu(F.batch_norm(x, *theirs, w, b, True, 0.3))
    torch.testing.assert_close(y, want, rtol=1e-5, atol=1e-5)
    for got, running in zip(ours, theirs, strict=True):
        torch.testing.assert_close(got, running)


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("residual", [False, True])
def test_evaluation(residual: bool, gradient: bool) -> None:
    x, w, b = drawn((3, 8, 5, 5), 1, BF16, True), drawn((8,), 2, BF16), drawn((8,), 3, BF16)
    r = drawn((3, 8, 5, 5), 4, BF16, True) if residual else None
    mean, var = drawn((8,), 5, F32), drawn((8,), 6, F32).abs() + 0.5
    x.requires_grad_(gradient)
    y = weft.ops.batch_norm_relu(x, mean, var, w, b, r)
    points = wide(x, w, b, r)
    want = by_torch(points[0], mean.double(), var.double(), *points[1:], False)
    near(y.detach(), want.detach(), BF16)
    if gradient:
        y.sum().backward()
        want.sum().backward()
        near(x.grad, points[0].grad, BF16)


@pytest.mark.parametrize("layout", ["strided", "misaligned", "a residual in another order"])
def test_layouts(layout: str) -> None:
    """Tensors that are copied first, and masks of shorter vectors."""
    x, r, dy = (drawn((3, 8, 6, 6), seed, F16) for seed in (1, 2, 3))
    if layout == "strided":
        x = drawn((3, 8, 6, 12), 1, F16)[..., ::2]
    if layout == "misaligned":
        r = drawn((3 * 8 * 36 + 1,), 2, F16)[1:].view(3, 8, 6, 6)
    if layout == "a residual in another order":
        r = r.contiguous(memory_format=torch.channels_last)
    leaves = [t.detach().requires_grad_() for t in (x, r)]
    y = weft.ops.batch_norm_relu(leaves[0], None, None, residual=leaves[1], training=True)
    found = torch.autograd.grad(y, leaves, dy)
    points = wide(x, r)
    want = by_torch(points[0], None, None, None, None, points[1], True)
    near(y.detach(), want.detach(), F16)
    for got, expected in zip(found, torch.autograd.grad(want, points, dy.double()), strict=True):
        near(got, expected, F16)


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("last", [False, True])
def test_second_derivative(residual: bool, last: bool) -> None:
    x, dy = drawn((3, 4, 3, 3), 1, F32, last), drawn((3, 4, 3, 3), 2, F32, last)
    w, b = drawn((4,), 3, F32), drawn((4,), 4, F32)
    r = drawn((3, 4, 3, 3), 5, F32, last) if residual else None
    found = []
    for call in (
        lambda x, w, b, r: weft.ops.batch_norm_relu(x, None, None, w, b, r, True),
        lambda x, w, b, r: by_torch(x, None, None, w, b, r, True),
    ):
        points = [None if t is None else t.clone().requires_grad_() for t in (x, w, b, r)]
        given = [p for p in points if p is not None]
        first = torch.autograd.grad(call(*points), given, dy, create_graph=True)
        total = sum((g * (i + 1)).pow(2).sum() for i, g in enumerate(first))
        found.append(torch.autograd.grad(total, [points[0], points[1]]))
    for got, want in zip(*found, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-3)


def test_special_values() -> None:
    """NaN stays NaN, and has a gradient; no gradient goes back where the result is 0."""
    x = drawn((4, 2, 3, 3), 1, F32)
    r = torch.zeros_like(x)
    r[0, 0, 0, 0], r[0, 0, 0, 1] = torch.nan, -100.0
    r.requires_grad_()
    y = weft.ops.batch_norm_relu(x, None, None, residual=r, training=True)
    want = by_torch(x, None, None, None, None, r, True)
    torch.testing.assert_close(y, want, rtol=1e-5, atol=1e-5, equal_nan=True)
    (dr,) = torch.autograd.grad(y, r, torch.ones_like(y))
    assert dr[0, 0, 0, 1] == 0
    torch.testing.assert_close(dr, (want > 0).float().where(~want.isnan(), 1.0))


def test_no_findings() -> None:
    x, r = (drawn((5, 16, 6, 6), seed, F16, True).requires_grad_() for seed in (1, 2))
    with weft.sanitize() as session:
        y = weft.ops.batch_norm_relu(x, None, None, residual=r, training=True)
        torch.autograd.grad(y.sum(), [x, r])
    assert not session.findings


def test_under_compile() -> None:
    """The mask has the size that torch.compile was told."""
    x, r = (drawn((3, 8, 7, 7), seed, F16).requires_grad_() for seed in (1, 2))
    found = []
    call = weft.ops.batch_norm_relu
    for op in (call, torch.compile(call, backend="aot_eager", fullgraph=True)):
        y = op(x, None, None, residual=r, training=True)
        found.append((y.detach(), *torch.autograd.grad(y.sum(), [x, r])))
    for got, want in zip(*found, strict=True):
        assert torch.equal(got, want)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"residual": torch.zeros(2, 4, 3, 4)}, "residual must have the shape"),
        ({"residual": torch.zeros(2, 4, 3, 3, dtype=F16)}, "residual must have the shape"),
        ({"weight": torch.zeros(3)}, "weight"),
        ({"training": False}, "running_mean and running_var are needed"),
        ({"input": torch.zeros(4)}, "needs a batch and a channel dimension"),
    ],
)
def test_bad_arguments(change: dict[str, Any], words: str) -> None:
    given = {"input": torch.zeros(2, 4, 3, 3), "running_mean": None, "running_var": None}
    with pytest.raises(weft.errors.ArgumentError, match=words):
        weft.ops.batch_norm_relu(**{**given, "training": True, **change})
