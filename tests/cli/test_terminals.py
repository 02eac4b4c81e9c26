"""Output where a terminal is poor or the disk is full, and lines while something compiles."""

from __future__ import annotations

import os
import pty
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import weft
from limits import PROCESS_SECONDS
from weft import progress

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(weft.__file__).parents[1]), "NO_COLOR": "1"}
ASCII = {**ENVIRONMENT, "LANG": "C", "PYTHONIOENCODING": "ascii"}


def python(*arguments: str, **how: object) -> subprocess.CompletedProcess[str]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": ENVIRONMENT}
    command = [sys.executable, *arguments]
    return subprocess.run(command, text=True, timeout=PROCESS_SECONDS, **{**pipes, **how})  # type: ignore[call-overload, no-any-return]


# ---- characters -----------------------------------------------------------------------------
NEAR = """
from weft.cli import ascii, show
from weft.report.words import precise
ascii.settle("stdout", "stderr")
show.line(f"{precise(5e-6)} … → ± ✓ ✗ ä")
show.data({"unit": "µs"})
"""


def test_characters_that_a_terminal_lacks_have_near_ones() -> None:
    done = python("-c", NEAR, env=ASCII)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == '5 us ... -> +- ok x ?\n{\n  "unit": "\\u00b5s"\n}\n'


@pytest.mark.parametrize("verb", [["devices"], ["isa", "mad"], ["doctor"], ["climb"], []])
def test_verbs_print_to_ascii_terminals(verb: list[str]) -> None:
    done = python("-m", "weft", *verb, env=ASCII)
    assert "Traceback" not in done.stderr and "Error" not in done.stderr
    assert done.stdout.isascii() and done.stdout


def test_a_script_prints_as_under_plain_python(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("print('µ')")
    done = python("-m", "weft", "run", "script.py", cwd=tmp_path, env=ASCII)
    assert done.returncode == 1 and "UnicodeEncodeError" in done.stderr


# ---- disks ----------------------------------------------------------------------------------
@pytest.mark.parametrize("verb", [["--help"], ["devices"], ["isa", "--json"], ["--version"]])
def test_output_to_a_full_disk(verb: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = python("-m", "weft", *verb, stdout=full)
    assert done.returncode == 1
    assert done.stderr == "error: the output cannot be written\n  got: No space left on device\n"


KERNEL = """
import numpy as np, weft
k = weft.cuda("__global__ void k(int *x) { x[threadIdx.x] = 7; }").k
x = np.zeros(32, np.int32)
for block in (32, 16):
    k[1, block](x)
print(x.sum())
"""


def _small_files() -> None:
    """No file may have more bytes: what is written behind fails as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))


def test_a_cache_on_a_full_disk_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(KERNEL)
    environment = {**ENVIRONMENT, "WEFT_CACHE_DIR": str(tmp_path / "cache")}
    done = python(
        "-B", "-m", "weft", "run", "script.py",
        cwd=tmp_path, env=environment, preexec_fn=_small_files,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "224\n"), done.stderr
    assert done.stderr.count("every run compiles again") == 1
    assert "warning: weft keeps no compiled code in" in done.stderr
    assert "Traceback" not in done.stderr


# ---- progress -------------------------------------------------------------------------------
COMPILES = """
import sys, threading
from weft import progress
progress.enabled, progress.AFTER = sys.argv[1] == "on", 0
with getattr(progress, sys.argv[2])("k"):
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.join()
"""


@pytest.mark.parametrize(
    ("switch", "what", "terminal", "said"),
    [
        ("on", "compiling", True, "weft: compiling k\r\n"),
        ("on", "compiling", False, ""),
        ("off", "compiling", True, ""),
        ("on", "building", True, "weft: compiling k\r\n"),
        ("on", "building", False, "weft: compiling k (first run)\n"),
        ("off", "building", False, ""),
    ],
)
def test_a_line_while_it_compiles(switch: str, what: str, terminal: bool, said: str) -> None:
    ours, theirs = pty.openpty() if terminal else os.pipe()
    try:
        assert python("-c", COMPILES, switch, what, stderr=theirs).returncode == 0
        os.write(theirs, b".")  # the end
        shown = b""
        while not shown.endswith(b"."):  # a terminal gives it in pieces
            shown += os.read(ours, 1000)
        assert shown.decode() == f"{said}."
    finally:
        os.close(ours)
        os.close(theirs)


def test_weft_run_says_what_it_compiles(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("from weft import progress; print(progress.enabled)")
    assert python("-m", "weft", "run", "script.py", cwd=tmp_path).stdout == "True\n"
    assert not progress.enabled, "a program that imports weft is left alone"
