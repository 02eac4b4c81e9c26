"""`weft completion`: bash completes the command line by the script; zsh and fish if installed."""

from __future__ import annotations

import json
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from weft.cli import NAMES, app
from weft.cli.completion import Shell, op_names, script

DRIVER = r"""
source "$1"
COMP_LINE=$2 COMP_POINT=${#2} COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
_weft
printf '%s\n' "${COMPREPLY[@]}"
"""


@cache
def text(shell: Shell) -> str:
    return script(shell)


@pytest.fixture
def complete(tmp_path: Path):
    file = tmp_path / "weft.bash"
    file.write_text(text(Shell.bash), encoding="utf-8")

    def run(line: str) -> list[str]:
        command = ["bash", "-c", DRIVER, "bash", str(file), line]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stderr == ""
        return done.stdout.split()

    return run


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("weft to", ["tour"]),
        ("weft-gpu to", ["tour"]),
        ("weft --v", ["--version"]),
        ("weft climb matm", ["matmul", "matmul_bf16"]),
        ("weft bench mod", ["models"]),
        ("weft bench models --max", ["--max-autotune"]),
        ("weft tune softm", ["softmax"]),
        ("weft climb matmul --rec", ["--record"]),
        ("weft climb matmul --device gp", ["gpu"]),
        ("weft climb matmul --device sim:h2", ["h200"]),  # bash replaces what follows the colon
        ("weft trace-values --va", ["--var"]),
        ("weft completion f", ["fish"]),
        ("weft run som", []),  # files, which bash adds
        ("weft devices --device sim", []),
        ("weft nonsense --x", []),
    ],
    ids=lambda value: value.replace(" ", "_") if isinstance(value, str) else "",
)
def test_bash_completes(complete, line: str, words: list[str]) -> None:
    found = complete(line)
    assert set(words) <= set(found) and bool(words) == bool(found)
    assert all(word.startswith(line.split()[-1].rpartition(":")[2]) for word in found)


def test_every_verb_is_completed(complete) -> None:
    firsts = set(complete("weft "))
    assert {name.split()[0] for name in NAMES} - {"trace", "bug"} <= firsts
    assert {"bug-report", "trace-values", "--version"} <= firsts


def test_ops_of_the_stubs_are_those_that_can_be_tuned() -> None:
    pytest.importorskip("torch")
    from weft.tasks import tune

    assert set(tune.names()) <= set(op_names())


def test_the_verb_prints_the_script() -> None:
    done = CliRunner().invoke(app, ["completion", "bash", "--json"])
    assert json.loads(done.stdout) == {"shell": "bash", "script": text(Shell.bash)}


def test_another_shell_is_refused() -> None:
    done = CliRunner().invoke(app, ["completion", "tcsh"])
    assert done.exit_code == 2 and "fish" in done.output


@pytest.mark.parametrize("shell", list(Shell))
def test_the_script_names_both_commands_and_the_words(shell: Shell) -> None:
    for word in ("weft-gpu", "tour", "matmul", "sim:h200", "softmax", "bug-report"):
        assert word in text(shell), word


@pytest.mark.parametrize("shell", list(Shell))
def test_the_shell_can_read_its_script(shell: Shell, tmp_path: Path) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    file = tmp_path / f"weft.{shell}"
    file.write_text(text(shell), encoding="utf-8")
    subprocess.run([program, "-n", str(file)], check=True)
