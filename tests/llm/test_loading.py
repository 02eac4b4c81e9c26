"""Folders of models: what is read, and what is refused by the name of its file and key."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import plain_decoder as plain  # noqa: E402
import weft  # noqa: E402
from weft.errors import ArgumentError, MissingDependency  # noqa: E402
from weft.llm.config import read  # noqa: E402
from weft.llm.tokens import ByteTokenizer, TextStream, tokenizer  # noqa: E402

BF16 = torch.bfloat16
Q_PROJ = "model.layers.1.self_attn.q_proj.weight"


@pytest.mark.parametrize("family", plain.CONFIGS)
def test_parameters_are_the_weights(tmp_path: Path, family: str) -> None:
    """Products that are computed together have their weights one after another."""
    stored = plain.weights(plain.CONFIGS[family], dtype=BF16)
    model = weft.llm.load(plain.write(tmp_path, plain.CONFIGS[family], stored), "cpu")
    found = dict(model.named_parameters())
    assert {p.dtype for p in found.values()} == {BF16}
    if family == "gpt2":
        want = stored["transformer.h.1.mlp.c_fc.weight"].T
        assert torch.equal(found["blocks.1.up.weight"], want)
        assert model.head.weight is model.embedding.weight
        return
    last = model.config.depth - 1
    heads = [stored[f"model.layers.{last}.self_attn.{n}_proj.weight"] for n in "qkv"]
    assert torch.equal(found[f"blocks.{last}.qkv.weight"], torch.cat(heads))
    gated = [stored[f"model.layers.{last}.mlp.{n}_proj.weight"] for n in ("gate", "up")]
    assert torch.equal(found[f"blocks.{last}.up.weight"], torch.cat(gated))
    count = sum(x.numel() for x in stored.values())
    assert sum(p.numel() for p in model.parameters()) == count


def test_several_files_and_another_dtype(tmp_path: Path) -> None:
    stored = plain.weights(plain.LLAMA)
    one = weft.llm.load(plain.write(tmp_path / "one", plain.LLAMA, stored), "cpu")
    many = weft.llm.load(str(plain.write(tmp_path / "many", plain.LLAMA, stored, 3)), "cpu")
    half = weft.llm.load(tmp_path / "one", "cpu", torch.float16)
    for name, parameter in one.named_parameters():
        assert torch.equal(parameter, many.get_parameter(name))
        assert torch.equal(parameter.half(), half.get_parameter(name))


def test_every_product_is_a_linear_layer(tmp_path: Path) -> None:
    """A converter that replaces torch.nn.Linear finds them all."""
    config = plain.LLAMA
    model = weft.llm.load(plain.write(tmp_path, config, plain.weights(config)), "cpu")
    found = [m for m in model.modules() if isinstance(m, torch.nn.Linear)]
    assert len(found) == 4 * config["num_hidden_layers"] + 1


def without(key: str) -> Any:
    return lambda stored: stored.pop(key)


def changed(key: str, value: Any) -> Any:
    return lambda stored: stored.update({key: value})


WEIGHTS: dict[str, Any] = {
    "a missing key": (without(Q_PROJ), f"(?s)lacks '{Q_PROJ}'.*1 of 21 keys"),
    "an extra key": (changed("model.extra", torch.zeros(2)), "safetensors: .*has 'model.extra'"),
    "a wrong shape": (
        changed(Q_PROJ, torch.zeros(64, 31)),
        rf"(?s)safetensors: .*'{Q_PROJ}' has another shape.*\[64, 31\].*\[64, 32\]",
    ),
    "a wrong dtype": (
        changed(Q_PROJ, torch.zeros(64, 32, dtype=torch.int32)),
        f"(?s)'{Q_PROJ}' has a dtype.*I32.*F32, F16, BF16",
    ),
}


@pytest.mark.parametrize("case", WEIGHTS)
def test_wrong_weights(tmp_path: Path, case: str) -> None:
    change, words = WEIGHTS[case]
    stored = plain.weights(plain.LLAMA)
    change(stored)
    with pytest.raises(ArgumentError, match=words):
        weft.llm.load(plain.write(tmp_path, plain.LLAMA, stored), "cpu")


def entry(**changes: Any) -> bytes:
    """A file of one tensor of four floats, with another header."""
    found = {"dtype": "F32", "shape": [4], "data_offsets": [0, 16], **changes}
    text = json.dumps({"x": found}).encode()
    return len(text).to_bytes(8, "little") + text + bytes(16)


FILES: dict[str, Any] = {
    "cut off in a tensor": (
        plain.as_bytes({"x": torch.zeros(4)})[:-3],
        "(?s)cut off: it lacks bytes of 'x'.*of 13",
    ),
    "cut off in the header": (plain.as_bytes({"x": torch.zeros(4)})[:20], "the file is cut off"),
    "empty": (b"", "the file is cut off"),
    "no header": (b"\x02" + bytes(7) + b"!!", "the file cannot be read"),
    "a header that is a list": (b"\x02" + bytes(7) + b"[]", "the header is no object"),
    "an entry without a place": (entry(data_offsets=None), "entry of 'x' is not well-formed"),
    "a place that is turned": (entry(data_offsets=[16, 0]), "lacks bytes of 'x'"),
    "a size that does not fit": (entry(shape=[5]), "(?s)size of 'x' does not fit.*16 bytes"),
    "a shape below 0": (entry(shape=[-4]), "not well-formed"),
}


@pytest.mark.parametrize("case", FILES)
def test_broken_files(tmp_path: Path, case: str) -> None:
    data, words = FILES[case]
    (tmp_path / "config.json").write_text(json.dumps(plain.LLAMA))
    (tmp_path / "model.safetensors").write_bytes(data)
    with pytest.raises(ArgumentError, match=words) as raised:
        weft.llm.load(tmp_path, "cpu")
    assert raised.value.where.endswith("model.safetensors")


@pytest.mark.parametrize(
    ("places", "words"),
    [
        ({"x": "model-1.safetensors"}, "a file lacks 'x', which the index lists"),
        ({"x": "../other.safetensors"}, "files that are not in its folder"),
        ([], "the index cannot be read"),
        ({"x": "none.safetensors"}, "the file cannot be read"),
    ],
)
def test_broken_indices(tmp_path: Path, places: Any, words: str) -> None:
    plain.write(tmp_path, plain.LLAMA, plain.weights(plain.LLAMA), 2)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": places}))
    with pytest.raises(ArgumentError, match=words):
        weft.llm.load(tmp_path, "cpu")


CONFIGS: dict[str, Any] = {
    "another family": ({"model_type": "mamba"}, "(?s)not known.*'mamba'.*llama, mistral, qwen2"),
    "no number": ({"hidden_size": None}, "no number 'hidden_size'"),
    "no whole number": ({"head_dim": 8.5}, "(?s)'head_dim' .* whole number.*8.5"),
    "another activation": ({"hidden_act": "gelu"}, "(?s)this 'hidden_act'.*'gelu'.*'silu'"),
    "another scaling": ({"rope_scaling": {"rope_type": "yarn"}}, "(?s)scaling of rotary.*'yarn'"),
    "heads that do not fit": ({"num_key_value_heads": 3}, "(?s)heads of a model.*4 heads, 3 of"),
    "a size of 0": ({"num_hidden_layers": 0}, "(?s)at least 1.*depth 0"),
    "a window": ({"use_sliding_window": True}, "use_sliding_window"),
    "a window of 0": ({"model_type": "mistral", "sliding_window": 0}, "(?s)windows.*window 0"),
    "kinds of other layers": (
        {"model_type": "mistral", "layer_types": ["full_attention"]},
        "(?s)windows of layers.*each of 2 layers full_attention or sliding_attention",
    ),
    "a kind that is not known": (
        {"model_type": "mistral", "layer_types": ["chunked_attention"] * 2},
        "(?s)windows of layers.*chunked_attention",
    ),
    "scores as they are": ({**plain.GPT2, "scale_attn_weights": False}, "scale_attn_weights"),
}


@pytest.mark.parametrize("case", CONFIGS)
def test_configs_that_are_refused(tmp_path: Path, case: str) -> None:
    change, words = CONFIGS[case]
    (tmp_path / "config.json").write_text(json.dumps({**plain.LLAMA, **change}))
    with pytest.raises(ArgumentError, match=words):
        weft.llm.load(tmp_path, "cpu")


SLIDING = {"use_sliding_window": True, "sliding_window": 24}
WINDOWS: dict[str, Any] = {
    "mistral": (plain.MISTRAL, {"sliding_window": 24}, (24, 24)),
    "mistral without one": (plain.MISTRAL, {"sliding_window": None}, ()),
    "mistral as it was first": (plain.MISTRAL, {"sliding_window": 4096}, (4096, 4096)),
    "llama": (plain.LLAMA, {"sliding_window": 24}, ()),
    "qwen": (plain.QWEN2, {"sliding_window": 24}, ()),
    "qwen with one": (plain.QWEN2, {**SLIDING, "max_window_layers": 1}, (0, 24)),
    "qwen, later layers": (plain.QWEN2, SLIDING, (0, 0)),
    "kinds by name": (
        plain.QWEN2,
        {**SLIDING, "layer_types": ["sliding_attention", "full_attention"]},
        (24, 0),
    ),
}


@pytest.mark.parametrize("case", WINDOWS)
def test_windows(tmp_path: Path, case: str) -> None:
    """Texts may be longer than the window: the positions of the model are the limit."""
    base, change, want = WINDOWS[case]
    (tmp_path / "config.json").write_text(json.dumps({**base, **change}))
    found = read(tmp_path / "config.json")
    assert found.windows == want and found.context == 64


@pytest.mark.parametrize(
    ("text", "words"),
    [(None, "no config.json that can be read"), ("{", "that can be read"), ("[]", "is no object")],
)
def test_no_config(tmp_path: Path, text: str | None, words: str) -> None:
    if text is not None:
        (tmp_path / "config.json").write_text(text)
    with pytest.raises(ArgumentError, match=words):
        weft.llm.load(tmp_path, "cpu")


def test_other_refusals(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="no such folder"):
        weft.llm.load(tmp_path / "none")
    with pytest.raises(ArgumentError, match="dtype is not supported"):
        weft.llm.load(tmp_path, dtype=torch.float64)
    (tmp_path / "config.json").write_text(json.dumps(plain.LLAMA))
    with pytest.raises(ArgumentError, match="the folder has no weights"):
        weft.llm.load(tmp_path)
    with pytest.raises(ArgumentError, match="family of models is not known"):
        weft.llm.DecoderConfig("rnn", 1, 1, 1, 1, 1, 2, 1, 1)
    with pytest.raises(ArgumentError, match="windows of a model do not fit"):
        weft.llm.DecoderConfig("llama", 1, 1, 1, 1, 1, 2, 1, 1, windows=(3, 3))
    with pytest.raises(AttributeError, match="there are Decoder"):
        weft.llm.Decode  # noqa: B018


# ---- texts -----------------------------------------------------------------------------------
def test_bytes(tmp_path: Path) -> None:
    """Characters of several bytes come when they are complete; what is none comes at the end."""
    of = tokenizer(tmp_path, 256)
    assert isinstance(of, ByteTokenizer)
    tokens = of.encode("a—b")
    stream = TextStream(of)
    assert [stream.add(t) for t in tokens] == ["a", "", "", "—", "b"]
    assert stream.end() == ""
    assert stream.add(tokens[1]) == "" and stream.end() == "\ufffd"
    with pytest.raises(ArgumentError, match=r"no tokenizer\.json, and too few tokens"):
        tokenizer(tmp_path, 100)


def test_a_tokenizer_without_its_package(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(MissingDependency, match="'tokenizers' reads"):
        tokenizer(tmp_path, 100)


def test_a_tokenizer_file(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")]))
    made.save(str(tmp_path / "tokenizer.json"))
    of = tokenizer(tmp_path, 3)
    assert of.encode("aba") == [2, 0] and of.decode([2]) == "ab"
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(ArgumentError, match=r"tokenizer\.json cannot be read"):
        tokenizer(tmp_path, 3)
