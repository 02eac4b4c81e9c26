"""`weft.quant.from_torchao`: values bit for bit, inputs of 8 bits, files, and refusals."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import draw  # noqa: E402
import packed_layouts as packed  # noqa: E402
import plain_decoder as plain  # noqa: E402
import weft  # noqa: E402
from weft.errors import ArgumentError  # noqa: E402
from weft.quant import DynamicLinear, Linear, from_torchao  # noqa: E402
from weft.quant.layouts import tinygemm  # noqa: E402

SIZES = ((64, 96), (40, 64))
"""Rows and columns of the layers."""


def network(dtype: Any = torch.float32) -> Any:
    """Two layers, of which one has a bias, and a norm between them."""
    stream = draw.seeded(2)
    (n, k), (m, _) = SIZES
    made = torch.nn.Sequential(
        torch.nn.Linear(k, n), torch.nn.LayerNorm(n), torch.nn.Linear(n, m, bias=False)
    ).to(dtype)
    with torch.no_grad():
        for p in made.parameters():
            p.copy_(stream.normal(*p.shape))
    return made


def stored(layout: packed.Layout) -> tuple[dict[str, Any], dict[str, str], list[Any]]:
    """The tensors and the texts of a file, and the two weights."""
    stream, dense = draw.seeded(5), []
    tensors: dict[str, Any] = {
        "0.bias": stream.normal(64), "1.weight": stream.normal(64), "1.bias": stream.normal(64),
    }  # fmt: skip
    texts = {key: json.dumps({"_type": "Tensor"}) for key in tensors}
    assert layout.entry is not None
    for name, (n, k) in zip(("0", "2"), SIZES, strict=True):
        parts, weight = layout.write(stream, n, k)
        tensors |= {f"{name}.{part}": x for part, x in parts.items()}
        texts[f"{name}.weight"] = layout.entry(n, k)
        dense.append(weight)
    texts["tensor_names"] = json.dumps(list(texts))
    return tensors, texts, dense


def written(path: Path, layout: packed.Layout, change: Any = None) -> tuple[Path, list[Any]]:
    tensors, texts, dense = stored(layout)
    if change is not None:
        change(tensors, texts)
    path.write_bytes(plain.as_bytes(tensors, texts))
    return path, dense


AO = packed.torchao
EXACT = {
    "int8": (AO("Int8Tensor", "channel"), "int8", "channel"),
    "int8 of tensors": (AO("Int8Tensor", "tensor"), "int8", "tensor"),
    "int8 groups with zeros": (AO("Int8Tensor", 32), "int8", 32),
    "float8": (AO("Float8Tensor", "channel"), "e4m3", "channel"),
    "float8 of tensors": (AO("Float8Tensor", "tensor"), "e4m3", "tensor"),
    "intx": (AO("IntxUnpackedToInt8Tensor", 32), "int4", 32),
}


@pytest.mark.parametrize("name", EXACT)
def test_values_of_files(tmp_path: Path, name: str) -> None:
    layout, form, group = EXACT[name]
    path, dense = written(tmp_path / "a.safetensors", layout)
    model = network()
    assert from_torchao(model, path) is model
    tensors = stored(layout)[0]
    for layer, want in zip((model[0], model[2]), dense, strict=True):
        assert type(layer) is Linear
        assert (layer.quantised.format, layer.quantised.group) == (form, group)
        assert torch.equal(layer.quantised.dequantise(), want)
    assert torch.equal(model[0].bias, tensors["0.bias"]) and model[2].bias is None
    assert torch.equal(model[1].weight, tensors["1.weight"])


@pytest.mark.parametrize("kind", ["Int4Tensor", "Int4TilePackedTo4dTensor"])
def test_zeros_that_are_values(tmp_path: Path, kind: str) -> None:
    """-zero / scale is rounded to float32: two roundings of the largest part of a value."""
    path, dense = written(tmp_path / "a.safetensors", AO(kind, 32))
    model = from_torchao(network(), str(path))
    for layer, want in zip((model[0], model[2]), dense, strict=True):
        assert layer.quantised.format == "int4" and layer.quantised.dtype is torch.bfloat16
        found = layer.quantised.dequantise(torch.float32)
        torch.testing.assert_close(found, want, rtol=0, atol=2**-22 * float(want.abs().max()))


def test_tiles_of_every_place() -> None:
    """Each of the eight places of each lane's words has one weight."""
    words = torch.zeros(2, 3, 32, 4, dtype=torch.int32)
    seen = torch.zeros(16, 384, dtype=torch.int64)
    for place in range(8):
        seen += tinygemm.unpacked(words + (1 << (4 * place) if place < 7 else -(1 << 28)))
    # The sign is in the last place, where all four bits are set.
    assert seen.unique().tolist() == [1, 15] and (seen == 15).sum() * 8 == seen.numel()


class Int8Tensor:
    """A stand-in for torchao's tensor: its attributes, and its package."""

    __module__ = "torchao.quantization"

    def __init__(self, parts: dict[str, Any], **facts: Any) -> None:
        self.qdata, self.scale, self.zero_point = (
            parts[f"_weight_{name}"] for name in ("qdata", "scale", "zero_point")
        )
        self.dtype = torch.bfloat16
        self.__dict__ |= facts


class PerRow:
    pass


class PerTensor:
    pass


class Kwargs:
    def __init__(self, granularity: Any, mapping: str = "SYMMETRIC") -> None:
        self.granularity = granularity
        self.mapping_type = type("MappingType", (), {"name": mapping})


@pytest.mark.parametrize(
    ("facts", "kind"),
    [
        ({}, Linear),
        ({"act_quant_kwargs": Kwargs(PerRow())}, DynamicLinear),
        ({"act_quant_kwargs": Kwargs(PerTensor())}, Linear),
        ({"act_quant_kwargs": Kwargs(PerRow(), "ASYMMETRIC")}, Linear),
        ({"act_quant_kwargs": Kwargs(PerRow()), "act_quant_scale": torch.ones(1, 1)}, Linear),
    ],
)
def test_the_treatment_of_inputs(facts: dict[str, Any], kind: type) -> None:
    """Rows of inputs are quantised where torchao does it by rows, with scales of their own."""
    stream = draw.seeded(1)
    parts, weight = AO("Int8Tensor", "channel").write(stream, 8, 64)
    pre = 0.5 + stream.uniform(64)
    tensor = Int8Tensor(parts, block_size=(1, 64), act_pre_scale=pre, **facts)
    model = from_torchao(
        torch.nn.Sequential(torch.nn.Linear(64, 8, bias=False)), {"0.weight": tensor}
    )
    layer = model[0]
    assert type(layer) is kind and layer.quantised.dtype is torch.bfloat16
    assert torch.equal(layer.quantised.dequantise(), weight.bfloat16())
    x = stream.normal(3, 64)
    torch.testing.assert_close(layer(x), (x * pre) @ weight.T, rtol=0.05, atol=0.05)


def test_torchaos_own_tensors(tmp_path: Path) -> None:
    """The real package: its dequantize() and this one have the same bits, in each dtype."""
    ao = pytest.importorskip("torchao.quantization")
    support = pytest.importorskip("torchao.prototype.safetensors.safetensors_support")
    group, tensor = ao.granularity.PerGroup(32), ao.granularity.PerTensor()
    configs = {
        "int8": lambda: ao.Int8WeightOnlyConfig(),
        "int8 groups": lambda: ao.Int8WeightOnlyConfig(granularity=group),
        "int8 of tensors": lambda: ao.Int8WeightOnlyConfig(granularity=tensor),
        "int8 dynamic": lambda: ao.Int8DynamicActivationInt8WeightConfig(),
        "float8": lambda: ao.Float8WeightOnlyConfig(),
        "int4": lambda: ao.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=group),
        "int3": lambda: ao.IntxWeightOnlyConfig(weight_dtype=torch.int3, granularity=group),
    }
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        for name, config in configs.items():
            original = network(dtype)
            model = copy.deepcopy(original)
            ao.quantize_(model, config())
            want = [model[i].weight.dequantize() for i in (0, 2)]
            tensors, texts = support.flatten_tensor_state_dict(model.state_dict())
            path = tmp_path / "ao.safetensors"
            path.write_bytes(plain.as_bytes(tensors, texts))
            state = model.state_dict()
            made = [from_torchao(copy.deepcopy(original), given) for given in (path, state)]
            for found in (*made, from_torchao(model)):
                for layer, weight in zip((found[0], found[2]), want, strict=True):
                    assert type(layer) is (DynamicLinear if "dynamic" in name else Linear)
                    assert layer.quantised.dtype is dtype
                    assert torch.equal(layer.quantised.dequantise(), weight), (name, dtype)


def test_a_state_with_an_order_of_columns(tmp_path: Path) -> None:
    """It loads into a layer that has one, too, and is a tensor like the scales."""
    q = weft.quant.quantise(draw.seeded(4).normal(8, 64), "int8", 32)
    order = draw.seeded(6).permutation(64)
    layer = Linear(q, order=order)
    other = Linear(q, order=torch.arange(64))
    other.load_state_dict(layer.state_dict())
    x = draw.seeded(8).normal(3, 64)
    assert torch.equal(other(x), layer(x)) and other.half().order.dtype is torch.int64
    torch.testing.assert_close(layer(x), x[:, order] @ q.dequantise().T)
    torch.testing.assert_close(layer(x), layer.dequantised()(x))
    with pytest.raises(RuntimeError, match=r'Unexpected key.*"order"'):
        Linear(q).load_state_dict(layer.state_dict())


# ---- refusals ------------------------------------------------------------------------------------
def entry(**changes: Any) -> Any:
    """Change the text of the first layer."""

    def do(tensors: Any, texts: Any) -> None:
        data = json.loads(texts["0.weight"])
        data["_data"] |= changes.pop("data", {})
        texts["0.weight"] = json.dumps({**data, **changes})

    return do


def put(key: str, value: Any) -> Any:
    return lambda tensors, texts: tensors.update({key: value})


FILES: dict[str, Any] = {
    "preshuffled": (
        entry(_type="Int4PreshuffledTensor"),
        r"(?s)0\.weight: .*no public layout.*Int4Pre.*Int8Tensor, Intx.*packing_format='plain'",
    ),
    "unknown": (entry(_type="NVFP4Tensor"), r"(?s)NVFP4Tensor.*weft\.quant\.convert"),
    "no text": (lambda tensors, texts: texts.update({"0.weight": "{"}), "cannot be read"),
    "blocks": (entry(data={"block_size": [1, 24]}), "(?s)scales of a weight.*in blocks of 1 x 24"),
    "no blocks": (entry(data={"block_size": [0, 3, 4]}), r"(?s)another block_size.*\[0, 3, 4\]"),
    "no pair": (entry(data={"block_size": 32}), "(?s)another block_size.*Int8Tensor, 32"),
    "three dimensions": (
        put("0._weight_qdata", torch.zeros(2, 64, 96, dtype=torch.int8)),
        r"(?s)another shape than a linear layer's.*\[2, 64, 96\]",
    ),
    "another layer": (
        lambda tensors, texts: (
            tensors.update({"0._weight_qdata": torch.zeros(64, 64, dtype=torch.int8)})
            or entry(data={"block_size": [1, 64]})(tensors, texts)
        ),
        r"(?s)another shape than the layer.*\[64, 64\].*\[64, 96\]|\(64, 64\)",
    ),
    "extra": (put("5.weight", torch.zeros(1)), r"(?s)5\.weight: .*a tensor that the model lacks"),
    "missing": (lambda tensors, texts: tensors.pop("1.bias"), r"(?s)1\.bias: .*lack a tensor"),
    "shape": (put("1.bias", torch.zeros(3)), r"(?s)1\.bias: .*another shape.*\[3\].*\[64\]"),
    "not finite": (put("0._weight_scale", torch.full((64, 1), torch.inf)), "scale .* not finite"),
    "range": (
        entry(_type="IntxUnpackedToInt8Tensor", data={"target_dtype": packed.dtype_entry("int4")}),
        "(?s)numbers that its dtype lacks.*-12.* to 12.*-8 to 7",
    ),
}


@pytest.mark.parametrize("case", FILES)
def test_files_that_are_refused(tmp_path: Path, case: str) -> None:
    """Nothing has changed after an error."""
    change, words = FILES[case]
    path, _ = written(tmp_path / "a.safetensors", EXACT["int8"][0], change)
    model = network()
    with pytest.raises(ArgumentError, match=words):
        from_torchao(model, path)
    assert type(model[0]) is torch.nn.Linear
    assert all(
        torch.equal(a, b) for a, b in zip(model.parameters(), network().parameters(), strict=True)
    )


def test_other_refusals(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"(?s)no linear layer that torchao.*got: 2 linear"):
        from_torchao(network())
    with pytest.raises(ArgumentError, match=r"(?s)no linear layer that torchao.*got: 5 tensors"):
        from_torchao(network(), network().state_dict())
    with pytest.raises(ArgumentError, match="neither a state_dict nor a path"):
        from_torchao(network(), 3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="a model is a module"):
        weft.quant.from_torchao("model")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="the file cannot be read"):
        from_torchao(network(), tmp_path / "none.safetensors")
    parts, _ = AO("Int8Tensor", "channel").write(draw.seeded(1), 8, 64)
    model = torch.nn.Sequential(torch.nn.Embedding(8, 64))
    with pytest.raises(ArgumentError, match=r"(?s)0\.weight: .*something else than a linear"):
        from_torchao(model, {"0.weight": Int8Tensor(parts)})
