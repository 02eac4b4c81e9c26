"""`weft bench`: files of solutions, ladders and records; timed where there is a GPU."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import weft
from small_ladder import GOOD, OP, timed
from weft.cli import app
from weft.climbing import benchmark, timing
from weft.device import models
from weft.device.selection import Selection
from weft.measure.bench.bench import _alarm, ceiling
from weft.pytest_plugin import no_gpu
from weft.report import climb_text
from weft.report.climb_page import page
from weft.values.timing import Timing

MINE = '''
import numpy as np
import weft
op = weft.Op("twice", "x:f32[n] -> y:f32[n]", lambda x: 2 * x, [weft.Case(n=128), weft.Case(n=100)],
             bench=[weft.Case(n=2**24)], bytes="8*n", flops="n", peers=["2 * x"])
kernel = weft.cuda("""
__global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
""").twice

@op.solution
def mine(x, y, n):
    kernel[weft.cdiv(n, 64), 64](x, y, n)

@op.solution(precision="tf32")
def sliced(x, y):
    with np.errstate(over="ignore"):
        y[...] = x + x
'''


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path / "mine.py"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["bench", *map(str, arguments)])


@pytest.mark.sim
def test_without_a_gpu_there_are_floors_and_counters(mine: Path) -> None:
    result = run(mine, "--device", "sim")
    assert result.exit_code == 0, result.output
    assert "n=16777216: at least 28 µs (memory)" in result.stdout and "✓ mine" in result.stdout
    (found,) = json.loads(run(mine, "--device", "sim", "--json").stdout)
    first, second = found["rungs"]
    assert first["facts"]["load sectors per request"] == 4 and second["facts"] == {}
    assert not first["times"] and found["floors"]


@pytest.mark.skipif(not no_gpu(), reason="there is a GPU")
def test_no_gpu_is_said(mine: Path) -> None:
    assert "There is no GPU, so nothing was timed" in run(mine, "--device", "auto").stdout
    assert "There is no GPU" not in run(mine, "--device", "sim").stdout
    refused = run(mine, "--device", "gpu")
    assert refused.exit_code == 1 and "there is no GPU to time on" in refused.output


@pytest.mark.sim
def test_wrong_and_raising_solutions(mine: Path) -> None:
    wrong = "\n@op.solution\ndef wrong(x, y):\n    y[...] = x\n"
    raises = "\n@op.solution\ndef raises(x):\n    raise OSError('no')\n"
    mine.write_text(MINE + wrong + raises)
    result = run(mine, "--device", "sim")
    assert result.exit_code == 1 and "✗ twice          2 of 4 right" in result.stdout
    line = len(mine.read_text().splitlines())
    assert "wrong: " in result.stdout and f"mine.py:{line}: OSError: no" in result.stdout


@pytest.mark.sim
def test_records_and_pages(mine: Path, tmp_path: Path) -> None:
    record, html = tmp_path / "r.jsonl", tmp_path / "p.html"
    shown = run(mine, "--device", "sim", "--record", record, "--html", html).stdout
    assert "at least 28 µs" in html.read_text()
    again = run(record).stdout
    assert again.strip() in shown, "a record is shown as the run was"
    record.write_text(record.read_text() + json.dumps(timed().to_dict()) + "\n")
    assert "--only NAME" in run(record, "--html", html).output
    assert run(record, "--only", "vecadd", "--html", html).exit_code == 0
    assert "weft <span>bench</span>" in html.read_text()
    assert "no such record" in run(record, "--only", "else").output


@pytest.mark.sim
def test_a_ladder_has_floors(tmp_path: Path) -> None:
    (tmp_path / "op.py").write_text(
        OP.replace('bytes="8*n"', 'bytes="8*n", bench=[weft.Case(n=2**24)]')
    )
    (tmp_path / "rung_00_naive.cu").write_text(GOOD)
    assert "at least 28 µs (memory)" in run(tmp_path, "--device", "sim").stdout
    assert "did you mean 'scan'?" in run("scam").output
    assert "allowed: naive" in run(tmp_path, "--only", "clever").output
    assert "1 of 1 rungs right" in run(tmp_path, "--only", "naive", "--device", "sim").stdout


@pytest.mark.parametrize(
    ("peer", "says"),
    [
        ("torch.mul(x, z)", "torch.mul(x, z) (what is z?)"),
        ("compile: torch.mul(x", "compile: torch.mul(x ('(' was never closed)"),
    ],
)
def test_peers_with_a_typo(mine: Path, peer: str, says: str) -> None:
    result = run(mine, "--device", "sim", "--peer", peer)
    assert says in result.output and result.exit_code == 1
    assert "allowed: torch, x;" in result.output


def test_a_peer_that_raises() -> None:
    torch = pytest.importorskip("torch")
    op = weft.Op("t", "x:f32[n] -> y:f32[n]", lambda x: x, [weft.Case(n=4)])
    with pytest.raises(weft.ArgumentError, match=r"torch\.sqare\(x\): AttributeError"):
        timing._peer("torch.sqare(x)", [{"x": torch.ones(4)}], torch, op)
    square = timing._peer("torch.square(x)", [{"x": 2 * torch.ones(4)}], torch, op)
    assert square(0).tolist() == [4.0] * 4


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\xff\x00\x93", "r.jsonl:1: this is no record of a climb"),
        (b'{"a": 1}', "r.jsonl:1: this is no record of a climb"),
        (b"", "got: an empty file"),
    ],
)
def test_files_that_are_no_records(tmp_path: Path, content: bytes, says: str) -> None:
    record = tmp_path / "r.jsonl"
    record.write_bytes(content)
    for verb in (["bench", str(record)], ["climb", "--from", str(record)]):
        result = CliRunner().invoke(app, verb)
        assert says in result.output and isinstance(result.exception, SystemExit)


def test_an_operation_without_sizes_to_time_on() -> None:
    op = weft.Op("t", "x:f32[n] -> y:f32[n]", lambda x: x, [weft.Case(n=4)])
    with pytest.raises(weft.ArgumentError, match="no sizes to time on"):
        benchmark.bench_file(op, {}, device=Selection(number=0, key="h200"), progress=print)


def test_what_is_said_of_odd_times() -> None:
    first, second = timed().rungs
    short = replace(first.times[0], notes=("shorter than its launch",), of_limit=1.5)
    odd = replace(
        timed(), rungs=(replace(first, times=(short,)), replace(second, precision="tf32"))
    )
    said = list(climb_text.notes(odd))
    assert said[0].endswith("n=9: shorter than its launch") and "150% of the limit" in said[1]
    assert "01 good (in tf32)" in page(None, odd) and "shorter than its launch" in page(None, odd)


def test_the_bars_of_times_without_a_limit() -> None:
    first, second = (replace(r, times=(replace(r.times[0], of_limit=0.0),)) for r in timed().rungs)
    found = replace(timed(), rungs=(first, second), peers={}, limits={})
    ((_, _, rows, *_),) = climb_text.summaries(found)
    assert rows[1][2:4] == [climb_text.bar(1), ""] and len(rows[0][2]) < len(rows[1][2])
    assert "width:98.04%" in page(None, found)


def test_faster_than_the_hardware_is_an_alarm() -> None:
    model = models.get("h200")
    fast = Timing("mine", 1e-3, 1e-3, 1e-3, 10, 0, "")
    floor, bound = ceiling(model, 0, 1e11, "f32")
    with pytest.raises(weft.CheckFailed, match="faster than the hardware can be"):
        _alarm(fast, floor, bound, model)
    _alarm(fast, *ceiling(model, 0, 1e11, "tf32"), model)


@pytest.mark.gpu
def test_on_a_gpu_everything_is_timed(mine: Path, tmp_path: Path) -> None:
    result = run(mine, "--json", "--peer", "torch.add(x, x)", "--record", tmp_path / "r.jsonl")
    (found,) = json.loads(result.stdout)
    assert found["device"] == "gpu:0" and set(found["peers"]) == {"2 * x", "torch.add(x, x)"}
    for rung in found["rungs"]:
        (t,) = rung["times"]
        assert t["low"] <= t["seconds"] <= t["high"] and 0.1 < t["of_limit"] < 1.1 and t["of_peer"]
    assert {"driver", "command", "torch", "weft"} <= set(found["machine"])
    assert "of the best peer" in run(tmp_path / "r.jsonl").stdout
