"""`weft bench networks`: cases, processes that take turns, results, records, the command line."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from folders import ROOT
from limits import PROCESS_SECONDS
from weft.cli import app, show
from weft.errors import ArgumentError
from weft.report.networks import steps as report
from weft.values.networks import NetworkCase, NetworkTime, NetworkTimes, StepTimes

sys.path.insert(0, str(ROOT / "scripts"))
import step_tables
import tables

torch = pytest.importorskip("torch")
from weft.networks.bench import (  # noqa: E402  they need torch
    cases,
    contenders,
    session,
    worker,
)

TINY = NetworkCase("gpt2", "tiny", True, "fp32", 2)
CPU = session.Method(rounds=2, losses=2, graphs=False, second=True, jobs=2, device="cpu")


def invoke(*words: str) -> Any:
    return CliRunner().invoke(app, ["bench", "networks", *words])


# ---- cases -------------------------------------------------------------------------------------
def test_the_cases_by_default() -> None:
    every = cases.every()
    assert len(every) == len(set(every)) == 8 * 3 * 3
    assert every[0].words == "gpt2-124m train bf16 batch=8 length=1024"
    last = {c.network for c in every if c.channels_last}
    assert last == {"resnet", "convnext", "unet"}
    assert not any(c.channels_last for c in every if c.dtype == "fp32")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("gpt2-124m train fp32", ["gpt2-124m train fp32 batch=8 length=1024"]),
        ("vit inference autocast", [f"vit-b16 inference autocast batch={n}" for n in (1, 32)]),
        ("vit inference autocast batch=4", ["vit-b16 inference autocast batch=4"]),
        ("gpt2-774m train bf16 length=64", ["gpt2-774m train bf16 batch=8 length=64"]),
        ("gpt2-tiny train bf16", ["gpt2-tiny train bf16 batch=8"]),
        (
            "resnet train bf16 contiguous; vit train bf16",
            ["resnet-50 train bf16 batch=64 length=224", "vit-b16 train bf16 batch=64"],
        ),
        (
            "resnet train fp32 channels_last",
            ["resnet-50 train fp32 batch=64 length=224 channels_last"],
        ),
    ],
)
def test_words_name_cases(words: str, expected: list[str]) -> None:
    assert [case.words for case in cases.chosen(words)] == expected


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("gpt3", "no case of `weft bench networks` has this word\n  got: gpt3"),
        ("gpt2-9m", "gpt2 has no such size\n  got: 9m\n  allowed: 124m, 350m"),
        ("gpt2 batch=0", "got: batch=0"),
        ("gpt2 length=long", "got: length=long"),
    ],
)
def test_words_that_name_none(words: str, said: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        cases.chosen(words)
    assert said in str(raised.value)


def test_contenders_are_chosen() -> None:
    assert "max-autotune" not in contenders.chosen("", dear=False)
    assert "max-autotune" in contenders.chosen("", dear=True)
    assert contenders.chosen(" weft ,eager", dear=False) == ["weft", "eager"]
    with pytest.raises(ArgumentError, match="there is no such contender"):
        contenders.chosen("tensorrt", dear=False)


# ---- processes ---------------------------------------------------------------------------------
def test_contenders_take_turns_in_processes() -> None:
    """A case that cannot run stops no other one."""
    missing = replace(TINY, size="none")
    said: list[str] = []
    found = list(session.measured([TINY, missing], ["eager"], CPU, said.append))
    right, wrong = (t.results["eager"] for t in found)
    assert len(right.seconds) == 2 and min(right.seconds) > 0 and right.first > 0
    assert right.second > 0 and math.isnan(wrong.second)
    assert len(right.losses) == 2 and right.losses[1] < right.losses[0]
    assert wrong.failed == "ArgumentError: gpt2 has no such size" and not wrong.seconds
    assert said == [TINY.words, missing.words]


def test_a_process_that_dies_is_reported() -> None:
    player = session.Player(TINY, "eager", "cpu")
    player.start()
    player.ask(math.inf, "prepare", 1)
    os.kill(player.process.pid, signal.SIGKILL)
    session._play([player], CPU, math.inf)
    assert player.result.failed == "the process ended, exit code -9" and not player.plays


def test_a_contender_without_memory_plays_alone() -> None:
    player = session.Player(TINY, "eager", "cpu")
    player.result = StepTimes(failed="OutOfMemoryError: 1 GiB")
    result = session._case(TINY, [player], CPU, math.inf).results["eager"]
    assert result.alone and len(result.seconds) == 2 and not result.failed


def test_a_limit_of_time_ends_a_run() -> None:
    assert list(session.measured([TINY], ["eager"], replace(CPU, limit=0.0), print)) == []
    player = session.Player(TINY, "eager", "cpu")
    session._prepare([player], CPU, time.monotonic())
    assert player.result.failed == session.LATE and not player.plays


GRAPHS = """
from weft.networks.bench import worker
from weft.values.networks import NetworkCase
for name, training in (("weft", True), ("eager", False)):
    one = worker.Worker(NetworkCase("gpt2", "tiny", training, "autocast", 2), name, "cuda")
    _, losses = one.prepare(2)
    apart = one.capture()
    one.replay(1)
    last = one._step.judge()
    assert last < losses[-1] if training else last == losses[0], (name, losses, last)
    assert apart < 1e-6, (name, apart)
print("in graphs")
"""


@pytest.mark.sim
def test_steps_are_captured_in_graphs(tmp_path: Path) -> None:
    """On PyTorch with a simulated CUDA, whose graphs capture as those of a GPU."""
    script = tmp_path / "graphs.py"
    script.write_text(GRAPHS)
    command = [sys.executable, "-m", "weft", "run", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PROCESS_SECONDS)
    assert "in graphs" in done.stdout, done.stderr


# ---- results and records -----------------------------------------------------------------------
def result(ms: float, graph: float = 0.0, losses: tuple[float, ...] = (4.0,)) -> StepTimes:
    captured = (graph * 1e-3,) if graph else ()
    seconds = (ms * 1e-3, 9.9, ms * 1e-4)  # the median counts
    return StepTimes(
        seconds, captured, first=2.0, losses=losses, memory=3 * 10**9, reserved=4 * 10**9
    )


CASE = NetworkCase("resnet", "50", True, "bf16", 64, 224, True)
TIME = NetworkTime(
    CASE,
    {
        "eager": result(20.0, 16.0, (4.0, 3.0)),
        "compile": StepTimes(failed="OutOfMemoryError: much"),
        "weft": result(10.0, 0.0, (4.0, 3.1)),
        "weft compile": result(40.0, 8.0, (4.0, math.nan)),
    },
)
MACHINE = {"date": "2026-01-02", "gpu": "NVIDIA H200", "driver": "1", "torch": "2.13", "jobs": 1}


def test_ratios_compare_the_fastest_of_both() -> None:
    assert TIME.ratio("called") == pytest.approx(2.0)
    assert TIME.ratio("graph") == pytest.approx(2.0)
    assert TIME.ratio() == pytest.approx(2.0)
    alone = NetworkTime(CASE, {"weft": result(1.0)})
    assert math.isnan(alone.ratio()) and math.isnan(alone.apart("weft"))


def test_losses_are_compared() -> None:
    assert TIME.apart("weft") == pytest.approx(0.1 / 3)
    assert TIME.apart("weft compile") == math.inf and TIME.wrong == ["weft compile"]
    exact = NetworkTime(replace(CASE, dtype="fp32"), TIME.results)
    assert exact.wrong == ["weft", "weft compile"]
    spread = {**TIME.results, "compile": result(1.0, 0.0, (4.0, 3.2))}
    assert NetworkTime(replace(CASE, dtype="fp32"), spread).wrong == ["weft compile"]
    assert not NetworkTimes(1, (TIME,)).right
    graph = NetworkTime(CASE, {"weft": replace(result(1.0, 1.0), graph_apart=0.1)})
    assert graph.wrong == ["weft"]
    failed = NetworkTimes(1, (NetworkTime(CASE, {"weft": StepTimes(failed="no kernel")}),))
    assert failed.failed == [(CASE, "weft", "no kernel")] and not failed.right


def test_a_record_is_read_back() -> None:
    kernels = (("gemm", 3, 40.5),)
    results = {"eager": replace(result(20.0, 16.0), kernels=kernels), "weft": result(10.0)}
    time = NetworkTime(CASE, results)
    again = NetworkTime.from_dict(json.loads(json.dumps({**time.to_dict(), **MACHINE})))
    assert again == time


def test_the_summary(capsys: pytest.CaptureFixture[str]) -> None:
    show.blocks(report.summary(NetworkTimes(3, (TIME,))))
    out = capsys.readouterr().out
    row = next(line for line in out.splitlines() if line.startswith(CASE.words)).split()
    assert row[-6:] == ["eager", "20.00", "16.00", "3.0", "2.0", "0.0e+00"]  # no second process
    assert "geometric mean" in out and "compile failed: OutOfMemoryError: much" in out
    assert "WRONG: the losses of weft compile differ by inf" in out
    assert "1 of 3 steps: 0 failed, 1 wrong" in out


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "benchmarks" / "records" / "networks.jsonl"
    path.parent.mkdir(parents=True)
    monkeypatch.setattr(step_tables, "RECORDS", path)
    return path


def test_without_a_record(record: Path) -> None:
    said = "There is no record yet: `weft bench networks --record benchmarks/records/networks"
    assert said in tables.TABLES["networks_ratios"]() and said in tables.TABLES["networks_steps"]()
    assert "No record has kernels yet" in tables.TABLES["networks_kernels"]()


def test_the_page_has_the_newest_steps(record: Path) -> None:
    old = {**NetworkTime(CASE, {"eager": result(99.0)}).to_dict(), **MACHINE}
    kernels = tuple((f"kernel{i}", 2, 1000.0) for i in range(10))
    named = "weft compile"
    results = {**TIME.results, named: replace(TIME.results[named], kernels=kernels)}
    new = {**NetworkTime(CASE, results).to_dict(), **MACHINE}
    bare = {**NetworkTime(CASE, TIME.results).to_dict(), **MACHINE}  # a later run without kernels
    record.write_text("".join(json.dumps(line) + "\n" for line in (old, new, bare)))
    page = tables.TABLES["networks_ratios"]()
    assert "NVIDIA H200, driver 1, torch 2.13. Above 1, weft is faster." in page
    assert f"| `{CASE.words}` | 2.00 x | 2.00 x | 2.00 x | 2026-01-02 |" in page
    steps = tables.TABLES["networks_steps"]()
    assert f"| `{CASE.words}` | eager | 20.00 | 16.00 | 3.0 | 2.0 |  | 0.0e+00 |" in steps
    assert "|  | compile | failed | failed |  |  |  |  |" in steps and "99.00" not in steps
    listed = tables.TABLES["networks_kernels"]()
    assert (
        f"| `{CASE.words}` | weft compile, 2026-01-02 | `kernel0` | 2 | 1.00 | ███ 10% |" in listed
    )
    assert "|  |  | others |  | 2.00 | ██████ 20% |" in listed


# ---- the command line --------------------------------------------------------------------------
@pytest.mark.sim
def test_tiny_networks_are_compared() -> None:
    words = ("--device", "sim", "--only", "gpt2 train fp32", "--losses", "2", "--json")
    done = invoke(*words, "--contenders", "eager,weft")
    assert done.exit_code == 0, done.output
    (row,) = json.loads(done.stdout)["networks"]  # of both sizes there is one tiny network
    assert row["words"] == "gpt2-tiny train fp32 batch=2"
    ours, theirs = (row["results"][name]["losses"] for name in ("weft", "eager"))
    assert ours == pytest.approx(theirs, rel=1e-4) and theirs[1] < theirs[0]


def test_steps_are_listed() -> None:
    assert json.loads(invoke("--list", "--only", "vit train bf16", "--json").stdout) == [
        "vit-b16 train bf16 batch=64"
    ]
    assert "2 steps" in invoke("--list", "--only", "gpt2 train bf16").output
    assert "no case of `weft bench networks`" in invoke("--list", "--only", "gpt9").stderr


@pytest.mark.sim
def test_without_a_gpu() -> None:
    done = invoke("--contenders", "eager")
    assert done.exit_code == 1 and "weft bench networks measures on a GPU" in done.stderr
    assert "`--device sim` compares the losses of tiny networks" in done.stderr


@pytest.mark.gpu
def test_on_a_gpu(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    words = ("--only", "gpt2-tiny train autocast", "--contenders", "eager,compile,weft")
    done = invoke(*words, "--rounds", "2", "--kernels", "--record", str(path))
    assert done.exit_code == 0, done.output
    (line,) = map(json.loads, path.read_text().splitlines())
    for name in ("eager", "compile", "weft"):
        found = line["results"][name]
        assert len(found["seconds"]) == len(found["graph"]) == 2, found
        assert found["memory"] and found["kernels"]


def test_failures_of_requests_are_reasons() -> None:
    one = worker.Worker(replace(TINY, network="gpt9"), "eager", "cpu")
    assert worker.answer(one, "prepare", (1,)) == (False, "ArgumentError: there is no such network")
