"""`weft extract`: the layers of a model as ladders, which climb on the simulated GPU."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import weft
from commands import run_weft
from weft.climbing.extract import extract
from weft.errors import ArgumentError
from weft.values.model import Call, ModuleFacts, Origin, TensorType

torch = pytest.importorskip("torch")


def floats(*shape: int, dtype: str = "float32") -> TensorType:
    return TensorType(dtype, shape)


def call(operation: str, seconds: float = 1.0, module: str = "Net.layer", **operands: Any) -> Call:
    place = Origin(module, "net.py:1")
    return Call(operation, place, 0.0, 0.0, 0, 0, seconds, operands=operands)


ATTENTION = "aten::_scaled_dot_product_flash_attention"
LAYERS = {
    "linear": call("aten::addmm", self=floats(48), mat1=floats(200, 40), mat2=floats(40, 48)),
    "linear without bias": call("aten::mm", self=floats(9, 40), mat2=floats(40, 48)),
    "linear of weft, bf16": call(
        "weft::linear",
        input=floats(2, 9, 40, dtype="bfloat16"),
        weight=floats(48, 40, dtype="bfloat16"),
        bias=floats(48, dtype="bfloat16"),
    ),
    "layer norm": call(
        "aten::native_layer_norm", input=floats(4, 30, 96), normalized_shape=[96],
        weight=floats(96), bias=floats(96), eps=1e-3,
    ),
    "layer norm without weights, fp16": call(
        "weft::layer_norm", input=floats(30, 96, dtype="float16"), normalized_shape=[96]
    ),
    "rms norm": call(
        "weft::rms_norm", input=floats(30, 96), normalized_shape=[96], weight=floats(96), eps=None
    ),
    "softmax": call("aten::_softmax", self=floats(3, 5, 70), dim=2, half_to_float=False),
    "gelu": call("aten::gelu", self=floats(100, 7), approximate="none"),
    "gelu by tanh": call("aten::gelu", self=floats(100, 7), approximate="tanh"),
    "silu, bf16": call("weft::silu", input=floats(100, 7, dtype="bfloat16")),
    "relu in place": call("aten::relu_", self=floats(64)),
    "convolution": call(
        "aten::convolution", input=floats(2, 6, 14, 12), weight=floats(8, 3, 3, 2),
        bias=floats(8), stride=[2, 1], padding=[1, 0], dilation=[1, 2], transposed=False,
        output_padding=[0, 0], groups=2,
    ),
    "convolution of weft": call(
        "weft::conv2d", input=floats(1, 3, 9, 9), weight=floats(4, 3, 5, 5), padding=2
    ),
    "causal attention": call(
        ATTENTION, query=floats(2, 2, 20, 16), key=floats(2, 2, 20, 16),
        value=floats(2, 2, 20, 16), dropout_p=0.0, is_causal=True,
    ),
    "attention of shared heads, bf16": call(
        "weft::attention", query=floats(1, 4, 8, 16, dtype="bfloat16"),
        key=floats(1, 2, 30, 16, dtype="bfloat16"), value=floats(1, 2, 30, 16, dtype="bfloat16"),
        scale=0.5,
    ),
}  # fmt: skip


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS.keys())
def test_ladder_of_a_layer_climbs(layer: Call, tmp_path: Path) -> None:
    found = extract.find("Net.layer", [layer], {})
    files = extract.write(found, "net.py", "mine", tmp_path)
    assert {f.name for f in files} == {"ladder.md", "op.py", "rung_00_naive.cu"}
    result = weft.climb(tmp_path / "mine")
    assert result.right, [rung.error for rung in result.rungs]


def test_wrong_rung_of_an_extracted_ladder_is_found(tmp_path: Path) -> None:
    """The reference judges: a kernel without the bias is not right."""
    files = extract.write(
        extract.find("Net.layer", [LAYERS["linear"]], {}), "net.py", "m", tmp_path
    )
    rung = next(f for f in files if f.suffix == ".cu")
    rung.write_text(rung.read_text("utf-8").replace("float(b[column])", "0"), "utf-8")
    assert not weft.climb(tmp_path / "m").right


def test_sizes_are_those_of_the_model() -> None:
    made = extract.find("Net.layer", [LAYERS["linear"]], {}).computation
    assert made.sizes == {"M": 200, "N": 48, "K": 40}
    made = extract.find("Net.layer", [LAYERS["causal attention"]], {}).computation
    assert made.sizes == {"b": 2, "h": 2, "g": 2, "m": 20, "s": 20, "d": 16}


def test_own_operations_come_before_those_of_parts() -> None:
    attention = LAYERS["causal attention"]
    part = call("aten::mm", 9.0, "Net.layer.out", self=floats(9, 40), mat2=floats(40, 48))
    add = call("aten::add", 5.0, self=floats(9), other=floats(9))
    assert extract.find("Net.layer", [part, add, attention], {}).operation == ATTENTION
    found = extract.find("Net.layer", [part, add], {})
    assert (found.layer, found.operation) == ("Net.layer.out", "aten::mm")
    assert found.share == pytest.approx(9 / 14)


def test_rms_norm_of_several_operations_is_known_by_its_class() -> None:
    calls = [
        call("aten::pow", self=floats(4, 30, 96), exponent=2),
        call("aten::add", self=floats(4, 30, 1), other=1e-5, alpha=1),
        call("aten::mul", self=floats(4, 30, 96), other=floats(96)),
    ]
    found = extract.find("Net.layer", calls, {"Net.layer": ModuleFacts("LlamaRMSNorm", 384)})
    assert found.computation.kind == "rms_norm" and found.computation.sizes == {
        "rows": 120,
        "n": 96,
    }
    assert "1e-05" in found.computation.call
    with pytest.raises(ArgumentError):
        extract.find("Net.layer", calls, {"Net.layer": ModuleFacts("Scale", 384)})


REFUSED = {
    "another operation": (call("aten::embedding"), "aten::embedding takes most of the time"),
    "double": (call("aten::relu", self=floats(9, dtype="float64")), "the type of its tensors"),
    "a mask": (
        call(ATTENTION, query=floats(1, 1, 8, 8), key=floats(1, 1, 8, 8),
             value=floats(1, 1, 8, 8), attn_mask=floats(8, 8)),
        "its attention has a mask",
    ),
    "transposed": (
        call("aten::convolution", input=floats(1, 2, 8, 8), weight=floats(2, 2, 3, 3),
             transposed=True),
        "its convolution is another one",
    ),
    "another dimension": (call("aten::_softmax", self=floats(3, 5), dim=0), "another dimension"),
}  # fmt: skip


@pytest.mark.parametrize(("layer", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_other_layers_are_refused_by_name(layer: Call, text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        extract.find("Net.layer", [layer], {})


def test_folder_that_exists_is_kept(tmp_path: Path) -> None:
    found = extract.find("Net.layer", [LAYERS["gelu"]], {})
    (tmp_path / "mine").mkdir()
    with pytest.raises(ArgumentError, match="something of this name"):
        extract.write(found, "net.py", "mine", tmp_path)
    with pytest.raises(ArgumentError, match="C\\+\\+ and Python name"):
        extract.write(found, "net.py", "my-layer", tmp_path)


SCRIPT = """\
import torch

model = torch.nn.Sequential(torch.nn.Linear(12, 20), torch.nn.GELU(), torch.nn.Linear(20, 3))
for _ in range(2):
    print(model(torch.ones(5, 12)).shape)
"""


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run_weft("extract", *words, folder=folder)


def test_command(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(SCRIPT)
    done = run(tmp_path, "net.py", "2", "--name", "last", "--json")
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)  # what the script prints is not part of it
    assert data["layer"] == "Sequential.2" and data["sizes"] == {"M": 5, "N": 3, "K": 20}
    assert weft.climb(tmp_path / data["folder"]).right
    missing = run(tmp_path, "net.py", "Sequential.5")
    assert missing.returncode == 1 and "no such layer" in missing.stderr
    assert "Sequential.2" in missing.stderr
