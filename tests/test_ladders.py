"""Ladders: every rung is right and does what its header says; ladders of one's own; bad ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import weft
from weft.cli import app
from weft.ops import counters, ladder, rung
from weft.ops.climb import climb

SLOW = {"softmax", "softmax_bf16", "argmax", "matmul", "scan", "reduce_max"}
"""Ladders whose kernels take long to compile for the simulator: behind the marker."""
NAMES = [
    pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else [], id=name)
    for name in ladder.names()
]

OP = """
import weft
op = weft.Op("twice", "x:f32[n] -> y:f32[n]", lambda x: 2 * x, [weft.Case(n=128), weft.Case(n=100)],
             bytes="8*n", flops="n")
"""
GOOD = """// rung: 00 naive
// idea: a thread for each element
// expect: load sectors per request <= 4
// launch: twice<<<cdiv(n, 64), 64>>>
__global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    (tmp_path / "op.py").write_text(OP)
    (tmp_path / "rung_00_naive.cu").write_text(GOOD)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["climb", *arguments])


@pytest.mark.parametrize("name", NAMES)
def test_every_rung_is_right_and_does_what_it_says(name: str) -> None:
    for reached in climb(ladder.find(name)).rungs:
        assert reached.right, f"{reached.number:02} {reached.name}: {reached.error}"


def test_rungs_are_numbered_and_say_their_idea() -> None:
    for name in ladder.names():
        found = ladder.find(name)
        assert [r.number for r in found.rungs] == list(range(len(found.rungs))), name
        assert any(r.language == "Triton" for r in found.rungs) or len(found.rungs) == 3, name


def test_a_folder_of_ones_own(own: Path) -> None:
    result = run(str(own), "--json")
    assert result.exit_code == 0, result.output
    (reached,) = json.loads(result.stdout)["rungs"]
    assert reached["right"] and reached["facts"]["load sectors per request"] == 4


def test_a_wrong_rung_fails_the_climb(own: Path) -> None:
    (own / "rung_01_wrong.cu").write_text(GOOD.replace("2 * x", "3 * x").replace("00", "01"))
    result = run(str(own))
    assert result.exit_code == 1 and "missing factor: every element is 1.5 times" in result.stdout


def test_a_rung_that_raises_fails_alone(own: Path) -> None:
    text = (
        '"""\nrung: 01 broken\nidea: it raises\n"""\n\ndef run(x, y, n):\n    raise OSError("no")\n'
    )
    (own / "rung_01_broken.py").write_text(text)
    result = run(str(own))
    assert result.exit_code == 1
    assert "✓ right" in result.stdout and "✗ OSError: no" in result.stdout


def test_a_rung_that_does_not_do_what_it_says(own: Path) -> None:
    (own / "rung_00_naive.cu").write_text(GOOD.replace("<= 4", "= 1"))
    assert "load sectors per request 4" in run(str(own)).stdout


def test_to_stops_at_a_rung(own: Path) -> None:
    (own / "rung_01_again.cu").write_text(GOOD)
    assert len(json.loads(run(str(own), "--to", "0", "--json").stdout)["rungs"]) == 1


def test_a_record_is_appended(own: Path, tmp_path: Path) -> None:
    record = tmp_path / "records.jsonl"
    run(str(own), "--record", str(record))
    run(str(own), "--record", str(record))
    assert [json.loads(line)["ladder"] for line in record.read_text().splitlines()] == ["twice"] * 2


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("// idea: a thread for each element\n", ""), "says its idea"),
        (("// launch: twice<<<cdiv(n, 64), 64>>>\n", ""), "says how it is launched"),
        (("<<<cdiv(n, 64), 64>>>", "[1, 64]"), "a launch cannot be read"),
        (("load sectors per request <= 4", "bank sectors"), "an expectation cannot be read"),
    ],
)
def test_bad_headers(own: Path, change: tuple[str, str], says: str) -> None:
    (own / "rung_00_naive.cu").write_text(GOOD.replace(*change))
    assert says in run(str(own)).output


def test_names_with_a_typo() -> None:
    assert "did you mean 'transpose'?" in run("transpos").output
    with pytest.raises(weft.ArgumentError, match="not the name of a rung"):
        rung.read(Path("rung_one.cu"))


def test_expectations_compare() -> None:
    counters.verify("here", ["instructions < 5", "instructions = 4"], {"instructions": 4.0})
    with pytest.raises(weft.CheckFailed, match="instructions 4"):
        counters.verify("here", ["instructions >= 5"], {"instructions": 4.0})


def test_the_list() -> None:
    listed = run().stdout
    for name in ladder.names():
        assert name in listed


def test_a_new_operation_can_be_climbed(tmp_path: Path) -> None:
    made = CliRunner().invoke(app, ["new", "op", "mine", "--in", str(tmp_path), "--json"])
    folder = Path(json.loads(made.stdout)["folder"])
    assert sorted(p.name for p in folder.iterdir())[0] == "op.py"
    result = run(str(folder), "--to", "0")
    assert result.exit_code == 0 and "✓ right" in result.stdout, result.output
    again = CliRunner().invoke(app, ["new", "op", "mine", "--in", str(tmp_path)])
    assert again.exit_code == 1 and "already" in again.output
    odd = CliRunner().invoke(app, ["new", "op", "my op", "--in", str(tmp_path)])
    assert "a C++ and Python name" in odd.output
