"""`weft.quant.convert` and `revert`: whole transformers with bounds of their errors."""

from __future__ import annotations

import copy
import functools
import io
from typing import Any

import pytest

import draw
import weft
from weft.errors import ArgumentError

torch = pytest.importorskip("torch")
from weft.networks.network import network  # noqa: E402  they need torch
from weft.quant import DynamicLinear, Linear, calibrate, convert, revert  # noqa: E402

HEAD = ("head",)


@functools.cache
def drawn(name: str) -> tuple[Any, Any]:
    """A tiny network with the same weights on every CPU, one input channel of which is large."""
    net, stream = network(name, "tiny"), draw.seeded(3)
    with torch.no_grad():
        for p in net.module.parameters():
            noise = stream.normal(*p.shape)
            p.copy_(1 + 0.1 * noise if p.dim() == 1 else noise * p[0].numel() ** -0.5)
        for block in net.module.blocks:
            block.norm1.weight[5] = 30.0
    return net.module.eval(), net.batch(2).inputs


def fresh(name: str = "llama") -> tuple[Any, Any]:
    module, inputs = drawn(name)
    return copy.deepcopy(module), inputs


def away(module: Any, other: Any, inputs: Any) -> float:
    """The relative error of logits in float64."""
    with torch.no_grad():
        a, b = (copy.deepcopy(m).double()(*inputs) for m in (module, other))
    return float((a - b).norm() / b.norm())


BOUNDS = [
    ("int8", {}, 0.03),
    ("int4", {"group": 32}, 0.5),
    ("int4", {"group": 32, "symmetric": False}, 0.5),
    ("e4m3", {}, 0.15),
    ("e5m2", {"group": "tensor"}, 0.3),
]


@pytest.mark.parametrize("name", ["llama", "gpt2"])
@pytest.mark.parametrize(("format", "options", "bound"), BOUNDS)
def test_errors_of_a_transformer(name: str, format: str, options: Any, bound: float) -> None:
    """The dequantised twin computes the same, in PyTorch alone."""
    module, inputs = fresh(name)
    assert convert(module, format, skip=HEAD, **options) is module
    layers = [m for m in module.modules() if isinstance(m, Linear)]
    assert len(layers) == {"llama": 14, "gpt2": 8}[name]
    assert type(module.head) is torch.nn.Linear
    assert 0 < away(revert(module), drawn(name)[0], inputs) < bound


def test_a_converted_transformer_computes_as_its_reverted_twin() -> None:
    module, inputs = fresh()
    convert(module, "int4", 32, skip=HEAD)
    with torch.no_grad():
        y = module(*inputs)
        torch.testing.assert_close(y, revert(module)(*inputs), rtol=1e-4, atol=1e-4)


def calibrated(name: str = "llama") -> tuple[Any, Any, Any]:
    module, inputs = fresh(name)
    return module, inputs, calibrate(module, [inputs])


def test_calibration_lowers_the_error() -> None:
    module, inputs, found = calibrated()
    plain = away(revert(convert(copy.deepcopy(module), "int4", skip=HEAD)), module, inputs)
    clipped = convert(copy.deepcopy(module), "int4", skip=HEAD, calibration=found)
    assert away(revert(clipped), module, inputs) < plain


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_smoothing_is_folded_into_norms(name: str) -> None:
    module, inputs, found = calibrated(name)
    made = convert(copy.deepcopy(module), "int8", skip=HEAD, calibration=found, smooth=0.5)
    for block, before in zip(made.blocks, module.blocks, strict=True):
        first = block.attention.q if name == "llama" else block.attention.qkv
        assert first.multiplier is None and block.up.multiplier is None
        assert not torch.equal(block.norm1.weight, before.norm1.weight)
        assert block.attention.out.multiplier is not None and block.down.multiplier is not None
    assert torch.equal(made.norm.weight, module.norm.weight)  # the head is not converted
    assert away(revert(made), module, inputs) < 0.03


def test_a_norm_that_a_skipped_layer_reads_stays() -> None:
    module, inputs, found = calibrated()
    made = convert(copy.deepcopy(module), "int8", skip=["v", *HEAD], calibration=found, smooth=0.5)
    assert torch.equal(made.blocks[0].norm1.weight, module.blocks[0].norm1.weight)
    assert made.blocks[0].attention.q.multiplier is not None
    assert made.blocks[0].gate.multiplier is None
    assert away(revert(made), module, inputs) < 0.03


def twice_quantised(layer: Any, x: Any) -> Any:
    """A dynamic layer in float64: the rows of its input have 8 bits."""
    made, y = layer.dequantised(), x if layer.multiplier is None else x * layer.multiplier
    scale = y.abs().amax(-1, keepdim=True) / 127
    rounded = (y / scale).round() * scale
    weight = layer.quantised.dequantise(torch.float64)
    return rounded.double() @ weight.T + made.bias.detach().double()


def test_smoothing_lowers_the_error_of_dynamic_layers() -> None:
    """A channel of 30 times the size takes the bits of all others."""
    module, inputs, found = calibrated("gpt2")
    seen: dict[str, Any] = {}
    layer = module.blocks[0].attention.qkv
    layer.register_forward_hook(lambda m, args, y: seen.update(x=args[0], y=y))
    with torch.no_grad():
        module(*inputs)
    errors = []
    for options in ({}, {"smooth": 0.5, "calibration": found}):
        made = convert(copy.deepcopy(module), "int8", dynamic=True, skip=HEAD, **options)
        block = made.blocks[0]
        ratio = block.norm1.weight / module.blocks[0].norm1.weight  # 1 / factor
        y = twice_quantised(block.attention.qkv, (seen["x"] * ratio).detach())
        errors.append((y - seen["y"].double()).norm().item())
        assert isinstance(block.attention.qkv, DynamicLinear)
    assert errors[1] < 0.6 * errors[0]


def test_outliers_stay_in_16_bits() -> None:
    module, _, found = calibrated()
    made = convert(copy.deepcopy(module), "int4", skip=HEAD, calibration=found, keep=0.05)
    q, before = made.blocks[0].attention.q, module.blocks[0].attention.q
    assert q.columns.tolist() == sorted(q.columns.tolist()) and len(q.columns) == 2
    assert 5 in q.columns  # the large channel
    assert q.kept.dtype == torch.float16 and (q.quantised.dequantise()[:, q.columns] == 0).all()
    back = revert(made).blocks[0].attention.q.weight
    torch.testing.assert_close(back[:, 5], before.weight[:, 5], rtol=1e-3, atol=1e-4)


def test_large_outliers_are_bfloat16() -> None:
    layer = torch.nn.Linear(4, 2)
    with torch.no_grad():
        layer.weight.fill_(1e5)
    found = calibrate(layer, [torch.ones(1, 4)])
    assert convert(layer, "int8", calibration=found, keep=0.1).kept.dtype == torch.bfloat16


# ---- in place and back -------------------------------------------------------------------------
def test_originals_come_back() -> None:
    module, inputs, found = calibrated()
    before = {name: p.detach().clone() for name, p in module.named_parameters()}
    objects = dict(module.named_modules())
    convert(module, "int4", skip=HEAD, calibration=found, smooth=0.5, keep_originals=True)
    assert not any("original" in name for name in module.state_dict())
    assert away(revert(copy.deepcopy(module)), drawn("llama")[0], inputs) == 0
    revert(module)
    assert dict(module.named_modules()) == objects
    assert all(torch.equal(p, before[name]) for name, p in module.named_parameters())


def test_layers_of_weft_and_subclasses() -> None:
    class Mine(torch.nn.Linear):
        pass

    module = torch.nn.Sequential(weft.nn.Linear(4, 4), Mine(4, 4), torch.nn.Linear(4, 4))
    kinds = [type(m).__module__ for m in convert(module, "int8")]
    assert kinds[0] == kinds[2] == "weft.quant.layers" and isinstance(module[1], Mine)
    assert [type(m) for m in revert(module)] == [torch.nn.Linear, Mine, torch.nn.Linear]


def test_a_layer_that_is_there_twice_is_converted_once() -> None:
    layer = torch.nn.Linear(4, 4)
    module = torch.nn.Sequential(layer, torch.nn.ReLU(), layer, torch.nn.Sequential(layer))
    convert(module, "int8")
    assert module[0] is module[2] is module[3][0] and isinstance(module[0], Linear)
    revert(module)
    assert module[0] is module[2] is module[3][0] and type(module[0]) is torch.nn.Linear


def test_a_model_that_is_a_layer() -> None:
    layer = torch.nn.Linear(4, 2)
    made = convert(layer, "int8")
    assert isinstance(made, Linear) and made.bias is layer.bias and made.training
    assert type(revert(made)) is torch.nn.Linear


@pytest.mark.parametrize(
    ("skip", "left"),
    [
        ((), set()),
        (["0"], {"0"}),
        (["2.0"], {"2.0"}),
        (["lm_*"], {"lm_head"}),
        (["*.0"], {"2.0"}),
        (("lm_head", "2.*"), {"lm_head", "2.0"}),
    ],
)
def test_layers_are_skipped_by_name(skip: Any, left: set[str]) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    module.append(torch.nn.Sequential(torch.nn.Linear(2, 2)))
    module.add_module("lm_head", torch.nn.Linear(2, 2))
    convert(module, "int8", skip=skip)
    kinds = {name: type(m) for name, m in module.named_modules()}
    expected = left | ({"2.0"} if "0" in skip else set())  # the last part of a name counts
    assert {name for name, kind in kinds.items() if kind is torch.nn.Linear} == expected


def test_checkpoints_of_a_smoothed_model() -> None:
    module, inputs, found = calibrated()
    options: Any = {"skip": HEAD, "calibration": found, "smooth": 0.5, "keep": 0.05}
    first = convert(module, "int8", **options)
    second, _ = fresh()
    with torch.no_grad():
        for p in second.parameters():
            p.mul_(0.5)
    second = convert(second, "int8", **options)
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second.load_state_dict(torch.load(file))
    assert away(revert(second), revert(first), inputs) == 0


# ---- refusals ----------------------------------------------------------------------------------
X = torch.ones(2, 64)


def pair() -> Any:
    return torch.nn.Sequential(torch.nn.Linear(64, 7), torch.nn.Linear(7, 2))


def poisoned() -> Any:
    made = pair()
    with torch.no_grad():
        made[1].weight[1, 3] = torch.nan
    return made


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (pair, {"format": "int5"}, "there is no such format"),
        (pair, {"format": "int8", "group": "row"}, "int8 weights have no such groups"),
        (pair, {"format": "int4"}, "layer 1: int4 weights have an even number of columns"),
        (pair, {"format": "int8", "group": 64}, "layer 1: the group does not divide the columns"),
        (poisoned, {"format": "int8"}, "layer 1, row 1, column 3: the weight has numbers"),
        (poisoned, {"format": "int8"}, 'next: skip=("1",) leaves the layer as it is'),
        (torch.nn.ReLU, {"format": "int8"}, "the model has no linear layer to convert"),
        (pair, {"format": "int8", "skip": ("*",)}, "got: Sequential, 2 skipped"),
        (lambda: 3, {"format": "int8"}, "a model is a module of PyTorch\n  got: 3"),
        (pair, {"format": "int8", "skip": "1"}, "skip is no sequence of names"),
        (pair, {"format": "int8", "skip": [1]}, "skip has something else than names"),
        (pair, {"format": "int4", "dynamic": True}, "activations have 8 bits"),
        (pair, {"format": "int8", "group": 32, "dynamic": True}, "products of int8 take no such"),
        (pair, {"format": "e4m3", "group": 64, "dynamic": True}, "products of e4m3 take no such"),
        (pair, {"format": "int8", "symmetric": False, "dynamic": True}, "take no zeros"),
        (pair, {"format": "int8", "calibration": {}}, "calibration has another type"),
        (pair, {"format": "int8", "smooth": 0.5}, "smooth needs statistics"),
        (pair, {"format": "int8", "smooth": 2}, "smooth is out of range\n  got: 2"),
        (pair, {"format": "int8", "smooth": True}, "smooth is out of range"),
        (pair, {"format": "int8", "keep": 0.01}, "keep needs statistics"),
        (pair, {"format": "int8", "keep": 0.7}, "keep is out of range\n  got: 0.7"),
        (pair, {"format": "int8", "keep": "all"}, "keep is out of range\n  got: 'all'"),
        (
            pair,
            {"format": "int8", "calibration": weft.quant.Calibration()},
            "layer 0, 0: the calibration has no inputs of this layer",
        ),
    ],
)
def test_refusals_change_nothing(make: Any, options: Any, message: str) -> None:
    model = make()
    with pytest.raises(ArgumentError) as raised:
        convert(model, **options)
    assert message in str(raised.value)
    if isinstance(model, torch.nn.Sequential):
        assert all(type(m) is torch.nn.Linear for m in model)


def test_revert_takes_a_model() -> None:
    with pytest.raises(ArgumentError, match="a model is a module of PyTorch"):
        revert(None)
