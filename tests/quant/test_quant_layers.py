"""`weft.quant.Linear` and `DynamicLinear`: products against float64, state, dtypes, devices."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest

import draw
import weft
from weft.errors import ArgumentError

torch = pytest.importorskip("torch")
from weft.quant import DynamicLinear, Linear, convert, quantise  # noqa: E402  they need torch
from weft.quant.formats import FORMATS  # noqa: E402
from weft.quant.layers import Outliers  # noqa: E402

N, K, M = 24, 64, 5


def weight() -> Any:
    return draw.seeded(1).normal(N, K) / 8


def inputs(dtype: Any = torch.float32) -> Any:
    return draw.seeded(2).normal(M, K).to(dtype)


def bias() -> Any:
    return torch.nn.Parameter(draw.seeded(3).normal(N))


def close(y: Any, exact: Any, digits: float) -> None:
    """Within `digits` of the largest output."""
    assert (y.double() - exact).abs().max() <= digits * exact.abs().max()


@pytest.mark.parametrize(
    ("format", "group", "options"),
    [
        ("int8", None, {}),
        ("int4", 32, {"symmetric": False}),
        ("e4m3", "block", {}),
        ("e5m2", "tensor", {}),
    ],
)
def test_weight_only(format: str, group: Any, options: Any) -> None:
    q = quantise(weight(), format, group, **options)
    layer, x = Linear(q, bias()), inputs()
    exact = x.double() @ q.dequantise(torch.float64).T + layer.bias.detach().double()
    y = layer(x.reshape(1, M, K))
    assert y.shape == (1, M, N) and y.dtype == torch.float32
    close(y[0], exact, 1e-6)


def test_half_precision() -> None:
    q = quantise(weight().half(), "int8")
    layer, x = Linear(q).half(), inputs(torch.float16)
    y = layer(x)
    assert y.dtype == torch.float16
    close(y, x.double() @ q.dequantise(torch.float16).double().T, 2e-3)


@pytest.mark.parametrize(
    ("format", "group"), [("int8", None), ("int8", "tensor"), ("e4m3", None), ("e4m3", "block")]
)
def test_dynamic(format: str, group: Any) -> None:
    q = quantise(weight(), format, group)
    layer, x = DynamicLinear(q, bias()), inputs()
    x[2] = 0  # a row of zeros has scale 1
    stored, scale = weft.ops.quantise(x, FORMATS[format].dtype)
    assert stored.dtype == FORMATS[format].dtype and scale.shape == (M, 1) and scale[2] == 1
    exact = (stored.double() * scale.double()) @ q.dequantise(torch.float64).T
    # Tensor cores keep 13 bits below the largest term when they add products of fp8.
    digits = 1e-6 if format == "int8" else 2**-12
    close(layer(x), exact + layer.bias.detach().double(), digits)
    close(exact, x.double() @ weight().double().T, 0.01 if format == "int8" else 0.05)


def test_dynamic_products_of_integers_are_exact() -> None:
    q = quantise(torch.full((1, K), 127.0), "int8")
    assert DynamicLinear(q)(torch.full((1, K), 127.0)).item() == 127 * 127 * K


@pytest.mark.parametrize("kind", [Linear, DynamicLinear])
def test_outliers_and_multiplier(kind: Any) -> None:
    w, x = weight(), inputs()
    x[:, 9] *= 100
    multiplier = torch.ones(K)
    multiplier[9] = 0.5
    columns = torch.tensor([9])
    outliers = Outliers(columns, w[:, [9]].half())
    q = quantise(w.index_fill(1, columns, 0), "int8")
    layer = kind(q, bias(), multiplier=multiplier, outliers=outliers)
    made = layer.dequantised()
    assert (made.in_features, made.out_features) == (K, N) and made.bias is layer.bias
    torch.testing.assert_close(made.weight[:, 9], 0.5 * w[:, 9].half().float())
    exact = x.double() @ made.weight.detach().double().T + layer.bias.detach().double()
    close(layer(x), exact, 1e-6 if kind is Linear else 1e-3)


# ---- state -------------------------------------------------------------------------------------
def model(format: str, **options: Any) -> Any:
    made = torch.nn.Sequential(torch.nn.Linear(K, N), torch.nn.ReLU(), torch.nn.Linear(N, 2))
    with torch.no_grad():
        for p in made.parameters():
            p.copy_(draw.seeded(p.numel()).normal(*p.shape))
    return convert(made, format, skip=("2",), **options) if format else made


@pytest.mark.parametrize("format", FORMATS)
def test_save_and_load(format: str) -> None:
    group = 32 if format == "int4" else None
    first, second = (model(format, group=group) for _ in range(2))
    with torch.no_grad():
        second[0].scale.zero_()
        second[0].bias.zero_()
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second.load_state_dict(torch.load(file))
    assert second[0].quantised == first[0].quantised
    assert torch.equal(second[0].bias, first[0].bias)
    assert copy.deepcopy(first)[0].quantised == first[0].quantised


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ("int8", {}, "the checkpoint has another format than the layer"),
        ("int8", {}, "got: format=int8, group=channel, symmetric=True"),
        ("int4", {"group": 32}, "0.weight: the checkpoint has another format than the layer"),
        ("int4", {"symmetric": False}, "got: format=int4, group=channel, symmetric=False"),
        ("", {}, "0.weight: the checkpoint has a weight that is not quantised"),
        ("", {}, "next: load it before weft.quant.convert"),
    ],
)
def test_checkpoints_of_other_formats(given: str, options: Any, message: str) -> None:
    layer = model("int4")
    before = layer[0].quantised.state_dict()
    state = {name: value.clone() for name, value in before.items() if torch.is_tensor(value)}
    with pytest.raises(ArgumentError) as raised:
        layer.load_state_dict(model(given, **options).state_dict())
    assert message in str(raised.value)
    assert all(torch.equal(before[name], value) for name, value in state.items())


def test_casts_leave_weights_and_scales() -> None:
    layer = Linear(quantise(weight(), "e4m3"), bias())
    before = layer.quantised
    layer.half()
    assert layer.quantised == before and layer.bias.dtype == torch.float16
    layer.to("meta")
    assert layer.weight.device.type == layer.scale.device.type == "meta"
    assert layer.weight.dtype == torch.float8_e4m3fn and layer.scale.dtype == torch.float32


def test_the_text_of_layers() -> None:
    text = repr(model("int4", group=32))
    assert "Linear(in_features=64, out_features=24, bias=True, int4, group=32)" in text
    assert "(2): Linear(in_features=24, out_features=2, bias=True)" in text
    assert isinstance(weft.quant.DynamicLinear(quantise(weight(), "int8")), Linear)
