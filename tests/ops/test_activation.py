"""Activations of `weft.ops`, forward and backward, against torch in float64."""

from __future__ import annotations

import math
from typing import Any

import pytest

import devices
import draw
import weft

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402  (it needs torch)

from weft.ops.core import library  # noqa: E402
from weft.ops.families.activation import functions as activations  # noqa: E402

SIM = devices.current.name == "sim"
DEVICE = "cpu" if SIM else "cuda"
SPECIAL = (-math.inf, math.inf, math.nan, -200.0, 200.0, 0.0, -0.0, 1e-30, -1e-20, 3.0, -3.0, 6.0)
NAMES = (*(a.name for a in activations.ACTIVATIONS), "gelu", "gelu_tanh")
QUICK = {"relu", "gelu", "gelu_tanh", "silu", "softplus"}
"""Run by default; `--slow` runs all."""


def rows(names: Any, quick: Any) -> list[Any]:
    return [pytest.param(n, marks=[] if n in quick else [pytest.mark.slow]) for n in names]


def options(name: str) -> list[dict[str, Any]]:
    """The default options, and others."""
    if name == "gelu_tanh":
        return [{"approximate": "tanh"}]
    numbers = next((a.numbers for a in activations.ACTIVATIONS if a.name == name), ())
    return [{}, {n: 0.7 * v + 0.2 for n, v in numbers}] if numbers else [{}]


def gelu(x: Any) -> Any:
    """torch's loses all digits below -5, where erf is near -1."""
    return 0.5 * x * torch.special.erfc(-x * math.sqrt(0.5))


def both(name: str, x: Any, dy: Any, **given: Any) -> tuple[Any, Any]:
    """The result and the gradient of weft's op."""
    x = x.detach().requires_grad_()
    y = getattr(weft.ops, name.removesuffix("_tanh") if name == "gelu_tanh" else name)(x, **given)
    return y.detach(), torch.autograd.grad(y, x, dy)[0]


def reference(name: str, x: Any, dy: Any, **given: Any) -> tuple[Any, Any]:
    x = x.double().detach().requires_grad_()
    exact = gelu if name == "gelu" else getattr(functional, name.removesuffix("_tanh"), None)
    if name == "tanh":
        exact = torch.tanh
    assert exact is not None
    y = exact(x, **given)
    return y.detach(), torch.autograd.grad(y, x, dy.double())[0]


@pytest.mark.parametrize("name", rows(NAMES, QUICK))
def test_values_and_gradients(name: str) -> None:
    x = torch.linspace(-30, 30, 501, device=DEVICE)
    dy = draw.seeded(1).normal(501).to(DEVICE)
    for given in options(name):
        for got, want in zip(
            both(name, x, dy, **given), reference(name, x, dy, **given), strict=True
        ):
            torch.testing.assert_close(got.double(), want, atol=3e-6, rtol=1e-5)


@pytest.mark.parametrize("name", rows(NAMES, {"gelu", "softplus"}))
def test_special_values(name: str) -> None:
    x = torch.tensor(SPECIAL, device=DEVICE)
    for given in options(name):
        got, slope = both(name, x, torch.ones_like(x), **given)
        want, _ = reference(name, x, torch.ones_like(x), **given)
        torch.testing.assert_close(got.double(), want, equal_nan=True, atol=1e-6, rtol=1e-5)
        finite = x.abs() <= 200
        assert slope[finite].isfinite().all()


@pytest.mark.parametrize("name", ["relu", "relu6", "hardtanh", "hardsigmoid", "hardswish"])
def test_infinite_gradients_vanish_where_the_slope_is_zero(name: str) -> None:
    x = torch.tensor([-9.0], device=DEVICE)
    _, slope = both(name, x, torch.full_like(x, math.inf))
    assert slope.item() == 0


def test_gelu_keeps_its_digits_in_the_tail() -> None:
    x = torch.linspace(-13, -5, 64, device=DEVICE)
    for got, want in zip(
        both("gelu", x, torch.ones_like(x)), reference("gelu", x, torch.ones_like(x)), strict=True
    ):
        torch.testing.assert_close(got.double(), want, atol=0, rtol=1e-4)


@pytest.mark.parametrize("kind", rows(["bfloat16", "float16", "float64"], {"bfloat16"}))
def test_dtypes_and_strides(kind: str) -> None:
    dtype = getattr(torch, kind)
    x = draw.seeded(2).normal(6, 9, 5).to(DEVICE, dtype)
    for view in (x, x.transpose(0, 2), x[:, 1:, ::2], x[:0]):
        got, slope = both("silu", view, torch.ones_like(view).expand(view.shape))
        want, expected = reference("silu", view, torch.ones_like(view))
        assert got.dtype == slope.dtype == dtype
        torch.testing.assert_close(got, want.to(dtype))
        torch.testing.assert_close(slope, expected.to(dtype))


def test_integers() -> None:
    x = torch.arange(-3, 4, device=DEVICE)
    assert torch.equal(weft.ops.relu(x), x.relu())
    torch.testing.assert_close(weft.ops.sigmoid(x), x.sigmoid())
    with pytest.raises(weft.ArgumentError, match=r"torch.int64"):
        weft.ops.gelu(x)
    with pytest.raises(weft.ArgumentError, match="'none', 'tanh'"):
        weft.ops.gelu(x.float(), approximate="exact")


def number(*shape: int) -> Any:
    return draw.seeded(3).normal(*shape).to(DEVICE)


@pytest.mark.parametrize("name", rows([n for n in NAMES if n != "gelu_tanh"], {"softplus"}))
def test_verify(name: str) -> None:
    x = (number(2, 3) * 3 + 0.11).requires_grad_()
    assert library.call(name).verify(x).passed
    dy, kept = number(2, 3).requires_grad_(), (number(2, 3) * 0.3).requires_grad_()
    numbers = list(options(name)[-1].values())
    extra = ["none"] if name == "gelu" else numbers
    assert library.call(f"{name}_backward").verify(dy, kept, *extra).passed


def test_batched_and_compiled() -> None:
    x = number(3, 4, 5)
    got = torch.vmap(lambda a: weft.ops.leaky_relu(a, 0.2), in_dims=1)(x)
    torch.testing.assert_close(got, functional.leaky_relu(x.movedim(1, 0), 0.2))
    leaf = x.clone().requires_grad_()
    compiled = torch.compile(
        lambda a: weft.ops.gelu(a, approximate="tanh"), fullgraph=True, backend="aot_eager"
    )
    (slope,) = torch.autograd.grad(compiled(leaf).sum(), leaf)
    torch.testing.assert_close(
        slope, both("gelu_tanh", x, torch.ones_like(x), approximate="tanh")[1]
    )


@pytest.mark.sim
def test_sanitized() -> None:
    with weft.sanitize():
        both("gelu", number(37), number(37))
