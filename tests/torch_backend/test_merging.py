"""Kernels whose results one other kernel reads are a part of it: fewer launches, same values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import draw

torch = pytest.importorskip("torch")
from torch.nn import functional as F  # noqa: E402

from weft.torch_backend import merging  # noqa: E402
from weft.torch_backend.program import GraphProgram  # noqa: E402

pytestmark = pytest.mark.sim


def traced(function: Any, *inputs: Any) -> GraphProgram:
    """The program of a function's ATen operations."""
    made = torch.fx.experimental.proxy_tensor.make_fx(
        lambda *given: [*function(*given)], tracing_mode="fake"
    )
    return GraphProgram.of(made(*inputs))


def normal(*shape: int, seed: int = 0) -> Any:
    return draw.seeded(seed).normal(*shape)


def products(*xs: Any) -> list[Any]:
    """Results of operations that are no part of a fused kernel."""
    return [x.cumsum(0) for x in xs]


def sums(x: Any, y: Any, z: Any) -> Any:
    a, b, c = products(x, y, z)
    return (a.sigmoid() + b.exp() + c.cos(),)


def normed(x: Any, y: Any, z: Any) -> Any:
    a, b, c = products(x, y, z)
    return (F.layer_norm(a.sigmoid() + b.exp() * c, (x.shape[-1],)),)


def kept(x: Any, y: Any, z: Any) -> Any:
    """A result that the graph returns as well, and one that a later operation reads."""
    a, b, c = products(x, y, z)
    first, second = a.sigmoid(), b.exp()
    total = first + second + c
    return first, total, second.cumsum(1)


def turned(x: Any, y: Any, z: Any) -> Any:
    """Operands of another memory order, of which a kernel of its own makes one of this order."""
    a, b, c = products(x, y, z)
    other = a.t().contiguous().t()
    return (other.sigmoid() + b.exp() + c,)


@pytest.mark.parametrize("function", [sums, normed, kept, turned])
@pytest.mark.parametrize("shape", [(512, 136), (6, 40)], ids=str)
def test_values_stay(function: Callable[..., Any], shape: tuple[int, int]) -> None:
    inputs = [normal(*shape, seed=i) for i in range(3)]
    program = traced(function, *inputs)
    for _ in range(2):
        torch.testing.assert_close(program(list(inputs)), list(function(*inputs)))


@pytest.mark.parametrize(("function", "kernels"), [(sums, 1), (kept, 1), (normed, 1)])
def test_operands_of_several_kernels_are_one(function: Any, kernels: int) -> None:
    inputs = [normal(512, 136, seed=i) for i in range(3)]
    program = traced(function, *inputs)
    assert sum(s.kind == "fused" for s in program.report) == kernels, program.report


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels of too many tensors stay apart, and those that would hold memory for long."""
    inputs = [normal(512, 136, seed=i) for i in range(3)]
    monkeypatch.setattr(merging, "MOST_OPERANDS", 3)
    assert sum(s.kind == "fused" for s in traced(sums, *inputs).report) > 1

    def late(x: Any, y: Any, z: Any) -> Any:
        first = (x + y).exp()
        rest = z.cumsum(0)
        for _ in range(merging.NEAR + 1):
            rest = rest.cumsum(0)
        return (first * (rest + 1).sigmoid(),)

    monkeypatch.undo()
    assert sum(s.kind == "fused" for s in traced(late, *inputs).report) == 2
