"""`weft bench ops` and the tables of its record: what can be held without a GPU."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner, Result

from folders import ROOT
from weft.cli import app, bench_ops
from weft.ops.sweep import compiled, gpu, host, run, whole
from weft.ops.sweep.case import arguments
from weft.ops.sweep.cases import CASES
from weft.pytest_plugin import no_gpu

sys.path.insert(0, str(ROOT / "scripts"))

import ops_tables
import tables

SMALL = whole.Settings(seed=3, count=3, most=200, device="cpu")
EAGER = functools.partial(torch.compile, backend="eager")


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["bench", "ops", *arguments])


def case(op: str) -> Any:
    (found,) = run.cases([op])
    return found


def clock(contenders: Sequence[Any]) -> list[float]:
    """Calls each once; weft takes 2 µs, the others 3 and 1."""
    for contender in contenders:
        contender()
    return [2e-6, 3e-6, 1e-6][: len(contenders)]


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "benchmarks" / "records" / "ops_sweep.jsonl"
    monkeypatch.setattr(ops_tables, "RECORDS", path)
    return path


MACHINE = {"date": "2026-01-02", "gpu": "NVIDIA H200", "driver": "1", "torch": "2.13",
           "python": "3.12"}  # fmt: skip


# ---- the sweep ---------------------------------------------------------------------------------
@pytest.mark.sim
def test_a_sweep_and_its_record(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "about", lambda: MACHINE)
    told: list[str] = []
    plain = whole.sweep(case("add"), SMALL, tell=told.append, clock=clock)
    assert plain.mean == pytest.approx(1.5) and not plain.wrong
    assert len(told) == 3 and all(text.startswith("add ") for text in told)
    compiler = compiled.Compiler(60, EAGER, least=0.0)
    both = whole.sweep(case("add"), SMALL, compiler, clock=clock)
    assert both.mean == pytest.approx(0.5) and compiler.spent > 0 and not compiler.failures
    assert [r.call for r in both.results] == [r.call for r in plain.results]
    times = host.times(["add"], "cpu", clock)
    whole.append(record, [plain], times)
    whole.append(record, [both], [])
    first, host_line, second = map(json.loads, record.read_text().splitlines())
    assert first["results"][0]["us"] == {"weft": 2, "torch": 3}
    assert second["results"][0]["us"] == {"weft": 2, "torch": 3, "compile": 1}
    assert [row["op"] for row in host_line["host"]] == ["add", "add"]
    text = tables.TABLES["ops"]()
    assert "| `add` | 3 | 0.50 x | 0.50 x | 3 |  | 2.0 | 3.0 |" in text
    assert "NVIDIA H200, torch 2.13, 2026-01-02, seed 3" in text


@pytest.mark.sim
def test_a_wrong_result_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = type(case("mul"))(**{**vars(case("mul")), "torch": lambda a, b: a * b + 1})
    found = whole.sweep(wrong, SMALL, clock=clock)
    assert len(found.wrong) == 3


def test_every_row_of_host_times_calls_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host.library, "call", lambda name: lambda *args: None)
    assert {row.op for row in host.times((), "cpu", clock)} == set(host.HOST)


# ---- torch.compile -----------------------------------------------------------------------------
def test_the_budget_ends_compiling() -> None:
    add = case("add")
    (call,) = whole.calls(add, whole.Settings(seed=1, count=1, most=50))
    made = arguments(add, call, "cpu")
    spent = compiled.Compiler(0.0, EAGER)
    assert spent(add, call, made) is None and not spent.failures
    assert compiled.Compiler(60.0, EAGER)(add, call, made) is not None


def test_a_peer_that_fails_is_reported() -> None:
    add = case("add")
    (call,) = whole.calls(add, whole.Settings(seed=1, count=1, most=50))

    def broken(function: Any, dynamic: bool) -> Any:
        def fails(*args: Any) -> Any:
            raise RuntimeError("no such lowering\nand more")

        return fails

    compiler = compiled.Compiler(60, broken, least=0.0)
    assert compiler(add, call, arguments(add, call, "cpu")) is None
    assert compiler.failures == [f"add {call}: RuntimeError: no such lowering"]


@pytest.mark.slow
@pytest.mark.parametrize(("budget", "least"), [(120, 2), (1e-3, 0)])
def test_compiling_ahead(budget: float, least: int) -> None:
    settings = whole.Settings(seed=1, count=2, most=50)
    told: list[int] = []
    calls = [("add", call) for call in whole.calls(case("add"), settings)]
    done = compiled.warm(calls, 2, budget, told.append, "cpu", EAGER)
    assert done >= least and told == list(range(1, done + 1))


# ---- the command line --------------------------------------------------------------------------
@pytest.mark.skipif(not no_gpu(), reason="there is a GPU")
def test_without_a_gpu() -> None:
    result = invoke()
    assert result.exit_code == 1
    assert "weft bench ops measures on a GPU, and there is none to use here" in result.stderr


def test_messages() -> None:
    assert "add, mul, fma" in invoke("--ops", "add,nope").stderr
    assert "the simulated GPU has none" in invoke("--device", "sim").stderr
    assert invoke("--count", "0").exit_code == 2


def test_the_summary(capsys: pytest.CaptureFixture[str]) -> None:
    results = tuple(
        run.Result("add", f"call {i}", "flat", 0.5, i != 2, {"weft": 2e-6, "torch": (i + 1) * 1e-6})
        for i in range(12)
    )
    one = whole.Swept("add", SMALL, results)
    bench_ops.summary([one], [host.HostTime("add", (64, 64), 3.14, 2.72)])
    out = capsys.readouterr().out
    assert "0.50 x  call 0" in out.replace("│", "") and "call 10" not in out
    assert "WRONG by 0.5 x the allowed error: call 2" in out and "3.1" in out


@pytest.mark.gpu
def test_on_a_gpu(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    result = invoke("--ops", "add", "--count", "2", "--most", "1000", "--record", str(path))
    assert result.exit_code == 0, result.output
    swept, times = map(json.loads, path.read_text().splitlines())
    assert set(swept["results"][0]["us"]) == {"weft", "torch", "compile"} and times["host"]


# ---- tables ------------------------------------------------------------------------------------
def line(op: str, seed: int, *ratios: float) -> str:
    results = [
        {"call": f"float32 {i}", "plan": "flat", "error": 0.1, "right": True,
         "us": {"weft": 10.0, "torch": 10.0 * r, **({"compile": 20.0 * r} if i else {})},
         "bytes": {"weft": 300, "torch": 200}}
        for i, r in enumerate(ratios)
    ]  # fmt: skip
    return json.dumps({"op": op, "seed": seed, "mean": 1.0, "results": results, **MACHINE})


def test_without_a_record(record: Path) -> None:
    said = "There is no record yet: `weft bench ops --record benchmarks/records/ops_sweep.jsonl`"
    assert said in tables.TABLES["ops"]() and said in tables.TABLES["ops_worst"]()


def test_the_newest_record_of_each_op_counts(record: Path) -> None:
    record.parent.mkdir(parents=True)
    times = [{"op": "sum", "shape": s, "weft_us": 4.0, "torch_us": 5.0} for s in ([64, 64], [1, 9])]
    host_line = json.dumps({"host": times, **MACHINE})
    many = [2.0, 0.5, *[1.0] * 12]
    record.write_text("\n".join([line("sum", 1, 9.0), host_line, line("add", 1, 4.0, 1.0),
                                 line("sum", 2, *many)]))  # fmt: skip
    summary = tables.TABLES["ops"]()
    assert "| `sum` | 14 | 1.00 x | 0.50 x | 1 | 1.50 x | 4.0 | 5.0 |" in summary
    assert (
        "| `add` | 2 | 2.00 x | 1.00 x | 0 | 1.50 x |  |  |" in summary and "seed 1, 2;" in summary
    )
    worst = tables.TABLES["ops_worst"]()
    of_sum = worst[worst.index("### sum") : worst.index("### add")]
    assert "| 0.50 x | float32 1 | flat | 10.0 | 5.0 | 10.0 |" in of_sum
    assert of_sum.count("| flat |") == 10 and "2.00 x" not in of_sum


def test_families_have_a_row_each(record: Path) -> None:
    record.parent.mkdir(parents=True)
    times = [{"op": "add", "shape": [64, 64], "weft_us": 4.0, "torch_us": 5.0}]
    lines = [line("add", 1, 2.0, 0.5), line("mul", 1, 1.0), json.dumps({"host": times, **MACHINE})]
    record.write_text("\n".join(lines))
    text = tables.TABLES["ops_families"]()
    assert "| `add`, `mul` | 3 | 1.00 x | 0.50 x | 1 | 4.0 | 5.0 |" in text
    assert "matmul" not in text


def test_every_op_is_listed() -> None:
    text = tables.TABLES["ops_list"]()
    assert "| `softmax(x, dim=-1)` |" in text and "| `matmul(a, b" in text
    assert all(f"| `{c.op}(" in text for c in CASES if c.weft is None)
