"""group_norm_silu: silu of group norm and its gradients, against float64."""

from __future__ import annotations

from typing import Any

import pytest

import draw
import weft

torch = pytest.importorskip("torch")

from torch.nn import functional as F  # noqa: E402

from weft.errors import ArgumentError  # noqa: E402
from weft.ops.core import library  # noqa: E402

FLOAT, HALF, BFLOAT = torch.float32, torch.float16, torch.bfloat16
TOLERANCE = {FLOAT: 2e-6, HALF: 1e-3, BFLOAT: 8e-3}


def last(*shape: int, dtype: Any, seed: int = 1) -> Any:
    x = draw.seeded(seed).normal(*shape).to(dtype)
    return x.contiguous(memory_format=torch.channels_last)


def close(got: Any, want: Any, dtype: Any) -> None:
    assert (got.double() - want).norm() / want.norm() < TOLERANCE[dtype]


@pytest.mark.parametrize(
    ("shape", "groups", "dtype", "parameters", "weights"),
    [
        ((2, 24, 5, 7), 4, FLOAT, FLOAT, "wb"),
        ((1, 32, 9, 9), 32, HALF, HALF, "wb"),
        ((3, 40, 4, 4), 5, BFLOAT, FLOAT, "wb"),
        ((2, 16, 3, 3), 2, HALF, FLOAT, "b"),
        ((2, 16, 3, 3), 1, BFLOAT, BFLOAT, ""),
    ],
)
def test_against_float64(
    shape: tuple[int, ...], groups: int, dtype: Any, parameters: Any, weights: str
) -> None:
    x, dy = last(*shape, dtype=dtype), last(*shape, dtype=dtype, seed=2)
    random = draw.seeded(3)
    w, b = (
        random.normal(shape[1]).to(parameters).requires_grad_() if name in weights else None
        for name in "wb"
    )
    given = [t for t in (x.requires_grad_(), w, b) if t is not None]
    exact = [t.detach().double().requires_grad_() for t in given]
    with weft.sanitize():
        y = library.call("group_norm_silu")(x, groups, w, b, 1e-4)
        found = torch.autograd.grad(y, given, dy)
    rest = dict(zip(["x", *weights], exact, strict=True))
    # PyTorch's gradients fail where there is a bias without a weight.
    ones = torch.ones(shape[1]).double()
    normed = F.group_norm(rest["x"], groups, rest.get("w", ones), rest.get("b"), 1e-4)
    want = F.silu(normed)
    close(y, want, dtype)
    assert y.stride() == x.stride()
    for got, exactly in zip(found, torch.autograd.grad(want, exact, dy.double()), strict=True):
        close(got, exactly, dtype)


def test_large_and_small_inputs_have_finite_gradients() -> None:
    x = last(1, 8, 4, 4, dtype=FLOAT) * 1e4
    x[0, 0, 0, 0] = -1e6
    y = library.call("group_norm_silu")(x.requires_grad_(), 2, torch.full((8,), 50.0), None, 1e-5)
    (dx,) = torch.autograd.grad(y.sum(), x)
    assert y.isfinite().all() and dx.isfinite().all()


def test_channels_first_are_refused() -> None:
    with pytest.raises(ArgumentError, match="must be last in memory"):
        library.call("group_norm_silu")(torch.ones(1, 8, 4, 4), 2)
