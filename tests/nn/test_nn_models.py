"""`weft.nn.convert` on models as people write them: results, copies, torch.compile, autocast."""

from __future__ import annotations

import copy
import io
import re
import warnings
from typing import Any

import pytest

import draw
from weft import nn

torch = pytest.importorskip("torch")
from weft.nn import layers  # noqa: E402  it needs torch


class Residual(torch.nn.Module):  # type: ignore[misc]
    """A block of a residual network, with its changes in place."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, stride=2, padding=1, bias=False)
        self.norm = torch.nn.BatchNorm2d(4)
        self.relu = torch.nn.ReLU(inplace=True)
        self.short = torch.nn.Conv2d(3, 4, 1, stride=2)
        self.pool = torch.nn.AdaptiveAvgPool2d(1)
        self.head = torch.nn.Linear(4, 5)

    def forward(self, x: Any) -> Any:
        y = self.norm(self.conv(x))
        y += self.short(x)
        return self.head(torch.flatten(self.pool(self.relu(y)), 1))


class Language(torch.nn.Module):  # type: ignore[misc]
    """A block of a transformer, with one matrix for the first layer and the last."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = torch.nn.Embedding(11, 8), torch.nn.Embedding(6, 8)
        self.norm, self.attend = torch.nn.LayerNorm(8), torch.nn.Linear(8, 24)
        self.rest = torch.nn.Sequential(
            torch.nn.LayerNorm(8), torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 8)
        )
        self.head = torch.nn.Linear(8, 11, bias=False)
        self.head.weight = self.words.weight

    def forward(self, x: Any) -> Any:
        y = self.words(x) + self.places(torch.arange(x.shape[1]))
        q, k, v = self.attend(self.norm(y)).unflatten(2, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        seen = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = y + seen.transpose(1, 2).flatten(2)
        return self.head(y + self.rest(y))


def _encoder() -> Any:
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    return torch.nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)


class Recurrent(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = torch.nn.LSTM(8, 4, batch_first=True), torch.nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        return self.head(self.cell(x)[0])


MODELS: dict[str, tuple[Any, tuple[int, ...], str]] = {
    "residual": (Residual, (2, 3, 8, 8), "weft.nn.ReLU: PyTorch computes this layer; .*inplace"),
    "language": (Language, (2, 6), ""),
    "encoder": (_encoder, (2, 3, 8), "convert: PyTorch computes MultiheadAttention; weft has no"),
    "recurrent": (Recurrent, (2, 3, 8), "weft.nn.convert: PyTorch computes LSTM; weft has no such"),
}


def _pair(name: str) -> tuple[Any, Any, Any]:
    """PyTorch's model, its copy that weft computes, and an input."""
    make, shape, warned = MODELS[name]
    layers._WARNED.clear()
    torch.manual_seed(4)
    torchs = make()
    mine = copy.deepcopy(torchs)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        nn.convert(mine)
        nn.convert(copy.deepcopy(torchs))  # the second time it says nothing
    texts = [str(w.message) for w in caught]
    assert len(texts) == bool(warned), texts
    if warned:
        assert re.search(warned, texts[0])
    made = draw.seeded(4)
    x = made.integers(0, 11, shape) if name == "language" else made.normal(shape)
    return torchs, mine, x


def _same(a: Any, b: Any, within: float = 1e-4) -> None:
    torch.testing.assert_close(a, b, rtol=within, atol=within, check_dtype=True)


@pytest.mark.parametrize("name", MODELS)
def test_results_and_gradients(name: str) -> None:
    torchs, mine, x = _pair(name)
    results = [model(x) for model in (mine, torchs)]
    _same(results[0], results[1])
    weights = draw.seeded(5).normal(results[0].shape)
    for result in results:
        result.backward(weights)
    for (key, a), b in zip(mine.named_parameters(), torchs.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-4, msg=lambda m, k=key: k + m)
    torchs.load_state_dict(mine.state_dict())
    _same(mine.eval()(x), torchs.eval()(x))


@pytest.mark.parametrize("name", ["residual", "language"])
def test_copies_files_and_compiled_models(name: str) -> None:
    _, mine, x = _pair(name)
    mine.eval()
    want = mine(x)
    file = io.BytesIO()
    torch.save(mine, file)
    file.seek(0)
    for other in (copy.deepcopy(mine), torch.load(file, weights_only=False)):
        assert type(other.head) is nn.Linear
        _same(other(x), want, 0.0)
    _same(torch.compile(mine, backend="aot_eager", fullgraph=True)(x), want, 1e-5)


def test_autocast_computes_products_in_its_dtype() -> None:
    torchs, mine, x = _pair("language")
    results = []
    for model in (mine, torchs):
        with torch.autocast("cpu", torch.bfloat16):
            results.append(model(x))
        results[-1].float().sum().backward()
    _same(results[0], results[1], 0.1)
    assert mine.head.weight.grad.dtype is torch.float32
