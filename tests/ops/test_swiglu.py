"""swiglu: silu(gate) * up of two tensors, or of the halves of one, held against float64."""

from __future__ import annotations

from typing import Any

import pytest

import draw

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

import weft  # noqa: E402
from weft.ops.core import library  # noqa: E402

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
LIMITS = {F32: 1e-6, F16: 1e-3, BF16: 6e-3}


def by_torch(gate: Any, up: Any = None) -> Any:
    gate, up = gate.chunk(2, -1) if up is None else (gate, up)
    return F.silu(gate) * up


def compare(dtype: Any, *given: Any) -> None:
    """Results and gradients."""
    ours = [t.detach().requires_grad_() for t in given]
    wide = [t.detach().double().requires_grad_() for t in given]
    y, want = weft.ops.swiglu(*ours), by_torch(*wide)
    dy = draw.seeded(9).normal(*want.shape).to(dtype)
    found = torch.autograd.grad(y, ours, dy)
    expected = torch.autograd.grad(want, wide, dy.double())
    for got, true in zip((y.detach(), *found), (want.detach(), *expected), strict=True):
        assert got.dtype is dtype and got.shape == true.shape
        assert (got.double() - true).norm() <= LIMITS[dtype] * true.norm()


def tensor(*shape: int, dtype: Any = F32, seed: int = 1) -> Any:
    return 2 * draw.seeded(seed).normal(*shape).to(dtype)


@pytest.mark.parametrize("dtype", [F32, F16, BF16])
def test_two_tensors(dtype: Any) -> None:
    compare(dtype, tensor(3, 5, 24, dtype=dtype), tensor(3, 5, 24, dtype=dtype, seed=2))


@pytest.mark.parametrize("dtype", [F32, F16, BF16])
@pytest.mark.parametrize("n", [24, 9, 4])
def test_a_packed_tensor(n: int, dtype: Any) -> None:
    compare(dtype, tensor(7, 3, 2 * n, dtype=dtype))


GATES: dict[str, Any] = {
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
}


@pytest.mark.parametrize("dtype", [F32, F16, BF16])
@pytest.mark.parametrize("n", [24, 9])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("activation", GATES)
def test_activations_of_either_half(activation: str, first: bool, n: int, dtype: Any) -> None:
    given = tensor(7, 3, 2 * n, dtype=dtype)
    ours, wide = given.clone().requires_grad_(), given.double().requires_grad_()
    with weft.sanitize() as session:
        y = library.call("gated")(ours, None, activation, first)
        dy = draw.seeded(9).normal(*y.shape).to(dtype)
        y.backward(dy)
    assert not session.findings
    gate, up = wide.chunk(2, -1) if first else wide.chunk(2, -1)[::-1]
    want = GATES[activation](gate) * up
    want.backward(dy.double())
    for got, true in ((y.detach(), want.detach()), (ours.grad, wide.grad)):
        assert got.dtype is dtype and got.shape == true.shape
        assert (got.double() - true).norm() <= LIMITS[dtype] * true.norm()


def test_layouts() -> None:
    """Views of a packed tensor are read where they lie; other strides are copied."""
    both = tensor(6, 32, dtype=F16)
    compare(F16, *both.chunk(2, -1))
    compare(F16, tensor(16, 6, dtype=F16).t(), tensor(6, 16, dtype=F16))
    compare(F32, tensor(6 * 10 + 1)[1:].view(6, 10))
    compare(F32, tensor(4, 6, 10).transpose(0, 1))
    compare(BF16, tensor(8, dtype=BF16))
    compare(F32, tensor(5, 8), tensor(1, 8, seed=2).expand(5, 8))


def test_no_elements() -> None:
    x = torch.empty(0, 8, requires_grad=True)
    y = weft.ops.swiglu(x)
    y.sum().backward()
    assert y.shape == (0, 4) and x.grad.shape == (0, 8)


def test_second_derivative() -> None:
    for given in ((tensor(3, 8),), (tensor(3, 4), tensor(3, 4, seed=2))):
        found = []
        for op in (weft.ops.swiglu, by_torch):
            points = [t.clone().requires_grad_() for t in given]
            first = torch.autograd.grad(op(*points).sum(), points, create_graph=True)
            total = sum((g * g).sum() for g in first)
            found.append(torch.autograd.grad(total, points))
        for got, want in zip(*found, strict=True):
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


def test_no_findings() -> None:
    x = tensor(5, 34, dtype=F16).requires_grad_()
    with weft.sanitize() as session:
        weft.ops.swiglu(x).sum().backward()
    assert not session.findings


def test_bad_arguments() -> None:
    with pytest.raises(weft.errors.ArgumentError, match="must be even"):
        weft.ops.swiglu(torch.zeros(3, 7))
    with pytest.raises(weft.errors.ArgumentError, match="one shape and dtype"):
        weft.ops.swiglu(torch.zeros(3, 7), torch.zeros(3, 6))
    with pytest.raises(weft.errors.ArgumentError, match="dtype"):
        weft.ops.swiglu(torch.zeros(3, 8, dtype=torch.int32))
