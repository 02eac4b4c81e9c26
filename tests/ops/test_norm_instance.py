"""instance_norm and its running statistics against torch in float64."""

from __future__ import annotations

from typing import Any

import pytest

import draw

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

import weft  # noqa: E402

LIMITS = {torch.float32: 2e-5, torch.bfloat16: 6e-2}
CASES = {
    "images": ((2, 3, 4, 5), torch.float32, True, True),
    "no weights": ((2, 3, 8), torch.float32, False, True),
    "no running statistics": ((2, 3, 2, 2, 4), torch.float32, True, False),
    "bf16": ((2, 4, 16), torch.bfloat16, True, True),
}


def drawn(*shape: int, seed: int = 1, dtype: Any = torch.float32) -> Any:
    return draw.seeded(seed).normal(shape, dtype=dtype)


def arguments(shape: tuple[int, ...], dtype: Any, weights: bool, running: bool) -> list[Any]:
    size = shape[1]
    kept = [drawn(size, seed=2), drawn(size, seed=3).abs() + 1] if running else [None, None]
    learned = [drawn(size, seed=s, dtype=dtype) for s in (4, 5)] if weights else [None, None]
    return [drawn(*shape, dtype=dtype), *kept, *learned]


def close(made: Any, wanted: Any, dtype: Any) -> None:
    limit = LIMITS[dtype]
    scale = max(1.0, float(wanted.abs().max()))
    torch.testing.assert_close(made.double(), wanted, rtol=limit, atol=limit * scale)


@pytest.mark.parametrize("by_input", [True, False])
@pytest.mark.parametrize("subject", CASES)
def test_against_float64(subject: str, by_input: bool) -> None:
    shape, dtype, weights, running = CASES[subject]
    if not by_input and not running:
        shape, dtype, weights, running = shape[:2], dtype, weights, True  # a matrix
    given = arguments(shape, dtype, weights, running)
    ours = [None if t is None else t.clone() for t in given]
    true = [None if t is None else t.double() for t in given]
    for tensors in (ours, true):
        for t in (tensors[0], *tensors[3:]):
            if t is not None:
                t.requires_grad_()
    y = weft.ops.instance_norm(*ours, by_input, 0.3, 1e-4)
    wanted = F.instance_norm(*true, by_input, 0.3, 1e-4)
    close(y.detach(), wanted.detach(), dtype)
    dy = drawn(*shape, seed=6, dtype=dtype)
    y.backward(dy)
    wanted.backward(dy.double())
    for a, b in zip(ours, true, strict=True):
        if a is not None:
            close(*((a.grad, b.grad) if a.requires_grad else (a, b)), dtype)


def test_compiled_with_running_statistics() -> None:
    x, mean, var, *_ = arguments((2, 3, 8), torch.float32, False, True)
    true = mean.clone(), var.clone()
    function = torch.compile(weft.ops.instance_norm, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(function(x, mean, var), F.instance_norm(x, *true))
    torch.testing.assert_close((mean, var), true)


def test_empty() -> None:
    for shape in ((0, 3, 4), (2, 0, 4), (2, 3, 0)):
        assert weft.ops.instance_norm(drawn(*shape)).shape == shape


REFUSED = {
    "one value": (lambda f: f(drawn(2, 3, 1)), "more than one value"),
    "a matrix": (lambda f: f(drawn(2, 3)), "more than one value"),
    "no variance": (lambda f: f(drawn(2, 3, 4), drawn(3)), "needed together"),
    "no statistics": (lambda f: f(drawn(2, 3, 4), use_input_stats=False), "needed together"),
    "other channels": (lambda f: f(drawn(2, 3, 4), weight=drawn(4)), "shape"),
}


@pytest.mark.parametrize("subject", REFUSED)
def test_refused(subject: str) -> None:
    call, message = REFUSED[subject]
    with pytest.raises((ValueError, RuntimeError)):
        call(F.instance_norm)
    with pytest.raises(weft.ArgumentError, match=message):
        call(weft.ops.instance_norm)
