"""`examples/micrograd`: gradients are those of PyTorch, and the network learns."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from folders import ROOT

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def engine() -> Iterator[Any]:
    sys.path.insert(0, str(ROOT / "examples" / "micrograd"))
    yield importlib.import_module("engine")
    sys.path.remove(str(ROOT / "examples" / "micrograd"))


def _cross_entropy(scores: Any, labels: Any) -> Any:
    if isinstance(scores, torch.Tensor):
        return torch.nn.functional.cross_entropy(scores, torch.as_tensor(labels))
    return scores.cross_entropy(labels)


def _mse(x: Any, want: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return torch.nn.functional.mse_loss(x, torch.as_tensor(want))
    return x.mse(want)


LABELS = np.array([0, 3, 1, 2, 3])
WANT = np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4)
EXPRESSIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "linear": lambda x, w, b: _mse(x @ w + b, WANT),
    "tanh, cross-entropy": lambda x, w, b: _cross_entropy((x @ w + b).tanh(), LABELS),
    "relu, used twice": lambda x, w, b: _mse((x @ w).relu() * (x @ w) + b * 2.0, WANT),
    "row times matrix": lambda x, w, b: _mse((x @ w) * b - 0.5, WANT),
    "square": lambda x, w, b: _mse((x @ w + b) * (x @ w + b), WANT),
    "scaled loss": lambda x, w, b: _cross_entropy(-(x @ w), LABELS) * 3.0,
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_gradients(engine: Any, name: str) -> None:
    rng = np.random.default_rng(7)
    shapes = ((5, 3), (3, 4), (4,))
    arrays = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
    ours = [engine.Tensor(a) for a in arrays]
    theirs = [torch.tensor(a, requires_grad=True) for a in arrays]
    if name == "relu, used twice":  # b * 2.0 must repeat along the first operand in both
        ours[2] = engine.Tensor(np.tile(arrays[2], (5, 1)))
        theirs[2] = torch.tensor(np.tile(arrays[2], (5, 1)), requires_grad=True)
    loss, expected = EXPRESSIONS[name](*ours), EXPRESSIONS[name](*theirs)
    loss.backward()
    expected.backward()
    assert loss.data[0] == pytest.approx(expected.item(), rel=1e-5)
    for mine, torchs in zip(ours, theirs, strict=True):
        gradient = np.zeros_like(mine.grad) if torchs.grad is None else torchs.grad.numpy()
        np.testing.assert_allclose(mine.grad, gradient, rtol=1e-4, atol=1e-5)


def test_refused(engine: Any) -> None:
    x = engine.Tensor(np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"@ needs shapes"):
        x @ x
    with pytest.raises(ValueError, match="does not repeat"):
        x + engine.Tensor(np.ones(2))
    with pytest.raises(ValueError, match="labels from 0 to 2"):
        x.cross_entropy([0, 3])
    with pytest.raises(ValueError, match="equal shapes"):
        x.mse(np.ones(6))
    with pytest.raises(ValueError, match="single number"):
        x.backward()


def test_training(engine: Any) -> None:
    history = importlib.import_module("train").train(steps=120)
    assert history[-1][0] < 0.1 * history[0][0] and history[-1][1] > 0.97
