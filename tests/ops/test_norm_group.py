"""group_norm, forward and backward, held against float64."""

from __future__ import annotations

from typing import Any

import pytest

import draw

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

import weft  # noqa: E402
from weft.ops.core import library  # noqa: E402
from weft.ops.core.runner import runner  # noqa: E402

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
LIMITS = {F32: 2e-5, F16: 8e-3, BF16: 6e-2}


def drawn(shape: Any, seed: int, dtype: Any = F32, shift: float = 0) -> Any:
    values = draw.seeded(seed).normal(shape)
    return (values + shift).to(dtype)


def leaves(tensors: Any, wide: bool = False) -> list[Any]:
    copies = [None if t is None else t.detach().clone() for t in tensors]
    widened = [t.double() if wide and t is not None else t for t in copies]
    return [None if t is None else t.requires_grad_() for t in widened]


def close(got: Any, want: Any, dtype: Any) -> None:
    scale = max(1.0, float(want.detach().abs().max())) if want.numel() else 1.0
    limit = LIMITS[dtype]
    torch.testing.assert_close(got.double(), want.double(), rtol=limit, atol=limit * scale)


CASES: dict[str, tuple[tuple[int, ...], int, Any, Any]] = {
    "planes": ((3, 6, 4, 8), 2, F32, F32),
    "one group": ((3, 6, 4, 8), 1, F32, F32),
    "a group for each channel": ((2, 3, 2, 2, 4), 3, F32, F32),
    "planes of several warps": ((2, 3, 16, 20), 3, F32, F32),
    "odd planes": ((2, 4, 3, 5), 2, F32, F32),
    "a matrix": ((5, 12), 3, F32, F32),
    "long groups": ((1, 2, 200, 200), 1, F32, F32),
    "bf16 with weights of float": ((3, 8, 16), 2, BF16, F32),
    "no weights": ((3, 6, 4, 8), 2, F32, None),
    "small planes of halves": ((9, 4, 7, 7), 1, F16, F16),
    "a large batch": ((1030, 5, 2, 2), 5, BF16, BF16),
    "no batch": ((0, 6, 4), 2, F32, F32),
}


@pytest.mark.parametrize("subject", CASES)
def test_against_float64(subject: str) -> None:
    shape, groups, dtype, of_weights = CASES[subject]
    weights = [None if of_weights is None else drawn(shape[1:2], i, of_weights) for i in (1, 2)]
    tensors = [drawn(shape, 3, dtype), *weights]
    ours, theirs = leaves(tensors), leaves(tensors, wide=True)
    got = weft.ops.group_norm(ours[0], groups, *ours[1:])
    want = F.group_norm(theirs[0], groups, *theirs[1:])
    dy = drawn(shape, 4, dtype)
    got.backward(dy)
    want.backward(dy.double())
    close(got, want, dtype)
    for a, b in zip(ours, theirs, strict=True):
        if a is not None:
            close(a.grad, b.grad, dtype)
    assert torch.equal(weft.ops.group_norm(tensors[0], groups, *tensors[1:]), got)


def test_rows_on_chip_and_planes() -> None:
    """Small rows stay in shared memory, also misaligned ones; both ways give the same."""
    x = drawn((811,), 3)[1:].view(3, 6, 9, 5)
    dy, w = drawn((3, 6, 9, 5), 4), drawn((6,), 5)
    _, *statistics = library.call("group_norm_forward")(x, 2)
    function = library.function("group_norm_backward")
    tensors = (dy, x, w, *statistics)
    request = function.request(*function.bound((*tensors, 2, True), {}))
    made = {c.name: c for c in function.definition.candidates(request)}
    assert min(made.values(), key=lambda c: c.cost).name == "rows"
    results = [runner(made[n].build(), 5, x.device)(*tensors) for n in ("rows", "planes")]
    for a, b in zip(*results, strict=True):
        close(a, b, F32)


def test_gradient_with_gaps_between_rows() -> None:
    x, dy = drawn((5, 12), 1).requires_grad_(), drawn((5, 20), 2)[:, :12]
    for ours, theirs in (
        (lambda v: weft.ops.group_norm(v, 1), lambda v: F.group_norm(v, 1)),
        (lambda v: weft.ops.layer_norm(v, (12,)), lambda v: F.layer_norm(v, (12,))),
        (lambda v: weft.ops.rms_norm(v, (12,)), lambda v: F.rms_norm(v, (12,))),
    ):
        got, want = (torch.autograd.grad(f(x), x, dy)[0] for f in (ours, theirs))
        close(got, want, F32)


def test_large_mean() -> None:
    x = drawn((2, 6, 4, 8), 5, shift=1e4)
    want = F.group_norm(x.double(), 2)
    assert float((weft.ops.group_norm(x, 2) - want).abs().max()) < 1e-5


def test_strides() -> None:
    """Channels last, and a gradient that is one number, repeated."""
    x = drawn((3, 6, 4, 8), 6).to(memory_format=torch.channels_last).requires_grad_()
    y = weft.ops.group_norm(x, 2)
    close(y, F.group_norm(x.detach().double(), 2), F32)
    y.sum().backward()
    assert float(x.grad.abs().max()) < 1e-5


LAST: dict[str, tuple[tuple[int, ...], int, Any, Any, float]] = {
    "whole vectors": ((3, 32, 5, 6), 2, F32, F32, 0),
    "groups of odd channels": ((2, 12, 7, 9), 4, F32, None, 1e3),
    "several groups of a block": ((3, 32, 4, 9), 8, BF16, BF16, 3),
    "eight groups of halves": ((2, 48, 3, 3), 24, F16, F32, 0),
    "one place more than threads": ((1, 8, 257), 1, F32, F32, 0),
    "five dimensions": ((2, 16, 2, 3, 5), 4, F32, F32, 0),
    "two places": ((5, 64, 2), 2, F16, F16, 0),
    "channels of vectors of two": ((2, 40, 5, 5), 4, BF16, F32, 0),
}


@pytest.mark.parametrize("subject", LAST)
def test_channels_last(subject: str) -> None:
    """They are read where they are, and the result has them last, too."""
    shape, groups, dtype, of_weights, shift = LAST[subject]
    x = drawn(shape, 7, dtype, shift=shift).movedim(1, -1).contiguous().movedim(-1, 1)
    weights = [None if of_weights is None else drawn(shape[1:2], i, of_weights) for i in (8, 9)]
    explained = weft.ops.explain(weft.ops.group_norm, x, groups, *weights)
    assert explained.choice.used.name == "channels last"
    with weft.sanitize() as session:
        got, *saved = library.call("group_norm_forward")(x, groups, *weights)
    assert not session.findings
    assert got.stride() == x.stride()
    wide = [None if w is None else w.double() for w in weights]
    close(got, F.group_norm(x.double(), groups, *wide), dtype)
    rows = x.double().reshape(shape[0] * groups, -1)
    exact = rows.mean(1), (rows.var(1, correction=0) + 1e-5).rsqrt()
    for a, b in zip(saved, exact, strict=True):
        torch.testing.assert_close(a.double().view(-1), b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("subject", LAST)
@pytest.mark.parametrize("same", [True, False], ids=["last", "first"])
def test_gradients_with_channels_last(subject: str, same: bool) -> None:
    """Those of the results may have their channels first."""
    shape, groups, dtype, of_weights, shift = LAST[subject]
    x = drawn(shape, 7, dtype, shift=shift).movedim(1, -1).contiguous().movedim(-1, 1)
    weights = [None if of_weights is None else drawn(shape[1:2], i, of_weights) for i in (8, 9)]
    dy = drawn(shape, 10, dtype)
    if same:
        dy = dy.movedim(1, -1).contiguous().movedim(-1, 1)
    ours, theirs = leaves([x, *weights]), leaves([x, *weights], wide=True)
    with weft.sanitize() as session:
        weft.ops.group_norm(ours[0], groups, *ours[1:]).backward(dy)
    assert not session.findings
    F.group_norm(theirs[0], groups, *theirs[1:]).backward(dy.double())
    assert ours[0].grad.stride() == x.stride()
    for a, b in zip(ours, theirs, strict=True):
        if a is not None:
            close(a.grad, b.grad, dtype)


def test_weights_with_gaps_and_channels_last() -> None:
    x = drawn((2, 12, 3, 5), 7).movedim(1, -1).contiguous().movedim(-1, 1)
    w, b = drawn((24,), 8)[::2], drawn((24,), 9)[1::2]
    close(weft.ops.group_norm(x, 3, w, b), F.group_norm(x.double(), 3, w.double(), b.double()), F32)


def test_large_groups_have_their_channels_first() -> None:
    x = drawn((2, 514, 2, 2), 7).movedim(1, -1).contiguous().movedim(-1, 1)
    y = weft.ops.group_norm(x, 2)
    assert y.is_contiguous()
    close(y, F.group_norm(x.double(), 2), F32)


def test_second_derivatives() -> None:
    def second(of: Any, made: Any) -> Any:
        first = torch.autograd.grad(of(made[0], 2, *made[1:]).pow(3).sum(), made, create_graph=True)
        return torch.autograd.grad(sum(g.pow(2).sum() for g in first), made)

    tensors = [drawn((3, 6, 4, 8), 7), drawn((6,), 8), drawn((6,), 9)]
    ours = second(weft.ops.group_norm, leaves(tensors))
    for got, want in zip(ours, second(F.group_norm, leaves(tensors, wide=True)), strict=True):
        scale = float(want.abs().max())
        torch.testing.assert_close(got.double() / scale, want / scale, rtol=1e-3, atol=1e-4)


def test_compiled() -> None:
    tensors = [drawn((3, 6, 4, 8), 10), drawn((6,), 11), drawn((6,), 12)]
    ours, theirs = leaves(tensors), leaves(tensors, wide=True)
    function = torch.compile(
        lambda x, w, b: weft.ops.group_norm(x, 2, w, b).pow(3).sum(),
        backend="aot_eager",
        fullgraph=True,
    )
    function(*ours).backward()
    F.group_norm(theirs[0], 2, *theirs[1:]).pow(3).sum().backward()
    for a, b in zip(ours, theirs, strict=True):
        close(a.grad, b.grad, F32)


def test_verified() -> None:
    tensors = leaves([drawn((3, 6, 4, 8), 13), drawn((6,), 14), drawn((6,), 15)])
    assert library.call("group_norm").verify(tensors[0], 2, *tensors[1:], 1e-5).passed


X = torch.zeros(4, 6, 2)
REFUSED = {
    "groups that do not divide": (lambda: weft.ops.group_norm(X, 4), "must divide the channels"),
    "no groups": (lambda: weft.ops.group_norm(X, 0), "must divide the channels"),
    "a vector": (lambda: weft.ops.group_norm(X[0, 0], 1), "must divide the channels"),
    "one value per group": (lambda: weft.ops.group_norm(X[:1, :, 0], 6), "more than one value"),
    "weight of another shape": (
        lambda: weft.ops.group_norm(X, 2, torch.zeros(5)),
        "weight has shape",
    ),
}


@pytest.mark.parametrize("subject", REFUSED)
def test_refused(subject: str) -> None:
    call, message = REFUSED[subject]
    with pytest.raises(weft.ArgumentError, match=message):
        call()


def test_sanitized() -> None:
    """No kernel reads what nothing wrote, or races."""
    with weft.sanitize() as session:
        tensors = leaves([drawn((3, 6, 4, 8), 16), drawn((6,), 17), drawn((6,), 18)])
        weft.ops.group_norm(tensors[0], 2, *tensors[1:]).sum().backward()
    assert not session.findings
