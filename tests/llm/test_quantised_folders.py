"""Folders of quantised models: the values of each layout, logits, and all that is refused."""

from __future__ import annotations

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
from weft.llm.quantised import Joined  # noqa: E402
from weft.quant import DynamicLinear, Linear  # noqa: E402

LLAMA = {**plain.LLAMA, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1}
QWEN2 = {**LLAMA, "model_type": "qwen2", "tie_word_embeddings": True}
GPT2 = {**plain.GPT2, "n_embd": 64, "n_layer": 1}
PREFIX = "model.layers.0."
DOWN = f"{PREFIX}mlp.down_proj"


def is_linear(key: str) -> bool:
    return key.endswith(("_proj.weight", ".c_attn.weight", ".c_fc.weight", ".c_proj.weight"))


def made(config: Any, layout: packed.Layout, skip: str = "") -> tuple[Any, Any, Any]:
    """The tensors of a folder, the same weights in float32, and the texts of the header."""
    stored, texts = plain.weights(config), {}
    dense = dict(stored)
    stream = draw.seeded(7)
    for key, x in list(stored.items()):
        if not is_linear(key) or (skip and skip in key):
            continue
        turned = config["model_type"] == "gpt2"
        n, k = reversed(x.shape) if turned else x.shape
        name = key.removesuffix("weight")
        tensors, weight = layout.write(stream, n, k)
        del stored[key]
        stored |= {f"{name}{part}": tensor for part, tensor in tensors.items()}
        dense[key] = weight.T if turned else weight
        if layout.entry is not None:
            texts[key] = layout.entry(n, k)
    return stored, dense, texts


def folder(path: Path, config: Any, layout: packed.Layout, skip: str = "") -> tuple[Any, Any]:
    stored, dense, texts = made(config, layout, skip)
    facts = {**config, "quantization_config": layout.facts}
    return plain.write(path, facts, stored, texts=texts), dense


def weight(layer: Any) -> Any:
    """The dequantised weight of a layer, or of its pieces."""
    if isinstance(layer, Joined):
        return torch.cat([weight(piece) for piece in layer.pieces])
    return (layer.dequantised() if isinstance(layer, Linear) else layer).weight


def wanted(dense: Any, config: Any) -> dict[str, Any]:
    """The weights of the layers of a block, by their names in weft."""
    if config["model_type"] == "gpt2":
        names = {"qkv": "attn.c_attn", "out": "attn.c_proj", "up": "mlp.c_fc", "down": "mlp.c_proj"}
        return {to: dense[f"transformer.h.0.{key}.weight"].T for to, key in names.items()}
    rows = {
        "qkv": [f"self_attn.{n}_proj" for n in "qkv"], "out": ["self_attn.o_proj"],
        "up": ["mlp.gate_proj", "mlp.up_proj"], "down": ["mlp.down_proj"],
    }  # fmt: skip
    return {
        to: torch.cat([dense[f"{PREFIX}{key}.weight"] for key in keys]) for to, keys in rows.items()
    }


CT, AO = packed.compressed, packed.torchao
LAYOUTS: dict[str, Any] = {
    "gptq 4 bits": (packed.gptq(4, 32), LLAMA, "int4"),
    "gptq 4 bits, symmetric": (packed.gptq(4, -1, index="in order", zeros=False), LLAMA, "int4"),
    "gptq 8 bits, v2": (packed.gptq(8, 32, "gptq_v2"), QWEN2, "int8"),
    "gptq of gpt2": (packed.gptq(4, 32), GPT2, "int4"),
    "gptq desc_act": (packed.gptq(4, 32, index="alike"), LLAMA, "int4"),
    "awq": (packed.awq(32), LLAMA, "int4"),
    "awq of whole columns": (packed.awq(-1), QWEN2, "int4"),
    "packed": (CT("pack-quantized", 4, 32), LLAMA, "int4"),
    "packed with zeros": (CT("pack-quantized", 4, 32, zeros=True), LLAMA, "int4"),
    "packed actorder": (CT("pack-quantized", 4, 32, index=True), LLAMA, "int4"),
    "packed 8 bits": (CT("pack-quantized", 8, "channel", zeros=True), LLAMA, "int8"),
    "int8": (CT("int-quantized", 8, "channel", inputs=packed.TOKENS), LLAMA, "int8"),
    "float of tensors": (CT("float-quantized", 8, "tensor"), LLAMA, "e4m3"),
    "float of rows": (CT("float-quantized", 8, "channel", inputs=packed.TOKENS), LLAMA, "e4m3"),
    "fp8 blocks": (packed.float8((32, 32)), LLAMA, "e4m3"),
    "fp8 blocks of 128": (packed.float8((128, 128), torch.bfloat16), LLAMA, "e4m3"),
    "fp8 of tensors": (packed.float8(None), LLAMA, "e4m3"),
    "torchao int8": (AO("Int8Tensor", "channel"), LLAMA, "int8"),
    "torchao int8 groups": (AO("Int8Tensor", 32), LLAMA, "int8"),
    "torchao int8 dynamic": (AO("Int8Tensor", "channel", packed.ROWS), LLAMA, "int8"),
    "torchao float8": (AO("Float8Tensor", "tensor"), LLAMA, "e4m3"),
    "torchao intx": (AO("IntxUnpackedToInt8Tensor", 32), LLAMA, "int4"),
}
LOGITS = ("gptq 4 bits", "gptq desc_act", "gptq of gpt2", "awq", "packed with zeros",
          "fp8 blocks", "torchao int8", "float of tensors")  # fmt: skip


@pytest.mark.parametrize("name", LAYOUTS)
def test_values(tmp_path: Path, name: str) -> None:
    """Each dequantised weight is the one that the layout says, bit for bit."""
    layout, config, form = LAYOUTS[name]
    path, dense = folder(tmp_path, config, layout)
    model = weft.llm.load(path, "cpu")
    for to, want in wanted(dense, config).items():
        layer = getattr(model.blocks[0], to)
        assert isinstance(layer, Linear) and layer.quantised.format == form
        assert isinstance(layer, DynamicLinear) is layout.is_dynamic
        assert torch.equal(weight(layer), want), to
        if "symmetric" in name:
            assert layer.zero is None
    assert not any(p.requires_grad for p in model.parameters())
    if config is QWEN2:
        biases = [dense[f"{PREFIX}self_attn.{n}_proj.bias"] for n in "qkv"]
        assert torch.equal(model.blocks[0].qkv.bias, torch.cat(biases))
        assert model.head.weight is model.embedding.weight


def error_of(model: Any, config: Any, dense: Any) -> float:
    """The relative error of the logits after a prompt and a token."""
    generator = weft.llm.Generator(model, capacity=16)
    prompt = [3, 1, 4, 1, 5]
    stream = generator.stream([prompt], 3, stop=())
    (token,) = next(stream)
    want = plain.logits(config, dense, [*prompt, token])
    return float((generator._step_logits()[0].double() - want).norm() / want.norm())


@pytest.mark.sim
@pytest.mark.parametrize("name", LOGITS)
def test_logits(tmp_path: Path, name: str) -> None:
    layout, config, _ = LAYOUTS[name]
    path, dense = folder(tmp_path, config, layout)
    assert error_of(weft.llm.load(path, "cpu"), config, dense) < 1e-5


@pytest.mark.sim
@pytest.mark.parametrize("name", ["int8", "float of rows", "torchao int8 dynamic"])
def test_inputs_in_8_bits(tmp_path: Path, name: str) -> None:
    layout, config, _ = LAYOUTS[name]
    path, dense = folder(tmp_path, config, layout)
    assert 1e-5 < error_of(weft.llm.load(path, "cpu"), config, dense) < 0.1


@pytest.mark.sim
@pytest.mark.parametrize("kind", ["Int4Tensor", "Int4TilePackedTo4dTensor"])
def test_zeros_that_are_values(tmp_path: Path, kind: str) -> None:
    """q * scale + zero is (q - zero) * scale with a zero that float32 rounds."""
    path, dense = folder(tmp_path, LLAMA, AO(kind, 32))
    model = weft.llm.load(path, "cpu", torch.float32)
    for to, want in wanted(dense, LLAMA).items():
        found = weight(getattr(model.blocks[0], to))
        largest = float(want.abs().max())
        torch.testing.assert_close(found, want, rtol=0, atol=2**-22 * largest)
    if kind == "Int4Tensor":
        assert error_of(model, LLAMA, dense) < 1e-5


@pytest.mark.sim
@pytest.mark.parametrize("case", ["orders", "blocks", "one is plain"])
def test_pieces_that_cannot_be_one_weight(tmp_path: Path, case: str) -> None:
    """They stay layers, whose results are joined."""
    layouts = {
        "orders": (packed.gptq(4, 32, index="shuffled"), QWEN2, ""),
        "blocks": (packed.float8((128, 128)), {**QWEN2, "hidden_size": 160}, ""),
        "one is plain": (packed.awq(32), QWEN2, "k_proj"),
    }
    layout, config, skip = layouts[case]
    path, dense = folder(tmp_path, config, layout, skip)
    model = weft.llm.load(path, "cpu")
    assert isinstance(model.blocks[0].qkv, Joined)
    for to, want in wanted(dense, config).items():
        assert torch.equal(weight(getattr(model.blocks[0], to)), want), to
    assert error_of(model, config, dense) < 1e-5


def test_what_does_not_change_a_model(tmp_path: Path) -> None:
    """Biases of zeros and scales of caches are left out; the dtype is the embedding's."""
    layout = packed.float8((32, 32))
    stored, _, _ = made(LLAMA, layout)
    stored = {key: x.half() if x.dtype is torch.float32 else x for key, x in stored.items()}
    stored = {
        f"{DOWN}.bias": torch.zeros(64),
        f"{PREFIX}self_attn.k_scale": torch.ones(1),
        **stored,
    }
    config = {**LLAMA, "quantization_config": layout.facts}
    model = weft.llm.load(plain.write(tmp_path, config, stored, 3), "cpu")
    assert model.dtype is torch.float16 and model.blocks[0].down.bias is None
    assert model.blocks[0].down.quantised.dtype is torch.float16
    stored[f"{DOWN}.bias"] += 1
    with pytest.raises(ArgumentError, match=f"(?s)has '{DOWN}.bias', which a llama model lacks"):
        weft.llm.load(plain.write(tmp_path, config, stored, 3), "cpu")


# ---- refusals ------------------------------------------------------------------------------------
FACTS: dict[str, Any] = {
    "method": (
        {"quant_method": "bitsandbytes"},
        "(?s)this method.*'bitsandbytes'.*awq, compressed-tensors, fp8, gptq, torchao.*convert",
    ),
    "no method": ({"bits": 4}, "(?s)this method.*quant_method None"),
    "misspelt": ({"quant_method": "gtpq"}, "did you mean 'gptq'"),
    "no object": ("gptq", "quantization_config is no object"),
    "bits": ({"quant_method": "gptq", "bits": 3}, "(?s)many bits.*got: 3.*4, 8"),
    "group": ({"quant_method": "gptq", "bits": 4, "group_size": 0}, "(?s)size of a group.*got: 0"),
    "marlin": (
        {"quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin"},
        "(?s)format of GPTQ.*'marlin'.*gptq, gptq_v2",
    ),
    "gemv": ({"quant_method": "awq", "version": "gemv"}, "(?s)this 'version'.*'gemv'.*'gemm'"),
    "awq group": ({"quant_method": "awq", "group_size": "all"}, "(?s)size of a group.*'all'"),
    "awq zeros": ({"quant_method": "awq", "zero_point": False}, "this 'zero_point'"),
    "nvfp4": (
        {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"},
        "(?s)format of compressed-tensors.*'?nvfp4.*pack-quantized, int-quantized",
    ),
    "rotated": (
        {"quant_method": "compressed-tensors", "transform_config": {"config_groups": {}}},
        "transforms of compressed-tensors",
    ),
    "sparse": (
        {"quant_method": "compressed-tensors", "sparsity_config": {"format": "sparse-24"}},
        "(?s)sparse weights.*'sparse-24'",
    ),
    "blocks": ({"quant_method": "fp8", "weight_block_size": [128]}, "(?s)not two numbers.*128"),
    "a list": ({"quant_method": ["gptq"]}, "(?s)this method.*'gptq'"),
    "groups": (
        {"quant_method": "compressed-tensors", "config_groups": ["group_0"]},
        "quantization_config of compressed-tensors cannot be read",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FACTS)
def test_configs_that_are_refused(tmp_path: Path, case: str) -> None:
    facts, words = FACTS[case]
    config = {**LLAMA, "quantization_config": facts}
    with pytest.raises(ArgumentError, match=words):
        weft.llm.load(plain.write(tmp_path, config, plain.weights(LLAMA)), "cpu")


def put(part: str, change: Any) -> Any:
    """Change one tensor of the last layer."""

    def do(stored: Any) -> None:
        stored[f"{DOWN}.{part}"] = change(stored[f"{DOWN}.{part}"])

    return do


def first(number: Any) -> Any:
    def change(x: Any) -> Any:
        x = x.clone()
        x.view(-1)[0] = number
        return x

    return change


def gone(part: str) -> Any:
    return lambda stored: stored.pop(f"{DOWN}.{part}")


GPTQ, SHUFFLED = packed.gptq(4, 32), packed.gptq(4, 32, index="shuffled")
AWQ, PACKED, FLOAT8, TORCHAO = (
    LAYOUTS[name][0] for name in ("awq", "packed", "fp8 blocks", "torchao int8")
)
TENSORS: dict[str, Any] = {
    "cut": (
        GPTQ,
        put("qweight", lambda x: x[:-1]),
        r"(?s)'.*down_proj.qweight' has another shape.*\[11, 64\].*\[12, 64\].*compare",
    ),
    "dtype": (GPTQ, put("qweight", lambda x: x.long()), "(?s)another dtype.*I64.*I32"),
    "scales": (GPTQ, put("scales", lambda x: x.double()), "(?s)another dtype.*F64.*F32, F16, BF16"),
    "not finite": (GPTQ, put("scales", first(float("nan"))), "scale of a weight is not finite"),
    "no zeros": (GPTQ, gone("qzeros"), "lacks '.*down_proj.qzeros'"),
    "no weight": (GPTQ, gone("qweight"), "lacks '.*down_proj.weight'"),
    "group": (GPTQ, 40, "(?s)do not divide the weight.*groups of 40.*multiples of 8"),
    "small": (
        packed.gptq(4, 16),
        None,
        "(?s)no kernel has groups.*16 columns of 64.*multiples of 32.*32, 64 or 128",
    ),
    "index": (
        SHUFFLED,
        put("g_idx", first(3)),
        "(?s)that the weight lacks.*3 for column 0.*0 to 2",
    ),
    "below": (SHUFFLED, put("g_idx", first(-2)), "(?s)names a group.*-2 for column 0"),
    "uneven": (
        SHUFFLED,
        put("g_idx", lambda x: x * 0),
        "(?s)groups of different sizes.*96 columns of group 0.*32 of each",
    ),
    "awq": (AWQ, put("qzeros", lambda x: x[:, :-1]), "qzeros' has another shape"),
    "awq group": (AWQ, 40, "(?s)do not divide the weight.*groups of 40"),
    "words": (
        PACKED,
        put("weight_packed", lambda x: x[:, :-1]),
        "(?s)integers of other sizes.*11 words for 96",
    ),
    "said": (
        PACKED,
        put("weight_shape", lambda x: x + 1),
        r"(?s)weight_shape' has another shape.*\[65, 97\].*\[64, 96\]",
    ),
    "ct scales": (PACKED, put("weight_scale", lambda x: x[:5]), "weight_scale' has another shape"),
    "fp8 scales": (
        FLOAT8,
        put("weight_scale_inv", lambda x: x[:1]),
        r"(?s)weight_scale_inv' has another shape.*\[1, 3\].*\[2, 3\]",
    ),
    "fp8 lacks": (FLOAT8, gone("weight_scale_inv"), "lacks '.*weight_scale_inv'"),
    "torchao lacks": (
        TORCHAO,
        gone("_weight_scale"),
        "(?s)torchao lacks 'scale'.*Int8Tensor with qdata",
    ),
    "torchao dtype": (
        TORCHAO,
        put("_weight_qdata", lambda x: x.int()),
        "(?s)'qdata'.*another dtype.*int32.*int8",
    ),
    "torchao shape": (
        TORCHAO,
        put("_weight_qdata", lambda x: x[:32]),
        "scales of a weight do not fit",
    ),
    "extra": (
        GPTQ,
        lambda stored: stored.update(extra=torch.zeros(1)),
        "has 'extra', which a llama",
    ),
}


@pytest.mark.parametrize("case", TENSORS)
def test_tensors_that_are_refused(tmp_path: Path, case: str) -> None:
    layout, change, words = TENSORS[case]
    stored, _, texts = made(LLAMA, layout)
    facts = dict(layout.facts)
    if isinstance(change, int):
        facts["group_size"] = change
    elif change is not None:
        change(stored)
    config = {**LLAMA, "quantization_config": facts}
    with pytest.raises(ArgumentError, match=words):
        weft.llm.load(plain.write(tmp_path, config, stored, texts=texts), "cpu")


def test_a_config_without_its_facts(tmp_path: Path) -> None:
    stored, _, _ = made(LLAMA, GPTQ)
    with pytest.raises(ArgumentError, match=r"(?s)lacks .*it has '.*proj\.g?.*need the quantiz"):
        weft.llm.load(plain.write(tmp_path, LLAMA, stored), "cpu")


def test_a_file_that_is_cut_off(tmp_path: Path) -> None:
    path, _ = folder(tmp_path, LLAMA, GPTQ)
    file = path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ArgumentError, match="the file is cut off: it lacks bytes of"):
        weft.llm.load(path, "cpu")


def test_files_of_torch_save(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(ArgumentError, match=r"(?s)no weights.*torch\.save.*as safetensors"):
        weft.llm.load(tmp_path, "cpu")
