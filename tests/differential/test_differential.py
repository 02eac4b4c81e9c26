"""Random CUDA C++ on the simulator against the same program compiled by g++, bit for bit.

A failure prints the smallest program and the command that runs it again.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from limits import PROCESS_SECONDS
from weft.cli import app
from weft.fuzz import findings
from weft.fuzz.batch import PACK, SHAPES
from weft.fuzz.collectives import COLLECTIVES
from weft.fuzz.execute import Finding, Pack, execute
from weft.fuzz.generate import generate
from weft.fuzz.minimise import candidates, minimise
from weft.fuzz.nodes import Decl, Node, block, const
from weft.fuzz.operations import OPS
from weft.tasks.cluster.fuzz import FuzzOptions, fuzz, written

pytestmark = [
    pytest.mark.sim,
    pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is needed"),
]
DEFAULT, SLOW, PROGRAMS = 2, 380, 12
"""Cases of a default run and of all, and the programs of each."""


@pytest.mark.draws
@pytest.mark.parametrize(
    "number",
    [*range(DEFAULT), *(pytest.param(i, marks=pytest.mark.slow) for i in range(DEFAULT, SLOW))],
)
def test_random_programs(number: int, seed: str, tmp_path: Path) -> None:
    """In a process of its own, which a crash ends and whose memory is given back."""
    options = FuzzOptions(PROGRAMS, int(seed), PROGRAMS * number, minimise=2, workers=1)
    fuzzed = fuzz(
        replace(options, out=tmp_path), lambda total, name: nullcontext(lambda what: None)
    )
    assert fuzzed.programs == PROGRAMS
    said = [findings.text(found) for found in fuzzed.findings]
    assert not said, f"{len(said)} of {PROGRAMS} programs\n" + "\n".join(said)


def test_the_generator_uses_every_row() -> None:
    programs = [generate(f"rows:{i}", SHAPES[i % len(SHAPES)]) for i in range(1500)]
    nodes = [n for p in programs for tree in p.roots().values() for _, n in tree.walk()]
    unused = {name for name, _ in OPS} - {node.op for node in nodes}
    unused |= set(COLLECTIVES) - {n.value[0] for n in nodes if n.op == "collective"}
    assert not unused
    kinds = {f.kind for p in programs for f in p.functions}
    assert kinds == {"plain", "noinline", "template", "recursive", "table"}


def _planted() -> Finding:
    """A random program with a loop in it that the two compilers do not agree about."""
    program = generate("0:15", (33, 1))
    differs = Node("special", "u32", value="(u32)ON_DEVICE")
    sums = Node("add", "u32", (differs, Node("special", "u32", value="LANE")))
    assign = Node("assign", kids=(Node("mul", "u32", (sums, const("u32", 3))),), value="planted")
    loop = Node("for", kids=(const("u32", 7), block(assign)), value=("turns", 7))
    decls = (Decl("planted", "u32", const("u32", 0)), Decl("turns", "i32", const("i32", 0)))
    body = block(program.body.kids[0], loop)
    program = replace(program, decls=program.decls + decls, body=body)
    (finding,) = execute([Pack("planted", (program,))])
    return finding


def test_a_difference_is_found_and_cut_down() -> None:
    finding = _planted()
    assert finding.kind == "bits" and "planted differs in 33 of 33 threads" in finding.text
    smallest = minimise(finding)
    assert smallest.program.size <= 5 < finding.program.size
    said = findings.text(findings.record(finding, smallest))
    assert "planted = (u32)ON_DEVICE;" in said and "__global__" in said


def test_a_finding_is_written_to_a_folder(tmp_path: Path) -> None:
    finding = _planted()
    record = findings.record(finding, finding)
    folder = written(tmp_path, record)
    assert folder == tmp_path / "seed-0-program-15"
    again = "weft fuzz --seed 0 --first 15 --programs 1"
    assert (folder / "finding.txt").read_text("utf-8").endswith(f"\n{again}\n")
    assert json.loads((folder / "finding.json").read_text("utf-8")) == record
    assert "__global__" in (folder / "program.cu").read_text("utf-8")
    assert "__global__" not in (folder / "program.cpp").read_text("utf-8")
    crash = written(tmp_path, findings.crash(7, 48, 12))
    assert [file.name for file in sorted(crash.iterdir())] == ["finding.json", "finding.txt"]
    said = (crash / "finding.txt").read_text("utf-8")
    assert "programs 48 to 59" in said and "--seed 7 --first 48 --programs 12" in said


def test_the_host_keeps_the_sign_of_zero() -> None:
    """0.0 - x is not -x: both sides have 0.0 in lane 0."""
    lane = Node("from_u32", "f64", (Node("special", "u32", value="LANE"),))
    difference = Decl("difference", "f64", Node("fsub", "f64", (const("f64", 0.0), lane)))
    program = generate("0:8", (32, 1))
    program = replace(program, decls=(*program.decls, difference))
    assert not execute([Pack("zero", (program,))])


def test_smaller_programs_are_programs(seed: str) -> None:
    """The minimiser's candidates must be free of undefined behaviour, or it would find that."""
    program = generate(f"{seed}:1", (64, 1))
    smaller = [p for _, p in zip(range(48), candidates(program), strict=False)][::4]
    packs = [Pack(f"{i}", tuple(smaller[i : i + PACK])) for i in range(0, len(smaller), PACK)]
    assert not execute([pack for pack in packs if len({p.shape for p in pack.programs}) == 1])


def test_the_command(tmp_path: Path) -> None:
    words = ["--seed", "3", "--first", "5", "--programs", "2", "--workers", "1", "--json"]
    result = CliRunner().invoke(app, ["fuzz", *words, "--out", str(tmp_path / "found")])
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert summary["programs"] == summary["wanted"] == PACK and summary["findings"] == []
    assert summary["seed"] == 3 and not summary["interrupted"]
    assert not (tmp_path / "found").exists()


def test_no_program_is_begun_after_the_limit() -> None:
    result = CliRunner().invoke(app, ["fuzz", "--minutes", "0", "--workers", "1"])
    assert result.exit_code == 0, result.output
    assert "0 of 480 programs of seed" in result.stdout and "no difference" in result.stdout


def test_without_a_host_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    result = CliRunner().invoke(app, ["fuzz"])
    assert result.exit_code == 1 and "weft fuzz needs g++" in result.stderr


def test_ctrl_c_ends_with_a_summary(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "weft", "fuzz", "--programs", "4000", "--workers", "1"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as run:
        end = time.monotonic() + PROCESS_SECONDS
        while not list(tmp_path.glob("weft-fuzz-*/*")) and time.monotonic() < end:
            time.sleep(0.05)  # until a worker has made the folder of its first programs
        run.send_signal(signal.SIGINT)
        said, _ = run.communicate(timeout=PROCESS_SECONDS)
    assert run.returncode == 130
    assert "interrupted after 0 of 4000 programs" in said
    assert not list(tmp_path.iterdir())
