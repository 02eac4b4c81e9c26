"""Random CUDA C++ on the simulator against the same program compiled by g++, bit for bit.

A failure prints the smallest program and the command that runs it again.
"""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from differential import report
from differential.batch import PACK, SHAPES
from differential.collectives import COLLECTIVES
from differential.execute import Finding, Pack, execute
from differential.generate import generate
from differential.minimise import candidates, minimise
from differential.nodes import Decl, Node, block, const
from differential.operations import OPS
from differential.run import Run
from limits import PROCESS_SECONDS

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
def test_random_programs(number: int, seed: str) -> None:
    """In a process of its own, which a crash ends and whose memory is given back."""
    run = Run(int(seed), PROGRAMS * number, PROGRAMS, smaller=2)
    run.until(math.inf, jobs=1)
    assert run.done == PROGRAMS
    said = [report.text(found) for found in run.findings.values()]
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
    said = report.text(report.record(finding, smallest))
    assert "planted = (u32)ON_DEVICE;" in said and "__global__" in said


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
    command = [sys.executable, str(Path(__file__).with_name("run.py")), "--seed", "3"]
    command += ["--programs", str(PACK), "--jobs", "1", "--json", str(tmp_path / "summary.json")]
    subprocess.run(command, check=True, capture_output=True, timeout=PROCESS_SECONDS)
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["programs"] == PACK and summary["findings"] == []
