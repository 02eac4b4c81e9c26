"""`--device` of every verb, and the deprecated `--gpu`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from weft.cli import NAMES, app

SCRIPT = """\
import numpy as np, weft
k = weft.cuda("__global__ void scale(float* x) { x[threadIdx.x] *= 2; }").scale
k[1, 32](np.ones(32, np.float32))
"""
OP = """\
import weft
op = weft.Op("same", "x:f32[n] -> y:f32[n]", lambda x: x, [weft.Case(n=8)], bench=[weft.Case(n=9)])

@op.solution
def copied(x, y):
    y[...] = x
"""
WITH_DEVICE = [
    "bench", "bench models", "bench networks", "bench ops", "check", "climb", "debug", "explain",
    "extract", "generate", "learn", "profile", "ptx", "run", "trace values", "tune", "train",
    "train gpt",
]  # fmt: skip
WITH_GPU = ["bench", "climb", "profile", "run"]


@dataclass(frozen=True)
class Done:
    """The output of a command."""

    code: int
    stdout: str
    stderr: str


def weft(verb: str, *words: str) -> Done:
    if verb not in ("profile", "run"):
        result = CliRunner().invoke(app, [verb, *words])
        return Done(result.exit_code, result.stdout, result.stderr)
    # They put hooks into the process, for the libraries that a script imports.
    command = [sys.executable, "-m", "weft", verb, *words]
    done = subprocess.run(command, capture_output=True, text=True)
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("verb", NAMES)
def test_help_has_one_word_for_the_device(verb: str) -> None:
    said = CliRunner().invoke(app, [*verb.split(), "--help"], env={"COLUMNS": "200"}).output
    said = re.sub(r"\x1b\[[\d;]*m", "", said)
    assert ("--device" in said) == (verb in WITH_DEVICE)
    assert re.search(r"--gpu\b", said) is None  # an old word; --gpus is a number of GPUs


@pytest.mark.parametrize("verb", WITH_DEVICE)
def test_an_unknown_device_is_refused_by_all(verb: str, tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(OP)
    (tmp_path / "x.cu").write_text("__global__ void k() {}")
    ptx = str(tmp_path / "x.cu")
    subject = {
        "climb": "vecadd",
        "learn": "verify",
        "ptx": ptx,
        "tune": "softmax",
        "train": "mnist",
        "bench models": "",
        "bench networks": "",
        "bench ops": "",
        "train gpt": "",
    }
    more = {"tune": ["--list", "--shapes", "4x4"], "extract": ["layer"]}.get(verb, [])
    name = subject.get(verb, str(tmp_path / "x.py"))
    before = ["--kernel", "k", "--var", "v"] if verb == "trace values" else []
    words = [*verb.split(), *before, "--device", "sim:rtx307", *([name] if name else []), *more]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1 and "did you mean 'sim:rtx3070'?" in done.output


@pytest.mark.parametrize("device", [("--device", "sim:rtx3070"), ("--gpu", "rtx3070")])
def test_profile(device: tuple[str, str], tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text(SCRIPT)
    done = weft("profile", str(path), "--json", *device)
    (found,) = json.loads(done.stdout)["profiles"]
    assert found["gpu"] == "rtx3070"
    warned = "warning: --gpu is deprecated and will be removed in the next release; use"
    assert (f"{warned} --device sim:rtx3070" in done.stderr) == (device[0] == "--gpu")


@pytest.mark.parametrize("verb", WITH_GPU)
def test_the_deprecated_option_still_names_a_model(verb: str, tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text(SCRIPT if verb in ("profile", "run") else OP)
    words = {"climb": ["vecadd", "--to", "0"], "bench": [str(path), "--device", "sim"]}
    done = weft(verb, "--gpu", "t4", *words.get(verb, [str(path)]))
    assert done.code == 0, done.stderr
    assert "warning: --gpu is deprecated" in done.stderr and "--device sim:t4" in done.stderr
    assert verb == "run" or "T4" in done.stdout


def test_check_holds_launches_to_a_model(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    big = """\

BIG = weft.cuda("extern __shared__ float s[]; __global__ void big(float* x) { s[0] = x[0]; }").big

@op.solution
def large(x, y):
    y[...] = x
    BIG[1, 1, 150_000](y)
"""
    path.write_text(OP + big)
    assert CliRunner().invoke(app, ["check", str(path)]).exit_code == 0
    done = CliRunner().invoke(app, ["check", str(path), "--device", "sim:rtx3070"])
    assert done.exit_code == 1 and "shared memory" in done.output and "copied" in done.output
