"""`weft bench models` and the tables of its record: what can be held without a GPU."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner, Result

from folders import ROOT
from limits import PROCESS_SECONDS
from weft.cli import app, show
from weft.ops.models import cases, config, draw, named, small
from weft.ops.sweep import measure, run, worker
from weft.ops.sweep.measure import Meter, Method
from weft.report import models as report
from weft.values.models import LayerTime, ModelTimes, groups, speeds
from weft.values.sweep import SweptCall

sys.path.insert(0, str(ROOT / "scripts"))

import model_tables
import tables

MODELS = config.models()


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["bench", "models", *arguments])


def tiny(words: str) -> draw.Drawn:
    (one,) = named.named(MODELS, [words])
    return small.smaller(one)


# ---- measuring ---------------------------------------------------------------------------------
@pytest.mark.sim
def test_a_method_rotates_arguments_and_compares_errors() -> None:
    one = tiny("gpt2 layer_norm tokens=7 float16")
    case = cases.case(one.case)
    seen: list[int] = []

    def watched(*tensors: Any, **options: Any) -> Any:
        seen.append(tensors[0].data_ptr())
        return case.torch(*tensors, **options)

    size = sum(math.prod(t.shape) * 2 for t in one.work.call.tensors if t)
    method = Method(rotated=3 * size, compare=True)
    meter = Meter("cpu", clock=lambda calls: [float(sum(f() is None for f in calls * 9))] * 2)
    result = meter(replace(case, torch=watched), one.work.call, 1, method=method)
    assert result.right and set(result.errors) == {"weft", "torch"}
    assert 0 < result.errors["weft"] < 1e-3
    timed = [p for p in seen if seen.count(p) >= 3]  # the others have no memory, or are checked
    assert len(set(timed)) == 3


def test_errors_are_those_of_the_worst_result() -> None:
    want = torch.linspace(1, 2, 100, dtype=torch.float64)
    assert run.rms_error(want, want) == run.LEAST_ERROR
    assert run.rms_error(1.01 * want, want) == pytest.approx(0.01)
    one = tiny("gpt2 layer_norm tokens=7 float32")
    case = cases.case(one.case)
    rough = replace(case, weft=lambda *t, **o: case.torch(*t, **o) * (1 + 1e-5), roundings=1e6)
    result, _ = run.check(rough, one.work.call, "cpu", 1, compare=True)
    assert result.right and result.errors["weft"] == pytest.approx(1e-5, rel=0.1)
    assert LayerTime(one.described(), result).imprecise
    same, _ = run.check(replace(case, weft=case.torch), one.work.call, "cpu", 1, compare=True)
    assert not LayerTime(one.described(), same).imprecise


GRAPHS = """
import weft
from weft.ops.models import cases, config, named, small
from weft.ops.sweep.measure import Meter, Method
(one,) = named.named(config.models(), ["gpt2 layer_norm tokens=3 float32"])
one = small.smaller(one)
method = Method(graph=True, rotated=1000, compare=True)
result = Meter("cuda")(cases.case(one.case), one.work.call, 1, method=method)
assert result.right and not result.failed, result
assert set(result.graph) == set(result.seconds) == {"weft", "torch"}, result
print("in graphs")
"""


@pytest.mark.sim
def test_calls_are_captured_in_graphs(tmp_path: Path) -> None:
    """On PyTorch with a simulated CUDA, whose graphs capture as those of a GPU."""
    script = tmp_path / "graphs.py"
    script.write_text(GRAPHS)
    command = [sys.executable, "-m", "weft", "run", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PROCESS_SECONDS)
    assert "in graphs" in done.stdout, done.stderr


def test_a_peer_that_breaks_the_process_is_left_out() -> None:
    one = tiny("gpt2 self tokens=7")
    failed = {"cudnn": "misaligned"}
    result = SweptCall(one.case, str(one.work.call), "", math.nan, False, failed=failed)

    def broken(*_: Any) -> Any:
        raise measure.Broken(result, "cudnn")

    task = worker.Task(one.case, one.work.call, 1)
    answer = worker.measured(broken, task, cases.case)  # type: ignore[arg-type]
    assert answer.again == replace(task, failed=failed) and answer.broken


def test_attention_has_the_backends_as_peers() -> None:
    case = cases.case("attention backward")
    assert set(case.peers) == {"cudnn", "flash"} and case.backward
    assert set(cases.case("attention bias").peers) == {"cudnn"}
    assert not cases.case("linear").peers
    assert cases.case("softmax backward").backward  # which the sweep does not draw


# ---- the command line --------------------------------------------------------------------------
@pytest.mark.sim
def test_small_versions_are_checked() -> None:
    result = invoke("--device", "sim", "--only", "gpt2 layer_norm act tokens=5", "--json")
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)["results"]
    assert [row["words"].split()[1] for row in rows] == ["act", "layer_norm"]
    assert all(row["right"] and row["errors"] and not row["us"] for row in rows)
    assert rows[0]["plan"]


@pytest.mark.sim
@pytest.mark.parametrize(
    "words",
    [
        "llama3-8b self tokens=77", "llama3-8b decode keys=77", "swin-t self.1 float16",
        "sd1.5-unet cross.1 float16", "resnet50 conv64-64@56k3s1 float16 channels_last",
        "wav2vec2-base conv512-512@7999k3s2 float16", "gemma2-2b gate_act tokens=16",
        "gpt2 loss tokens=16",
    ],
)  # fmt: skip
def test_layers_are_right(words: str) -> None:
    one = tiny(words)
    result, _ = run.check(cases.case(one.case), one.work.call, "cpu", 3, compare=True)
    assert result.right and not LayerTime(one.described(), result).imprecise, result


@pytest.mark.sim
def test_wrong_results_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    right = cases.case("layer_norm")
    wrong = replace(right, weft=lambda *t, **o: right.torch(*t, **o) + 1)
    monkeypatch.setattr(cases, "case", lambda name: wrong)
    result = invoke("--device", "sim", "--only", "gpt2 layer_norm")
    assert result.exit_code == 1 and "1 wrong" in result.output

    def fails(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no kernel")

    monkeypatch.setattr(cases, "case", lambda name: replace(right, weft=fails))
    result = invoke("--device", "sim", "--only", "gpt2 layer_norm")
    assert result.exit_code == 1 and "weft failed: RuntimeError: no kernel" in result.output


def test_calls_are_listed(tmp_path: Path) -> None:
    result = invoke("--list", "--seed", "4", "--calls", "7", "--kinds", "conv,norm", "--json")
    calls = json.loads(result.stdout)
    assert len(calls) == 7 and {c["kind"] for c in calls} <= {"conv", "norm"}
    assert all(c["least"] > 0 and c["moved"] > 0 for c in calls)
    file = tmp_path / "calls.txt"
    file.write_text("# two calls\ngpt2 qkv tokens=77\n\nresnet50 conv64-64@56k1s1 batch=64\n")
    said = invoke("--list", "--only", f"@{file}").output
    assert "gpt2 qkv batch=1 tokens=77" in said and "2 calls" in said
    said = invoke("--list", "--only", "gpt2 qkv; gpt2 out").output
    assert "gpt2 out batch=1 tokens=512 bfloat16" in said


def test_messages() -> None:
    assert "no such model" in invoke("--list", "--models", "gpt5").stderr
    assert "products, attention, conv" in invoke("--list", "--kinds", "nope").stderr
    assert "no layer has this name" in invoke("--list", "--only", "gpt2 nope").stderr


# ---- results and records -----------------------------------------------------------------------
def timed(words: str, eager: float, graph: float, **changes: Any) -> LayerTime:
    (one,) = named.named(MODELS, [words])
    seconds, captured = ({"weft": 1e-5, "torch": r * 1e-5, "cudnn": 1e-4} for r in (eager, graph))
    errors = {"weft": 1e-3, "torch": 1e-3}
    result = SweptCall(one.case, str(one.work.call), "tiles", 0.5, True, seconds, {}, {}, captured)
    return LayerTime(one.described(), replace(result, **{"errors": errors, **changes}))


TIMES = ModelTimes(
    7,
    4,
    (
        timed("gpt2 qkv tokens=77", 0.5, 0.7),
        timed("gpt2 qkv tokens=77 backward", 2.0, 0.95),
        timed("gpt2 layer_norm tokens=77 float32", 4.0, 1.5),
        timed("gpt2 self tokens=77", 1.0, 1.0, errors={"weft": 2e-2, "torch": 1e-3}),
    ),
)
MACHINE = {"date": "2026-01-02", "gpu": "NVIDIA H200", "driver": "1", "torch": "2.13",
           "python": "3.12", "kernels": "1a2b", "cudnn_benchmark": False,
           "max_autotune": False}  # fmt: skip


def test_groups_of_calls() -> None:
    found = groups(TIMES.times)
    assert len(found["products, 16 bits"]) == 2 and len(found["all, 16 bits"]) == 3
    assert len(found["forward and backward, 16 bits"]) == len(found["all, 32 bits"]) == 1
    products = speeds(found["products, 16 bits"], "eager")
    assert products.mean == pytest.approx(1.0) and products.worst == 0.5
    assert products.below == (1, 1, 1, 1)
    assert speeds(found["products, 16 bits"], "graph").below == (1, 1, 1, 2)
    assert not TIMES.right and [t.layer.layer for t in TIMES.imprecise] == ["self"]


def test_a_record_is_read_back() -> None:
    again = ModelTimes.from_dict(json.loads(json.dumps(TIMES.to_dict())))
    assert [t.layer.words for t in again.times] == [t.layer.words for t in TIMES.times]
    assert [t.ratio("graph") for t in again.times] == pytest.approx([0.7, 0.95, 1.5, 1.0])
    assert again.times[3].imprecise and again.times[0].layer.kind == "products"
    assert [t.ratio("eager") for t in TIMES.worst("eager", 2)] == [0.5, 1.0]


def test_slow_calls_are_made_again(tmp_path: Path) -> None:
    path = tmp_path / "models.jsonl"
    path.write_text(json.dumps(TIMES.to_dict()) + "\n")
    said = invoke("--list", "--again", str(path), "--json")
    assert [c["words"] for c in json.loads(said.stdout)] == ["gpt2 qkv batch=1 tokens=77 bfloat16"]
    assert (
        "nothing to time again" in invoke("--list", "--again", str(path), "--below", "0.1").stderr
    )


def test_the_summary(capsys: pytest.CaptureFixture[str]) -> None:
    show.blocks(report.summary(TIMES))
    out = capsys.readouterr().out
    assert "the worst calls, graph" in out and "weft 10.0, torch 5.0, cudnn 100.0" in out
    assert "error 2.00e-02, PyTorch's 1.00e-03: gpt2 self batch=1 tokens=77 bfloat16" in out
    assert "4 of 4 calls of seed 7: 0 wrong, 1 less precise than PyTorch" in out


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "benchmarks" / "records" / "models.jsonl"
    path.parent.mkdir(parents=True)
    monkeypatch.setattr(model_tables, "RECORDS", path)
    return path


def test_without_a_record(record: Path) -> None:
    said = "There is no record yet: `weft bench models --record benchmarks/records/models.jsonl`"
    assert said in tables.TABLES["models_speed"]() and said in tables.TABLES["models_worst"]()


def test_the_page_has_the_newest_kernels(record: Path) -> None:
    old = {**TIMES.to_dict(), **MACHINE, "kernels": "0000", "seed": 3}
    lines = [old, {**TIMES.to_dict(), **MACHINE}, {**TIMES.to_dict(), **MACHINE, "seed": 8}]
    record.write_text("".join(json.dumps(line) + "\n" for line in lines))
    page = tables.TABLES["models_speed"]()
    assert "NVIDIA H200, driver 1, torch 2.13, 2026-01-02, seeds 7, 8." in page
    eager, graph = "1.00 x | 0.50 x | 2 | 2 | 2 | 2", "0.82 x | 0.70 x | 2 | 2 | 2 | 4"
    assert f"| products, 16 bits | 4 | {eager} | {graph} |" in page
    assert "Of 8 results: 0 wrong, 2 less precise than PyTorch's." in page
    worst = tables.TABLES["models_worst"]()
    assert "| 0.50 x | gpt2 qkv batch=1 tokens=77 bfloat16 | tiles | 10.0 | 5.0 | torch |" in worst


def test_every_model_is_on_the_page() -> None:
    text = tables.TABLES["models_list"]()
    assert all(f"| `{name}` |" in text for name in MODELS)


@pytest.mark.gpu
def test_on_a_gpu(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    result = invoke("--only", "gpt2 qkv layer_norm self tokens=77", "--record", str(path))
    assert result.exit_code == 0, result.output
    (line,) = map(json.loads, path.read_text().splitlines())
    assert len(line["results"]) == 3
    for row in line["results"]:
        assert {"weft", "torch"} <= set(row["us"]) == set(row["graph_us"])
    (attention,) = (r for r in line["results"] if r["kind"] == "attention")
    assert "cudnn" in attention["us"] and "flash" in attention["us"]
