"""Reductions of strided tensors: every plan, held against torch in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import devices

torch = pytest.importorskip("torch")

from weft.ops import library  # noqa: E402
from weft.ops.runner import runner  # noqa: E402

DEVICE = "cpu" if devices.current.name == "sim" else "cuda"
OPS: dict[str, Callable[..., Any]] = {"sum": torch.sum, "argmax": torch.argmax, "var": torch.var}


def numbers(*shape: int) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape))).to(DEVICE)


LAYOUTS = {
    "rows with gaps": (lambda: numbers(12, 45)[:, :41], 0),
    "all of rows with gaps": (lambda: numbers(40, 60)[:, :41], None),
    "kept dimensions in another order": (lambda: numbers(70, 4, 3).permute(0, 2, 1), 0),
    "a long column": (lambda: numbers(3000, 3)[:, :2], 0),
    "one of five dimensions": (lambda: numbers(2, 3, 4, 5, 6).permute(4, 2, 0, 3, 1), 2),
    "short rows in another order": (lambda: numbers(5, 6, 7).transpose(0, 1)[..., :6], 2),
    "repeated elements": (lambda: numbers(4, 1, 6).expand(4, 5, 6)[..., :5], 1),
}


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize(("make", "dim"), LAYOUTS.values(), ids=LAYOUTS.keys())
def test_strides(op: str, make: Callable[[], Any], dim: int | None) -> None:
    x, function = make(), library.function(op)
    request = function.request(*function.bound((x, dim), {}))
    plans = [c for c in function.definition.candidates(request) if "strided" in c.name]
    assert plans, "no plan reads the tensor where it is"
    wanted = OPS[op](x.double(), dim=dim)
    for plan in plans:
        result = runner(plan.build(), 1, x.device)(x)
        torch.testing.assert_close(result.to(wanted.dtype), wanted, rtol=1e-4, atol=1e-4)
