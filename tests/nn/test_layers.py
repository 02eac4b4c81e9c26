"""`weft.nn`: every layer computes what `torch.nn`'s does, forward and backward."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import draw
import weft
from weft import nn

torch = pytest.importorskip("torch")

LAYERS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "Conv1d": (lambda t: t.Conv1d(3, 4, 3, stride=2, padding=1), (2, 3, 9)),
    "Conv2d": (lambda t: t.Conv2d(3, 4, 3, padding="same", bias=False), (2, 3, 5, 6)),
    "Linear": (lambda t: t.Linear(7, 5), (3, 2, 7)),
    "BatchNorm1d": (lambda t: t.BatchNorm1d(5), (4, 5)),
    "BatchNorm2d": (lambda t: t.BatchNorm2d(3, momentum=None), (2, 3, 4, 4)),
    "BatchNorm3d": (lambda t: t.BatchNorm3d(2, track_running_stats=False), (2, 2, 2, 3, 3)),
    "LayerNorm": (lambda t: t.LayerNorm((3, 8)), (2, 3, 8)),
    "RMSNorm": (lambda t: t.RMSNorm(8), (4, 8)),
    "GroupNorm": (lambda t: t.GroupNorm(2, 4), (2, 4, 3, 3)),
    "InstanceNorm1d": (lambda t: t.InstanceNorm1d(3, affine=True), (3, 8)),
    "InstanceNorm2d": (lambda t: t.InstanceNorm2d(3, track_running_stats=True), (2, 3, 4, 4)),
    "InstanceNorm3d": (lambda t: t.InstanceNorm3d(2), (2, 2, 2, 3, 3)),
    "LocalResponseNorm": (lambda t: t.LocalResponseNorm(3, alpha=0.1), (2, 4, 3, 3)),
    "MaxPool1d": (lambda t: t.MaxPool1d(2), (2, 3, 8)),
    "MaxPool2d": (lambda t: t.MaxPool2d(3, stride=2, padding=1), (2, 3, 7, 7)),
    "AvgPool1d": (lambda t: t.AvgPool1d(2), (2, 3, 8)),
    "AvgPool2d": (lambda t: t.AvgPool2d(2, ceil_mode=True), (2, 3, 5, 5)),
    "AdaptiveAvgPool1d": (lambda t: t.AdaptiveAvgPool1d(3), (2, 3, 8)),
    "AdaptiveAvgPool2d": (lambda t: t.AdaptiveAvgPool2d((1, 2)), (2, 3, 5, 5)),
    "Dropout": (lambda t: t.Dropout(0.0), (4, 5)),
    "ReLU": (lambda t: t.ReLU(), (4, 5)),
    "ReLU6": (lambda t: t.ReLU6(), (4, 5)),
    "SELU": (lambda t: t.SELU(), (4, 5)),
    "SiLU": (lambda t: t.SiLU(), (4, 5)),
    "Mish": (lambda t: t.Mish(), (4, 5)),
    "Hardswish": (lambda t: t.Hardswish(), (4, 5)),
    "Hardsigmoid": (lambda t: t.Hardsigmoid(), (4, 5)),
    "ELU": (lambda t: t.ELU(0.7), (4, 5)),
    "LeakyReLU": (lambda t: t.LeakyReLU(0.2), (4, 5)),
    "GELU": (lambda t: t.GELU(approximate="tanh"), (4, 5)),
    "Softplus": (lambda t: t.Softplus(2.0), (4, 5)),
    "Sigmoid": (lambda t: t.Sigmoid(), (4, 5)),
    "Tanh": (lambda t: t.Tanh(), (4, 5)),
    "Softmax": (lambda t: t.Softmax(dim=0), (4, 5)),
    "LogSoftmax": (lambda t: t.LogSoftmax(dim=-1), (4, 5)),
}
LOSSES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "CrossEntropyLoss": (lambda t: t.CrossEntropyLoss(label_smoothing=0.1), "labels"),
    "NLLLoss": (lambda t: t.NLLLoss(reduction="sum"), "labels"),
    "MSELoss": (lambda t: t.MSELoss(), "numbers"),
    "L1Loss": (lambda t: t.L1Loss(), "numbers"),
    "SmoothL1Loss": (lambda t: t.SmoothL1Loss(beta=0.5), "numbers"),
    "BCELoss": (lambda t: t.BCELoss(), "probabilities"),
    "BCEWithLogitsLoss": (lambda t: t.BCEWithLogitsLoss(), "probabilities"),
    "KLDivLoss": (lambda t: t.KLDivLoss(reduction="sum"), "probabilities"),
}


def _pair(make: Callable[[Any], Any]) -> tuple[Any, Any]:
    """weft's layer and torch's, made from the same random numbers."""
    layers = []
    for namespace in (nn, torch.nn):
        torch.manual_seed(5)
        layers.append(make(namespace))
    return layers[0], layers[1]


def _randn(*shape: int) -> Any:
    return draw.seeded(9).normal(shape)


def _same(a: Any, b: Any) -> None:
    torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def test_every_layer_has_a_test() -> None:
    classes = {n for n in dir(nn) if n[0].isupper()}
    newer = {"LinearCrossEntropyLoss"} if hasattr(torch.nn, "LinearCrossEntropyLoss") else set()
    assert classes == {*LAYERS, *LOSSES, "Embedding", *newer}


@pytest.mark.parametrize("name", LAYERS)
def test_layer(name: str) -> None:
    make, shape = LAYERS[name]
    mine, torchs = _pair(make)
    assert type(mine).__name__ == name and repr(mine) == repr(torchs)
    inputs = [_randn(*shape).requires_grad_() for _ in range(2)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got, want = mine(inputs[0]), torchs(inputs[1])
    _same(got, want)
    got.backward(_randn(*got.shape))
    want.backward(_randn(*want.shape))
    _same(inputs[0].grad, inputs[1].grad)
    for (key, parameter), other in zip(mine.named_parameters(), torchs.parameters(), strict=True):
        _same(parameter.grad, other.grad)
        assert key in torchs.state_dict()
    assert [*mine.state_dict()] == [*torchs.state_dict()]
    for key, value in mine.state_dict().items():  # running statistics
        _same(value, torchs.state_dict()[key])


@pytest.mark.parametrize("name", LOSSES)
def test_loss(name: str) -> None:
    make, kind = LOSSES[name]
    mine, torchs = _pair(make)
    inputs = [_randn(6, 4) for _ in range(2)]
    if name == "BCELoss":
        inputs = [x.sigmoid() for x in inputs]
    inputs = [x.requires_grad_() for x in inputs]
    target = {"labels": torch.tensor([0, 3, 1, 1, 2, 0]), "numbers": _randn(6, 4) * 2,
              "probabilities": _randn(6, 4).sigmoid()}[kind]  # fmt: skip
    got, want = mine(inputs[0], target), torchs(inputs[1], target)
    _same(got, want)
    got.backward()
    want.backward()
    _same(inputs[0].grad, inputs[1].grad)


def test_embedding() -> None:
    mine, torchs = _pair(lambda t: t.Embedding(6, 4, padding_idx=2))
    indices = torch.tensor([[0, 5, 2], [5, 5, 1]])
    got, want = mine(indices), torchs(indices)
    _same(got, want)
    got.sum().backward()
    want.sum().backward()
    _same(mine.weight.grad, torchs.weight.grad)


@pytest.mark.skipif(
    not hasattr(torch.nn, "LinearCrossEntropyLoss"), reason="this PyTorch has no such layer"
)
def test_linear_loss() -> None:
    mine, torchs = _pair(lambda t: t.LinearCrossEntropyLoss(4, 5, bias=True, label_smoothing=0.1))
    assert type(nn.revert(nn.convert(copy.deepcopy(torchs)))) is type(torchs)
    inputs = [_randn(6, 4).requires_grad_() for _ in range(2)]
    labels = torch.tensor([0, 3, 4, -100, 2, 0])
    got, want = mine(inputs[0], labels), torchs(inputs[1], labels)
    _same(got, want)
    (3 * got).backward()
    (3 * want).backward()
    _same(inputs[0].grad, inputs[1].grad)
    for one, two in zip(mine.parameters(), torchs.parameters(), strict=True):
        _same(one.grad, two.grad)
    half = _randn(6, 4).bfloat16()
    assert mine.bfloat16()(half, labels).dtype is torchs.bfloat16()(half, labels).dtype


@pytest.mark.skipif(
    not hasattr(torch.nn, "LinearCrossEntropyLoss"), reason="this PyTorch has no such layer"
)
def test_what_pytorch_computes_of_a_linear_loss() -> None:
    mine, torchs = _pair(lambda t: t.LinearCrossEntropyLoss(4, 5))
    x, shares = _randn(6, 4), _randn(6, 5).softmax(-1)
    with pytest.warns(UserWarning, match="no kernel for probabilities as target"):
        _same(mine(x, shares), torchs(x, shares))
    weighted = nn.LinearCrossEntropyLoss(4, 5, weight=torch.ones(5))
    with pytest.warns(UserWarning, match="no kernel for weight"):
        weighted(x, torch.tensor([0, 3, 1, 1, 2, 0]))


# ---- whole models ------------------------------------------------------------------------------
def _model() -> Any:
    torch.manual_seed(2)
    t = torch.nn
    return t.Sequential(
        t.Conv2d(1, 4, 3, padding=1), t.BatchNorm2d(4), t.ReLU(), t.MaxPool2d(2), t.Flatten(),
        t.Linear(4 * 9, 8), t.GELU(), t.Dropout(0.0), t.Linear(8, 3),
    )  # fmt: skip


def test_convert() -> None:
    torchs, mine = _model(), _model()
    weight = mine[0].weight
    assert nn.convert(mine) is mine and mine[0].weight is weight
    assert type(mine[0]) is nn.Conv2d and type(mine[4]) is torch.nn.Flatten
    mine.load_state_dict(torchs.state_dict())
    x, labels = _randn(5, 1, 6, 6), torch.tensor([0, 1, 2, 1, 0])
    losses = []
    for model, loss in ((mine, nn.CrossEntropyLoss()), (torchs, torch.nn.CrossEntropyLoss())):
        value = loss(model(x), labels)
        value.backward()
        losses.append(value.detach())
    _same(losses[0], losses[1])
    for a, b in zip(mine.parameters(), torchs.parameters(), strict=True):
        _same(a.grad, b.grad)
    _same(mine.eval()(x), torchs.eval()(x))
    assert type(nn.revert(mine)[0]) is torch.nn.Conv2d


def test_copies_and_pickles() -> None:
    layer = nn.Linear(3, 2)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert type(other) is nn.Linear and torch.equal(other.weight, layer.weight)


def test_what_pytorch_computes() -> None:
    layer = nn.Conv2d(1, 1, 3, padding=1, padding_mode="reflect")
    with pytest.warns(UserWarning, match="no kernel for padding_mode='reflect'"):
        layer(_randn(1, 1, 4, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer(_randn(1, 1, 4, 4))  # one warning is enough
    with pytest.warns(UserWarning, match="no kernel for the dtype float64"):
        assert nn.Linear(2, 2).double()(torch.ones(1, 2, dtype=torch.float64)).shape == (1, 2)


def test_unknown_layer() -> None:
    with pytest.raises(AttributeError, match=r"weft\.nn has no 'Conv9d'; there are"):
        _ = weft.nn.Conv9d
