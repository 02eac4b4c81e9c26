"""`weft profile` of a PyTorch script by steps and layers: time, memory, advice, page."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from commands import run_weft
from weft.device.models import get as gpu_model
from weft.frontends.pytorch.gpu_profile import in_steps
from weft.measure.layers import memory
from weft.measure.layers.layers import LayerNames
from weft.measure.layers.profile import step_profile
from weft.measure.layers.steps import choose, steps
from weft.report.model import layers as report
from weft.report.model.page import page
from weft.values.model import (
    BACKWARD,
    FORWARD,
    OPTIMIZER,
    Allocation,
    Call,
    GpuKernel,
    MemoryLog,
    ModelProfile,
    ModuleFacts,
    Origin,
    ScriptEvent,
)

SCRIPT = """\
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(64)
        self.up = nn.Linear(64, 256)
        self.down = nn.Linear(256, 64)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))

model = nn.Sequential(Block(), Block(), nn.Linear(64, 8))
optimizer = torch.optim.AdamW(model.parameters())
x = torch.ones(512, 64)
for _ in range(4):
    loss = nn.functional.cross_entropy(model(x), torch.zeros(512, dtype=torch.long))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    model(x[:4])
"""


def profile(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run_weft("profile", *words, folder=folder)


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> Any:
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("layers")
    (folder / "net.py").write_text(SCRIPT)
    done = profile(folder, "net.py", "--json", "--html", "page.html")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), (folder / "page.html").read_text("utf-8")


def layer(data: Any, name: str) -> Any:
    (only,) = (row for row in data["layers"] if row["name"] == name)
    return only


def test_step_of_a_training_script(profiled: Any) -> None:
    step = profiled[0]["step"]
    # The first step makes the optimizer's state; the last one is an evaluation.
    assert (step["steps"], step["alike"], step["training"]) == (5, 3, True)
    assert not step["measured"] and step["time"] == pytest.approx(step["floor"])


def test_layers_of_a_step(profiled: Any) -> None:
    step = profiled[0]["step"]
    up = layer(step, "Sequential.0.up")  # its parts have two classes: no row for all of them
    phases = {phase["phase"]: phase for phase in up["phases"]}
    assert up["kind"] == "Linear" and phases[FORWARD]["flops"] == 2 * 512 * 64 * 256
    products = [k for k in up["kernels"] if k["name"] == "aten::mm"]
    assert [k["phase"] for k in products] == [BACKWARD] and products[0]["calls"] == 2
    assert phases[BACKWARD]["flops"] >= 2 * phases[FORWARD]["flops"]
    assert up["parameters"] == 4 * (64 * 256 + 256)
    assert layer(step, "AdamW.step")["phases"][0]["phase"] == OPTIMIZER


def test_memory_of_a_step(profiled: Any) -> None:
    data = profiled[0]
    peak = data["step"]["memory"]
    roles = {}
    for one in peak["holdings"]:
        roles[one["role"]] = roles.get(one["role"], 0) + one["bytes"]
    assert sum(roles.values()) == peak["bytes"] == data["model"]["peak"] and not peak["unknown"]
    parameters = 4 * (2 * (128 + 64 * 256 + 256 + 256 * 64 + 64) + 64 * 8 + 8)
    # Sizes are rounded up to 512 bytes.
    assert parameters <= roles["parameters"] <= parameters + 14 * 512
    assert 2 * parameters <= roles["optimizer state"] <= 2 * (parameters + 14 * 512) + 14 * 512
    held = {h["owner"]: h["bytes"] for h in peak["holdings"] if h["role"] == "activations"}
    # The results of relu and of the sum; relu keeps its result, so that of `up` is freed.
    assert held["Sequential.0"] == 4 * 512 * (256 + 64) and "Sequential.0.up" not in held
    assert layer(data["step"], "Sequential.0")["held"] == held["Sequential.0"]


def test_page_of_a_step(profiled: Any) -> None:
    text = profiled[1]
    assert text.count('<details class="layer">') == len(profiled[0]["step"]["layers"])
    assert "Peak memory" in text and "AdamW.step" in text and "{{" not in text


def test_table_of_a_script_and_its_errors(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "net.py").write_text(
        "import torch, sys\nmodel = torch.nn.Linear(8, 8)\nmodel(torch.ones(4, 8))\n"
        "if sys.argv[1:]:\n    raise ValueError('no such data')\n"
    )
    done = profile(tmp_path, "net.py")
    lines = done.stdout.splitlines()
    assert lines[0] == "net.py on H200 SXM 141 GB: one forward pass", done.stderr
    assert any(line.split()[-3:] == ["Linear", "Linear", "aten::addmm"] for line in lines)
    by_operation = profile(tmp_path, "net.py", "--by", "operation").stdout
    assert "net.py:3" in by_operation and "Next step:" in by_operation
    failed = profile(tmp_path, "net.py", "--args", "x")
    assert failed.returncode == 1 and "ValueError: no such data" in failed.stderr
    assert "Next steps" not in failed.stdout


# ---- steps ---------------------------------------------------------------------------------------
def events(text: str) -> list[ScriptEvent]:
    """`m` and `n` are models, `l` a loss without parameters, `o` an optimizer."""
    return [ScriptEvent(OPTIMIZER if c == "o" else FORWARD, c, parameters=c in "mn") for c in text]


def call(name: str, seconds: float = 1.0, moment: int = 1, **more: Any) -> Call:
    place = more.pop("place", Origin("Net.a", "net.py:1"))
    return Call(name, place, 1.0, 1.0, 0, 0, seconds, moment=moment, **more)


STEPS = {
    "training": ("mlomlo", [1, 1, 1, 2, 2, 2]),
    "evaluation after training": ("mlomlomm", [1, 1, 1, 2, 2, 2, 3, 3]),
    "gradient accumulation": ("mlmlomlmlo", [1, 1, 1, 1, 1, 2, 2, 2, 2, 2]),
    "two networks": ("mnonmomnonmo", [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]),
    "inference": ("mmm", [1, 2, 3]),
    "inference with a loss, twice": ("mllmll", [1, 1, 1, 2, 2, 2]),
    "modules without parameters": ("lll", [1, 2, 3]),
}


@pytest.mark.parametrize(("text", "numbers"), STEPS.values(), ids=STEPS.keys())
def test_steps_begin_where_a_model_is_called_again(text: str, numbers: list[int]) -> None:
    calls = [call("setup", moment=0), *(call(c, moment=n) for n, c in enumerate(text, 1))]
    found = steps(calls, events(text))
    assert [step.number for step in found for _ in step.calls] == numbers
    assert "".join(c.name for step in found for c in step.calls) == text


def test_step_with_most_time_in_all_is_shown() -> None:
    calls = [call("compile", 9.0, 1)]
    calls += [call("step", seconds, moment) for moment, seconds in ((2, 5.0), (3, 4.0), (4, 6.0))]
    step, alike = choose(steps(calls, events("mmmm")))
    assert (step.number, alike) == (2, 3)  # the median of three, not the slow first one
    calls.append(call("aten::item", 0.1, 4, place=Origin(line="net.py:9")))
    assert choose(steps(calls, events("mmmm")))[1] == 3


# ---- layers --------------------------------------------------------------------------------------
def test_equal_modules_of_a_list_are_one_row() -> None:
    paths = {
        "Net": "Net", "Net.blocks": "ModuleList", "Net.blocks.0": "Block", "Net.blocks.1": "Block",
        "Net.blocks.0.mlp": "Sequential", "Net.blocks.0.mlp.0": "Linear",
        "Net.blocks.0.mlp.1": "GELU", "Net.blocks.0.mlp.2": "Linear",
        "Net.blocks.1.mlp": "Sequential", "Net.blocks.1.mlp.0": "Linear",
        "Net.one": "Sequential", "Net.one.0": "Linear",
    }  # fmt: skip
    names = LayerNames({path: ModuleFacts(kind, 4) for path, kind in paths.items()})
    assert names.row("Net.blocks.1.mlp.0") == "Net.blocks.*.mlp.0"
    assert names.row("Net.blocks.0.mlp.2") == "Net.blocks.*.mlp.2"  # GELU is between them
    assert names.row("Net.one.0") == "Net.one.0"
    assert names.counts["Net.blocks.*.mlp.0"] == 2 and names.parameters("Net.blocks.*") == 8
    assert names.first("Net.blocks.*.mlp.0") == "Net.blocks.0.mlp.0"
    assert names.of(Origin("evaluate > Net.one.0")) == "Net.one.0"
    assert names.of(Origin(line="net.py:3")) == "net.py:3"


# ---- memory --------------------------------------------------------------------------------------
def test_peak_and_its_holders() -> None:
    log = MemoryLog(
        {
            1: Allocation(100, Origin(line="net.py:1"), role="parameters"),
            2: Allocation(50, Origin("Net.a", "net.py:2")),
            3: Allocation(60, Origin("Net.b", "net.py:3")),
            4: Allocation(60, Origin("Net.b", "net.py:3", "MmBackward0"), BACKWARD),
            5: Allocation(10, Origin(line="net.py:9")),
        },
        (1, 2, 3, -3, 4, 5, -2, -4),
    )
    found = memory.peak(log, LayerNames({}), 250)
    assert (found.bytes, found.unknown, found.place) == (250, 30, "net.py:9")
    assert found.roles() == {
        "parameters": 100,
        "temporaries of the backward pass": 60,
        "activations": 50,
        "temporaries and workspaces": 30,
        "tensors made outside of modules": 10,
    }
    assert memory.held(found) == {"Net.a": 50}
    assert memory.peak(MemoryLog(), LayerNames({}), 0).bytes == 0


# ---- advice --------------------------------------------------------------------------------------
def advised(*calls: Call, sizes: dict[int, int] | None = None, roles: Any = ()) -> dict[str, Any]:
    log = MemoryLog(
        {
            n: Allocation(size, Origin("Net.a"), role="parameters" if n in roles else "")
            for n, size in (sizes or {}).items()
        }
    )
    model = ModelProfile(
        "net.py", "H200", calls, 0, events=tuple(events("m")),
        modules={"Net": ModuleFacts("Net"), "Net.a": ModuleFacts("Linear")}, memory=log,
    )  # fmt: skip
    found = step_profile(model, gpu_model("h200"))
    assert found is not None
    return {one.rule: one for one in found.advice}


def test_products_in_float32_should_use_tensor_cores() -> None:
    product = replace(call("aten::mm", 1.0, library=True, limit="fp32"), flops=6.69e13)
    found = advised(product)["precision"]
    assert 0.9 < found.gain < 1 and "Net.a" in found.evidence and "autocast" in found.change
    assert "precision" not in advised(replace(product, limit="tensor.bf16"))


def test_results_that_the_next_operation_reads_should_be_fused() -> None:
    rate = gpu_model("h200").memory_gb_per_s * 1e9
    sizes = {7: int(rate), 8: int(rate)}  # a second each way
    made = call("aten::add", 3.0, writes=(7,))
    read = call("aten::gelu", 3.0, reads=(7,), writes=(8,))
    assert advised(made, read, sizes=sizes)["fuse"].gain == pytest.approx(2.0, rel=1e-3)
    # Another reader, far away: the result must be written.
    far = [call("aten::mm", 0.1, library=True) for _ in range(9)]
    again = call("aten::mm", 3.0, reads=(7,), library=True)
    found = advised(made, read, *far, again, sizes=sizes)["fuse"]
    assert found.gain == pytest.approx(1.0, rel=1e-3) and "add + gelu" in found.evidence
    back = replace(read, phase=BACKWARD)
    assert "fuse" not in advised(made, back, sizes=sizes)


def test_optimizer_that_moves_more_than_it_needs() -> None:
    one = call("aten::_foreach_mul_", reads=(1,), writes=(1,), phase=OPTIMIZER)
    found = advised(*[replace(one, bytes=8.0)] * 4, sizes={1: 4}, roles=(1,))["optimizer"]
    assert found.gain == pytest.approx(4 * (1 - 8 / 32)) and "fused=True" in found.change


def test_kernel_far_from_its_roofline() -> None:
    slow = replace(call("aten::add", 0.2), kernels=(GpuKernel("void add<4>(int)", 0.0, 1.0),))
    found = advised(slow)["kernel"]
    assert "add in Net.a (forward) takes 1 s, 100% of the step, at 20%" in found.evidence
    assert found.change.startswith("weft extract net.py Net.a")


def test_scores_of_attention_in_memory() -> None:
    calls = [
        call("aten::bmm", library=True),
        call("aten::_softmax"),
        call("aten::bmm", library=True),
    ]
    assert "scaled_dot_product_attention" in advised(*calls)["attention"].change
    assert "attention" not in advised(*calls[:2])


def test_launches_longer_than_their_work() -> None:
    assert "torch.compile" in advised(*[call("aten::add", 1e-8)] * 5)["launches"].change
    assert "launches" not in advised(*[call("aten::add", 1e-3)] * 5)


def test_casts_and_copies() -> None:
    cast = call("aten::_to_copy", 1.0)
    found = advised(cast, call("aten::mm", 3.0, library=True))
    assert found["casts"].gain == 1.0
    host = replace(cast, kernels=(GpuKernel("Memcpy HtoD (Pageable)", 0.0, 1.0),))
    assert "casts" not in advised(host)


def test_view_of_measured_layers() -> None:
    kernel = GpuKernel("void gemm<128>(float*)", 0.0, 2e-3)
    calls = (
        replace(call("aten::mm", 1e-3, library=True, limit="tensor.bf16"), kernels=(kernel,)),
        replace(call("aten::mm", 1e-3, phase=BACKWARD, library=True), kernels=(kernel, kernel)),
    )
    model = ModelProfile(
        "net.py", "H200", calls, 2**20, events=tuple(events("m")),
        modules={"Net.a": ModuleFacts("Linear")},
    )  # fmt: skip
    found = step_profile(model, gpu_model("h200"))
    assert found is not None and found.measured
    (row,) = found.layers
    assert (row.time, row.floor) == pytest.approx((6e-3, 2e-3))
    assert [(k.phase, k.calls) for k in row.kernels] == [(BACKWARD, 2), (FORWARD, 1)]
    blocks = list(report.view(found))
    assert blocks[1][0].startswith("6 ms of kernels by CUPTI, roofline 2 ms (33.3%)")
    table = next(block for block in blocks if len(block) == 3)
    cells = dict(zip(table.columns, table.rows[0], strict=True))
    assert cells["roofline"] == "33.3%" and cells["backward"] == "66.7%"
    assert cells["first kernel"] == "gemm"
    assert "temporaries and workspaces 1 MiB" in page(found)


def test_kernels_that_no_call_launched_are_in_the_step_of_their_time() -> None:
    called = [
        replace(call("aten::mm", moment=moment), kernels=(GpuKernel("gemm", at, 1.0),))
        for moment, at in ((1, 10.0), (2, 20.0))
    ]
    others = [GpuKernel("early", 1.0, 1.0), GpuKernel("late", 25.0, 1.0)]
    found = in_steps(called, others)
    assert [(c.name, c.moment) for c in found[2:]] == [("early", 0), ("late", 2)]
    (first, second) = steps(found, events("mm"))
    assert [c.name for c in first.calls] == ["aten::mm"]
    assert [c.name for c in second.calls] == ["aten::mm", "late"]


def test_script_without_modules_has_no_layers() -> None:
    model = ModelProfile("net.py", "H200", (call("aten::add", moment=0),), 0)
    assert step_profile(model, gpu_model("h200")) is None
