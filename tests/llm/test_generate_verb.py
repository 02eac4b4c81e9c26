"""`weft generate`: what it prints, its JSON, Ctrl-C, refusals; and the benchmark's check."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

torch = pytest.importorskip("torch")

import plain_decoder as plain  # noqa: E402
from limits import PROCESS_SECONDS  # noqa: E402
from weft.cli import app  # noqa: E402
from weft.cli.verbs.generate import _say  # noqa: E402
from weft.llm.generator import Generator  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


def weft(*words: str) -> Any:
    return CliRunner().invoke(app, ["generate", *words, "--device", "sim"])


def test_the_demo() -> None:
    """The text is what its tokens say, and a seed repeats it."""
    words = ("--demo", "--prompt", "ab", "--tokens", "4", "--seed", "3", "--top-k", "40")
    found = json.loads(weft(*words, "--json").output)
    assert found["prompt"] == [97, 98] and len(found["tokens"]) == 4 and found["rate"] is None
    assert found["text"] == bytes(found["tokens"]).decode(errors="replace")
    assert json.loads(weft(*words, "--batch-invariant", "--json").output) == found
    said = weft(*words).output
    assert said.endswith("\n4 tokens on the simulated GPU\n")


def test_token_ids(tmp_path: Path) -> None:
    """Tokens of a model without text are printed as numbers; greedy ones are PyTorch's."""
    stored = plain.weights(plain.LLAMA)
    plain.write(tmp_path, plain.LLAMA, stored)
    want, _ = plain.greedy(plain.LLAMA, stored, [3, 1, 4], 3)
    done = weft(str(tmp_path), "--ids", "3,1,4", "--tokens", "3", "--temperature", "0")
    assert done.output.splitlines()[0].split() == [str(t) for t in want]


def test_ctrl_c(monkeypatch: Any) -> None:
    """The text so far stays, and the exit code is that of an interrupt."""

    def stream(self: Any, *args: Any) -> Any:
        yield [104]
        yield [105]
        raise KeyboardInterrupt

    monkeypatch.setattr(Generator, "stream", stream)
    done = weft("--demo")
    assert (done.exit_code, done.output) == (130, "hi\nstopped after 2 tokens\n")


def test_control_characters_are_not_printed(capsys: Any) -> None:
    """A model may generate the codes by which programs control a terminal."""
    _say("a\x1b[2Jb\tc\n")
    assert capsys.readouterr().out == "a\ufffd[2Jb\tc\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "needs the folder of a model, or --demo alone"),
        (("--demo", "."), "weft generate --demo --prompt TEXT"),
        (("none", "--prompt", "x"), "there is no such folder"),
        (("--demo", "--ids", "1,x"), "numbers with commas"),
        (("--demo", "--dtype", "int8"), "there is no such dtype"),
        (("--demo", "--top-p", "2"), "top_p is out of range"),
        (("--demo", "--tokens", "300"), "longer than the cache"),
        (("--demo", "--cache", "paged"), "takes float16 and bfloat16"),
    ],
)
def test_refused(words: tuple[str, ...], message: str) -> None:
    done = weft(*words)
    assert done.exit_code == 1 and message in done.output


def test_no_prompt(tmp_path: Path) -> None:
    plain.write(tmp_path, plain.LLAMA, plain.weights(plain.LLAMA))
    assert "needs a prompt" in weft(str(tmp_path)).output


@pytest.mark.sim
def test_the_benchmark_checks_a_small_model() -> None:
    """Both models choose the same tokens, or such as lead by roundings alone."""
    command = [sys.executable, "benchmarks/decoding.py", "--tiny"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=PROCESS_SECONDS
    )
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout)
    assert row["batch"] == 2 and row["largest lead over weft's"] < 0.02
