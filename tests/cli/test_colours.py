"""NO_COLOR and FORCE_COLOR: on a terminal, in a pipe, for results, sources, errors and help."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

import weft
from limits import PROCESS_SECONDS

COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3[0-8]|4[0-8]|9[0-7])[;m]")
CLEAN = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
ENVIRONMENT = {**CLEAN, "PYTHONPATH": str(Path(weft.__file__).parents[1]), "TERM": "xterm-256color"}
CALLS = [
    pytest.param(["ptx", "k.cu"], id="source"),
    pytest.param(["isa", "add.s99"], id="error"),
    pytest.param(["isa", "--help"], id="help"),
]


def said(folder: Path, words: list[str], *, terminal: bool, **variables: str) -> str:
    """The output of a command, of both streams."""
    (folder / "k.cu").write_text("__global__ void k(int* x) { x[0] = 1; }\n", encoding="utf-8")
    ours, theirs = pty.openpty() if terminal else os.pipe()
    command = [sys.executable, "-m", "weft", *words]
    process = subprocess.Popen(
        command, stdout=theirs, stderr=theirs, cwd=folder, env={**ENVIRONMENT, **variables}
    )
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 65536):
            shown += part
    except OSError:
        assert terminal  # a terminal whose other end is closed has no end of file
    process.wait(PROCESS_SECONDS)
    os.close(ours)
    return shown.decode()


@pytest.mark.parametrize("words", CALLS)
def test_no_color_on_a_terminal(words: list[str], tmp_path: Path) -> None:
    text = said(tmp_path, words, terminal=True, NO_COLOR="1")
    assert text.strip() and not COLOUR.search(text)


@pytest.mark.parametrize("words", CALLS)
def test_force_color_in_a_pipe(words: list[str], tmp_path: Path) -> None:
    assert COLOUR.search(said(tmp_path, words, terminal=False, FORCE_COLOR="1"))


def test_without_them_the_terminal_decides(tmp_path: Path) -> None:
    assert COLOUR.search(said(tmp_path, ["ptx", "k.cu"], terminal=True))
    assert "\x1b[" not in said(tmp_path, ["ptx", "k.cu"], terminal=False)


def test_json_has_no_colours(tmp_path: Path) -> None:
    assert "\x1b[" not in said(tmp_path, ["isa", "mad", "--json"], terminal=True, FORCE_COLOR="1")
