"""`weft bug-report`: it has the facts of a failure, and none of the user's secrets."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from folders import ROOT
from weft.cli import app
from weft.report.support.bug_report import markdown
from weft.tasks.support import bug_report

FAILS = """\
import numpy as np, weft
module = weft.cuda('''
__global__ void copy(const float* x, float* y, int n) {
    y[threadIdx.x] = x[threadIdx.x];
}
''')
module.copy[1, 32](np.full(31, 12345.5, np.float32), np.zeros((2, 16), np.float32), 987654)
"""
REJECTED = 'import weft\nweft.cuda("""\n__global__ void k(int* x) { x[0] = typo; }\n""")\n'
OTHER = "raise ValueError('password 987654')\n"
SECRETS = ("sesame", "12345", "987654", "somewhere/private")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with secrets in its path and in the environment."""
    folder = tmp_path / "somewhere" / "private"
    folder.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("API_TOKEN", "sesame")
    monkeypatch.setenv("WEFT_CACHE_DIR", str(folder / "cache"))
    monkeypatch.chdir(folder)
    return folder


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["bug-report", *words])


def test_a_failing_launch(home: Path) -> None:
    (home / "fails.py").write_text(FAILS)
    done = run("fails.py")
    assert done.exit_code == 0, done.output
    assert "IllegalAddress, 3 arguments, source of kernel.cu" in done.stdout
    assert "left out: values of arrays" in done.stdout
    assert "wrote weft-bug-report.md" in done.stdout
    text = (home / "weft-bug-report.md").read_text()
    for fact in (
        "| error | IllegalAddress: out-of-bounds read of 4 bytes in copy",
        "| where | kernel.cu:3 |",
        "| called from | fails.py:7 |",
        "| kernel | copy, grid (1, 1, 1), block (32, 1, 1) |",
        "| x | float32[31] |",
        "| y | float32[2, 16] |",
        "| n | int |",
        "y[threadIdx.x] = x[threadIdx.x];",
        "| WEFT_CACHE_DIR | ~/cache |",
    ):
        assert fact in text
    assert [word for word in SECRETS if word in text + done.stdout] == []


@pytest.mark.parametrize(
    ("script", "kind", "source"),
    [(REJECTED, "CompileError", "x[0] = typo"), (OTHER, "ValueError", "")],
    ids=["compiler", "python"],
)
def test_other_failures(home: Path, script: str, kind: str, source: str) -> None:
    (home / "fails.py").write_text(script)
    done = run("fails.py", "--json")
    failure = json.loads(done.stdout)["failure"]
    assert failure["kind"] == kind and source in "".join(failure["sources"].values())
    assert failure["arguments"] == [] and failure["kernel"] == ""
    assert [word for word in SECRETS if word in done.stdout] == []


def test_a_file_that_does_not_fail(home: Path) -> None:
    (home / "fine.py").write_text("print(1)\n")
    done = run("fine.py", "-o", "report.md")
    assert "fine.py ended without an error: no launch is in the report" in done.stdout
    assert "## Failure" not in (home / "report.md").read_text()


def test_without_a_file() -> None:
    report = bug_report.collect()
    assert report.failure is None and report.file == ""
    assert {"Python", "weft-gpu", "numpy"} <= report.versions.keys()
    assert {"operating system", "CPU"} <= report.machine.keys()
    assert "## Settings" in markdown(report)


def test_a_file_that_is_not_there(home: Path) -> None:
    done = run("gone.py")
    assert done.exit_code == 1 and "no such file" in done.stderr
    assert not (home / "weft-bug-report.md").exists()


def test_the_packages_are_those_that_weft_depends_on() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = [re.match(r"[\w-]+", one)[0] for one in project["dependencies"]]
    assert list(bug_report.PACKAGES) == needed


def test_a_file_that_ends_the_process(home: Path) -> None:
    (home / "ends.py").write_text("import os\nos._exit(3)\n")
    done = run("ends.py")
    assert done.exit_code == 1 and "got: exit code 3" in done.stderr
    assert "`weft run ends.py` shows its whole output" in done.stderr


def test_a_program_that_fails(home: Path) -> None:
    (home / "fails.cu").write_text("int main() { return 3; }  // no kernel\n")
    done = run("fails.cu", "--json")
    failure = json.loads(done.stdout)["failure"]
    assert (failure["kind"], failure["what"]) == ("exit code", "the program ended with 3")
    assert "return 3" in failure["sources"]["fails.cu"]
