"""Compiled graphs as programs of the C++ code: the same results, no memory longer than needed."""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

import draw

torch = pytest.importorskip("torch")
from torch.nn import functional as F  # noqa: E402

from weft.ops.core.native import build, loaded  # noqa: E402
from weft.torch_backend.functions import dropout  # noqa: E402
from weft.torch_backend.program import GraphProgram  # noqa: E402

pytestmark = [
    pytest.mark.sim,
    pytest.mark.xdist_group("native"),
    pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++"),
]


@pytest.fixture(autouse=True)
def native(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    build.started().wait()
    assert build.started().module is not None, build.started().failure
    monkeypatch.setattr(loaded, "ON_CPU", True)
    yield


def traced(function: Any, *inputs: Any) -> GraphProgram:
    """The program of a function's ATen operations."""
    made = torch.fx.experimental.proxy_tensor.make_fx(
        lambda *given: [function(*given)], tracing_mode="fake"
    )
    return GraphProgram.of(made(*inputs))


def normal(*shape: int, seed: int = 0) -> Any:
    return draw.seeded(seed).normal(*shape)


def function(x: Any, w: Any) -> Any:
    y = F.relu(x @ w) + 1
    first, second = y.split(4, -1)
    return torch.cat([second * 2, first.sigmoid()], -1).t().contiguous()


def test_a_program_runs_in_the_native_code() -> None:
    inputs = [normal(4, 8), normal(8, 8, seed=1)]
    program = traced(function, *inputs)
    for seed in range(3):
        x = normal(4, 8, seed=seed)
        given = [x, inputs[1]]
        (result,) = program(given)
        assert given == []  # nothing keeps an input longer than the program needs it
        torch.testing.assert_close(result, function(x, inputs[1]))
    (version,) = program._versions.values()
    assert version.native is not None
    assert program._last is version.native


def test_other_layouts_have_a_version_of_their_own() -> None:
    inputs = [normal(4, 8), normal(8, 8, seed=1)]
    program = traced(function, *inputs)
    moved = torch.empty(33)[1:].view(4, 8).copy_(inputs[0])  # no multiple of 16 bytes
    turned = normal(8, 4, seed=2).t()
    for x in (inputs[0], moved, inputs[0], turned, moved):
        torch.testing.assert_close(program([x, inputs[1]])[0], function(x, inputs[1]))
    assert len(program._versions) == 3


def test_tensors_are_freed_after_their_last_use() -> None:
    """An input is gone when a later operation runs."""
    inputs = [normal(70, 8), normal(70, 8, seed=1)]
    program = traced(lambda a, b: (a @ b.t()).cumsum(0) + 1, *inputs)
    expected = (inputs[0] @ inputs[1].t()).cumsum(0) + 1
    seen: list[bool] = []
    for _ in range(3):
        first = inputs[0].clone()
        gone = weakref.ref(first)
        given = [first, inputs[1]]
        del first
        (result,) = program(given)
        seen.append(gone() is None)
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)
    assert seen == [True] * 3
    order = [n.name for p in program.placed for n in p.frees]
    product = next(i for i, n in enumerate(order) if n.startswith("mm"))
    assert all(order.index(n.name) < product for n in program.inputs)


def test_dropout_of_a_kernel_has_new_numbers_in_each_run() -> None:
    x = torch.ones(64, 8)
    program = traced(lambda x: dropout(x, 0.5) + 1, x)
    found = [program([x])[0] for _ in range(3)]
    assert all(set(y.unique().tolist()) == {1.0, 3.0} for y in found)
    assert not torch.equal(found[0], found[1]) and not torch.equal(found[1], found[2])
    (version,) = program._versions.values()
    assert version.native is not None
    assert [s.name for s in program.report][-1] == "mul, add, dropout"


def test_operations_that_only_python_can_call() -> None:
    def indexed(x: Any) -> Any:
        return x[torch.tensor([2, 0])] * 2

    x = normal(4, 8)
    program = traced(indexed, x)
    for _ in range(2):
        torch.testing.assert_close(program([x])[0], indexed(x))
