"""local_response_norm, forward and backward, against torch in float64."""

from __future__ import annotations

from typing import Any

import pytest

import draw

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

import weft  # noqa: E402
from weft.ops.core import library  # noqa: E402
from weft.ops.core.runner import runner  # noqa: E402

LIMITS = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 2e-2}
CASES = {
    "images": ((2, 11, 4, 6), 5, torch.float32),
    "an even window": ((2, 9, 7), 4, torch.float32),
    "halves": ((2, 6, 16), 3, torch.float16),
    "one channel": ((3, 1, 5), 2, torch.bfloat16),
    "a window of more channels than there are": ((2, 3, 4), 9, torch.float32),
    "a long window": ((1, 30, 8), 12, torch.float32),
}


def drawn(*shape: int, seed: int = 1, dtype: Any = torch.float32) -> Any:
    return draw.seeded(seed).normal(shape, dtype=dtype)


def close(made: Any, wanted: Any) -> None:
    limit = LIMITS[made.dtype]
    scale = float(wanted.abs().max())
    torch.testing.assert_close(made.double(), wanted, rtol=limit, atol=limit * scale)


def compare(x: Any, size: int, *options: float) -> None:
    ours, true = x.clone().requires_grad_(), x.double().requires_grad_()
    y = weft.ops.local_response_norm(ours, size, *options)
    wanted = F.local_response_norm(true, size, *options)
    close(y.detach(), wanted.detach())
    dy = drawn(*x.shape, seed=2, dtype=x.dtype)
    y.backward(dy)
    wanted.backward(dy.double())
    close(ours.grad, true.grad)


@pytest.mark.parametrize("subject", CASES)
def test_against_float64(subject: str) -> None:
    shape, size, dtype = CASES[subject]
    compare(drawn(*shape, dtype=dtype), size, 0.7, 0.6, 1.5)


def test_layouts() -> None:
    """Channels last, which stay so; transposed and misaligned tensors."""
    x = drawn(2, 8, 3, 4)
    last = x.contiguous(memory_format=torch.channels_last)
    made = weft.ops.local_response_norm(last, 5)
    assert made.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(made, weft.ops.local_response_norm(x, 5))
    compare(last, 5, 0.7)
    compare(x.transpose(2, 3), 5, 0.7)
    compare(torch.empty(193)[1:].view(x.shape).copy_(x), 5, 0.7)


def test_every_kernel() -> None:
    x, dy, options = drawn(2, 6, 8), drawn(2, 6, 8, seed=2), (3, 0.7, 0.75, 1.0)
    true = x.double().requires_grad_()
    y = F.local_response_norm(true, *options)
    y.backward(dy.double())
    for name, tensors, wanted in (
        ("local_response_norm", (x,), y.detach()),
        ("local_response_norm_backward", (dy, x), true.grad),
    ):
        function = library.function(name)
        found = function.definition.candidates(function.request(*tensors, *options))
        assert {c.name for c in found} == {"strips", "window"}
        for c in found:
            close(runner(c.build(), len(tensors), x.device)(*tensors), wanted)


def test_empty() -> None:
    for shape in ((0, 3, 4), (2, 0, 4), (2, 3, 0)):
        assert weft.ops.local_response_norm(drawn(*shape), 2).shape == shape


def test_second_derivative_and_verify() -> None:
    x = drawn(2, 5, 4).requires_grad_()
    results = []
    for function in (weft.ops.local_response_norm, F.local_response_norm):
        y = function(x, 3, 0.7)
        (dx,) = torch.autograd.grad(y.pow(3).sum(), x, create_graph=True)
        results.append(torch.autograd.grad(dx.pow(2).sum(), x)[0])
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-4)
    assert weft.ops.local_response_norm.verify(x, 3, 0.7).passed


def test_sanitized() -> None:
    """No kernel reads what nothing wrote, or races."""
    with weft.sanitize() as session:
        weft.ops.local_response_norm(drawn(2, 5, 4).requires_grad_(), 3).sum().backward()
    assert not session.findings


REFUSED = {
    "a matrix": (lambda f: f(drawn(2, 3), 2), "3 dimensions"),
    "no window": (lambda f: f(drawn(2, 3, 4), 0), "number of channels"),
}


@pytest.mark.parametrize("subject", REFUSED)
def test_refused(subject: str) -> None:
    call, message = REFUSED[subject]
    with pytest.raises((ValueError, RuntimeError)):
        call(F.local_response_norm)
    with pytest.raises(weft.ArgumentError, match=message):
        call(weft.ops.local_response_norm)
