"""Derivatives of derivatives, of ops whose gradients are computed by torch's formulas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import draw
import weft

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402

from weft.ops.families.reduce.op import DIFFERENTIABLE  # noqa: E402

REDUCED: dict[str, Callable[[Any], Any]] = {
    "norm": lambda x: torch.linalg.vector_norm(x, 2, 1),
    "var": lambda x: torch.var(x, 1),
}
TARGET, LABELS = torch.linspace(-1, 1, 12).view(3, 4), torch.tensor([1, 3, 0])
Row = tuple[Callable[..., Any], Callable[..., Any], Sequence[tuple[int, ...]]]
ROWS: dict[str, Row] = {
    **{
        name: (
            lambda x, name=name: getattr(weft.ops, name)(x, 1),
            REDUCED.get(name, lambda x, name=name: getattr(torch, name)(x, 1)),
            [(3, 4)],
        )
        for name in DIFFERENTIABLE
    },
    "cumprod": (lambda x: weft.ops.cumprod(x, 1), lambda x: torch.cumprod(x, 1), [(3, 4)]),
    "addmm": (
        lambda c, a, b: weft.ops.addmm(c, a, b, "gelu"),
        lambda c, a, b: functional.gelu(torch.addmm(c, a, b)),
        [(4,), (3, 5), (5, 4)],
    ),
    "mse_loss": (
        lambda x: weft.ops.mse_loss(x, TARGET.to(x.device, x.dtype)),
        lambda x: functional.mse_loss(x, TARGET.to(x.device, x.dtype)),
        [(3, 4)],
    ),
    "cross_entropy": (
        lambda x: weft.ops.cross_entropy(x, LABELS.to(x.device)),
        lambda x: functional.cross_entropy(x, LABELS.to(x.device)),
        [(3, 4)],
    ),
    "group_norm": (
        lambda x: weft.ops.group_norm(x, 1),
        lambda x: functional.group_norm(x, 1),
        [(3, 4)],
    ),
    "rms_norm": (
        lambda x: weft.ops.rms_norm(x, (4,), eps=1e-5),
        lambda x: functional.rms_norm(x, (4,), eps=1e-5),
        [(3, 4)],
    ),
}
QUICK = ("sum", "amax", "norm", "cumprod", "addmm", "mse_loss")
"""The rows of the default set: every kind of formula."""


def derivatives(function: Callable[..., Any], tensors: Sequence[Any]) -> list[Any]:
    """The first, second and third derivatives, each in a drawn direction."""
    generator = draw.seeded(5)
    out, value = [], function(*tensors).pow(3).sum()
    for _ in range(3):
        found = torch.autograd.grad(value, tensors, create_graph=True)
        out.extend(found)
        value = sum((f * generator.normal(f.shape).to(f)).sum() for f in found)
    return out


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in ROWS]
)
def test_derivatives_of_derivatives(name: str) -> None:
    ours, by_torch, shapes = ROWS[name]
    generator = draw.seeded(1)
    tensors = [generator.normal(shape).requires_grad_() for shape in shapes]
    wide = [t.detach().double().requires_grad_() for t in tensors]
    got, want = derivatives(ours, tensors), derivatives(by_torch, wide)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(
            a.double(), b, rtol=1e-3, atol=1e-4 * float(b.detach().abs().max())
        )
