"""Repeated operations of a traced graph: one is left where both compute the same."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from weft.torch_backend.partition import remove_repeated  # noqa: E402


def left(function: Any, *inputs: Any) -> list[str]:
    """The operations of a function after repeated ones were removed; results stay the same."""
    make = torch.fx.experimental.proxy_tensor.make_fx(function, tracing_mode="fake")
    module = make(*(x.clone() for x in inputs))
    remove_repeated(module.graph)
    module.graph.lint()
    module.recompile()
    names = [str(n.target) for n in module.graph.nodes if n.op == "call_function"]
    if not any("bernoulli" in name for name in names):
        torch.testing.assert_close(
            module(*(x.clone() for x in inputs)), function(*(x.clone() for x in inputs))
        )
    return [name.removeprefix("aten.").partition(".")[0] for name in names]


X = torch.arange(6.0).reshape(2, 3) - 2
DRAWN = ["sigmoid", "bernoulli", "bernoulli", "add"]


def written(x: Any) -> Any:
    before = x.sin()
    x.add_(1)
    return before * x.sin()


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x.sin() * x.sin(), ["sin", "mul"]),
        (lambda x: x.sin().exp() + x.sin().exp(), ["sin", "exp", "add"]),
        (lambda x: x.t().sin() + x.t().cos(), ["t", "sin", "cos", "add"]),
        (lambda x: (x + 1) * (x + 2), ["add", "add", "mul"]),
        (lambda x: (x > 1) | (x > 1.0), ["gt", "gt", "bitwise_or"]),
        (lambda x: x.clamp(0.0) * x.clamp(-0.0), ["clamp", "clamp", "mul"]),
        (lambda x: x.sum([0]) + x.sum([0]) * x.sum([1])[0], None),
        (lambda x: x.sigmoid().bernoulli() + x.sigmoid().bernoulli(), DRAWN),
        (lambda x: (x.sin(), x.sin()), ["sin", "sin"]),
        (written, ["sin", "add_", "sin", "mul"]),
    ],
    ids=[
        "same", "chain", "view", "number", "type", "zero", "lists", "random", "results", "written",
    ],
)  # fmt: skip
def test_repeated_operations(function: Any, expected: list[str] | None) -> None:
    found = left(function, X)
    if expected is None:
        assert found.count("sum") == 2
    else:
        assert found == expected
