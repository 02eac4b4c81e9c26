"""Wrong types and odd values through the public functions and the command line: always weft.Error.

A Python exception from deep inside says nothing that a user can act on.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import weft
from weft.cli import NAMES, app

SOURCE = "__global__ void k(float* y, int n) { if (threadIdx.x < n) y[threadIdx.x] = 1; }"
MODULE: Any = weft.cuda(SOURCE)
K, Y = MODULE.k, np.zeros(8, np.float32)
SIGNATURE = "x:f32[n] -> y:f32[n]"
ODD: list[Any] = [
    None, -1, 2**64, 10**400, 1.5, float("nan"), float("inf"), "", "x", "\ud800", "\0", "a" * 9999,
    b"\xff", [], [None], {"a": 1}, (), (1, 2, 3, 4), object(), Y, np.array("x"), np.array([None]),
    np.zeros((0,)), np.zeros(3)[::2], 1j, Exception("x"), MODULE, K, K[1, 1], weft.Case(n=3),
    Path("/nonexistent"),
]  # fmt: skip


def op(**changed: Any) -> weft.Op:
    given = {"name": "a", "signature": SIGNATURE, "reference": lambda x: x}
    return weft.Op(**{**given, "cases": [weft.Case(n=4)], **changed})


OP = op()


def _under(schedule: Any) -> None:
    with weft.schedule(schedule):
        K[1, 1](Y, 0)


CALLS: dict[str, Callable[[Any], Any]] = {
    "cuda": lambda v: weft.cuda(v),
    "cuda name": lambda v: weft.cuda(SOURCE, name=v),
    "cuda device": lambda v: weft.cuda(SOURCE, device=v),
    "cuda arch": lambda v: weft.cuda(SOURCE, arch=v),
    "cuda options": lambda v: weft.cuda(SOURCE, options=v),
    "cuda include": lambda v: weft.cuda(SOURCE, include=v),
    "cuda defines": lambda v: weft.cuda(SOURCE, defines=v),
    "breakpoint": lambda v: weft.breakpoint(v).delete(),
    "breakpoint line": lambda v: weft.breakpoint(K, line=v).delete(),
    "breakpoint condition": lambda v: weft.breakpoint(K, condition=v).delete(),
    "breakpoint thread": lambda v: weft.breakpoint(K, thread=v).delete(),
    "breakpoint block": lambda v: weft.breakpoint(K, block=v).delete(),
    "load_ptx": lambda v: weft.load_ptx(v),
    "predict_parallel": lambda v: weft.predict_parallel(v),
    "predict_parallel layouts": lambda v: weft.predict_parallel(layouts=v, gpus=2),
    "predict_parallel gpus": lambda v: weft.predict_parallel(layouts="data", gpus=v),
    "predict_parallel link": lambda v: weft.predict_parallel(layouts="data", link=v),
    "predict_parallel between": lambda v: weft.predict_parallel(layouts="data", between=v),
    "predict_parallel node": lambda v: weft.predict_parallel(layouts="data", node=v),
    "predict_parallel time": lambda v: weft.predict_parallel(layouts="data", time=v),
    "predict_parallel batch": lambda v: weft.predict_parallel(layouts="data", batch=v),
    "predict_parallel dtype": lambda v: weft.predict_parallel(layouts="data", dtype=v),
    "predict_parallel bucket": lambda v: weft.predict_parallel(layouts="data", bucket=v),
    "load_ptx device": lambda v: weft.load_ptx(MODULE.ptx.text, device=v),
    "kernel": lambda v: weft.kernel(v),
    "texture": lambda v: weft.texture(v),
    "texture address": lambda v: weft.texture(Y, address=v),
    "texture filter": lambda v: weft.texture(Y, filter=v),
    "texture border": lambda v: weft.texture(Y, border=v),
    "texture channels": lambda v: weft.texture(Y, channels=v),
    "surface": lambda v: weft.surface(v),
    "tensor_map": lambda v: weft.tensor_map(v, box=(1,)),
    "tensor_map box": lambda v: weft.tensor_map(Y, box=v),
    "tensor_map swizzle": lambda v: weft.tensor_map(Y, box=(8,), swizzle=v),
    "tensor_map dtype": lambda v: weft.tensor_map(Y, box=(8,), dtype=v),
    "im2col_map": lambda v: weft.im2col_map(v, lower=(0,), upper=(0,), channels=1, pixels=1),
    "schedule": lambda v: _under(v),
    "a cluster": lambda v: K[1, 1, 0, None, v](Y, 0),
    "a kernel's name": lambda v: MODULE.kernel(v),
    "a variable's name": lambda v: MODULE.variable(v),
    "cdiv": lambda v: weft.cdiv(v, 2),
    "cdiv by": lambda v: weft.cdiv(2, 0 if v is None else v),
    "grid": lambda v: K[v, 1](Y, 0),
    "block": lambda v: K[1, v](Y, 0),
    "shared memory": lambda v: K[1, 1, v](Y, 0),
    "grid and block": lambda v: K[v](Y, 0),
    "an array": lambda v: K[1, 1](v, 0),
    "a number": lambda v: K[1, 1](Y, v),
    "bind": lambda v: K.bind(1, 1, v, 0),
    "check": lambda v: weft.check(v, lambda x, y: None),
    "check seed": lambda v: weft.check(OP, lambda x: x, seed=v),
    "check device": lambda v: weft.check(OP, lambda x: x, device=v),
    "bench": lambda v: weft.bench(v),
    "fuse": lambda v: weft.fuse(v),
    "graph": lambda v: weft.graph(v),
    "explain": lambda v: weft.explain(v),
    "profile": lambda v: weft.profile(v),
    "profile device": lambda v: weft.profile(K[1, 1], Y, 0, device=v),
    "profile gpu": lambda v: weft.profile(K[1, 1], Y, 0, gpu=v),
    "bench device": lambda v: weft.bench({"f": lambda: None}, device=v),
    "profile block": lambda v: weft.profile(K[1, 1], Y, 0, block=v),
    "Profile.load": lambda v: weft.Profile.load(v),
    "climb": lambda v: weft.climb(v),
    "climb to": lambda v: weft.climb("vecadd", to=v if isinstance(v, str) else "0"),
    "sanitizer empty": lambda v: weft.sanitizer.empty(v),
    "sanitizer empty dtype": lambda v: weft.sanitizer.empty(3, v),
    "sanitizer filled": lambda v: weft.sanitizer.filled(v),
    "Op name": lambda v: op(name=v),
    "Op signature": lambda v: op(signature=v),
    "Op reference": lambda v: op(reference=v),
    "Op cases": lambda v: op(cases=v),
    "Op size": lambda v: op(cases=[weft.Case(n=v)]),
    "Op bench": lambda v: op(bench=v),
    "Op target": lambda v: op(target=v),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", CALLS)
def test_a_wrong_argument_is_an_error_of_weft(call: str) -> None:
    for value in ODD:
        try:
            CALLS[call](value)
        except weft.Error as error:
            assert str(error)


@pytest.mark.parametrize("device", ["", "gup", "cuda:x"])
def test_an_unknown_device(device: str) -> None:
    with pytest.raises(weft.ArgumentError, match="no such device\\n  got: '"):
        weft.check(OP, lambda x: x, device=device)


def test_the_table_reaches_every_function() -> None:
    from_errors = {n for n in weft.__all__ if isinstance(getattr(weft, n), type)}
    named = {word for call in CALLS for word in call.split()[0].split(".")}
    # Of torch; take flags and a device.
    left_out = {
        "as_op", "distributed", "init", "llm", "nn", "ops", "optim", "quant", "sanitize", "sparse",
        "synchronize",
    }  # fmt: skip
    assert set(weft.__all__) - from_errors <= named | left_out


# ---- the command line ----------------------------------------------------------------------------
@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One of every kind of file that is no kernel."""
    monkeypatch.chdir(tmp_path)
    for suffix in (".cu", ".py", ".ptx", ".json", ""):
        (tmp_path / f"empty{suffix}").touch()
        (tmp_path / f"binary{suffix}").write_bytes(bytes(range(256)) * 4)
        (tmp_path / f"folder{suffix}").mkdir()
        (tmp_path / f"ünï \U0001f600{suffix}").write_text("int x = ;\n")
        (tmp_path / f"broken{suffix}").symlink_to("nowhere")
    (tmp_path / "surrogate.cu").write_bytes(b"__global__ void k() {} // \xed\xa0\x80\n")
    (tmp_path / "itself.cu").write_text('#include "itself.cu"\n')
    return tmp_path


NO_FILES = [
    "missing",
    "",
    ".",
    "/",
    "a" * 5000,
    "\ud800.cu",
    "a\nb.py",
    "/proc/self/mem",
    "--",
    "-",
]
RUNNING = ("profile", "predict", "debug", "explain")
DOES = {
    "train": ("--",),
    "train gpt": ("--",),
    "fuzz": ("--",),
    "lab export": ("missing", "a\nb.py", "-", "\ud800.cu"),
}
"""The action of a verb without a name, or with that of a new folder."""
FILE_VERBS = [name for name in NAMES if name not in ("run", "tour", "doctor")]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("verb", FILE_VERBS)
def test_files_that_a_verb_cannot_use(
    folder: Path, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if verb == "lab":  # it opens sources that do not compile, and would serve until Ctrl-C
        server = pytest.importorskip("weft.lab.server")
        monkeypatch.setattr(server, "serve", lambda api, *_: api.worker.close())
        monkeypatch.setattr("webbrowser.open", lambda url: True)
    # Others start a process, or put the hooks of a script into this one.
    taken = (".json", ".ptx", "") if verb in RUNNING else {"check": (".py",)}.get(verb)
    files = [p.name for p in folder.iterdir() if taken is None or p.suffix in taken]
    if verb == "lab export":  # it takes empty folders, and links to nowhere as new ones
        files = [name for name in files if not name.startswith(("broken", "folder"))]
    others = NO_FILES[:3] if verb == "check" else NO_FILES
    others = [name for name in others if name not in DOES.get(verb, ())]
    for name in (*files, *others):
        done = CliRunner().invoke(app, [verb, name])
        assert done.exception is None or isinstance(done.exception, SystemExit), (verb, name)
        assert "Traceback" not in done.output, (verb, name)


OPTIONS = ["--gpu", "--device", "--kernel", "--launch", "--seed", "--to", "--from", "--record"]


@pytest.mark.parametrize("verb", ["bench", "climb", "isa", "ptx", "devices", "cache"])
def test_options_that_a_verb_cannot_use(folder: Path, verb: str) -> None:
    for option in OPTIONS:
        for value in ("-1", "9" * 400, "", "\ud800"):
            done = CliRunner().invoke(app, [verb, "empty.cu", option, value])
            assert done.exception is None or isinstance(done.exception, SystemExit), option


def weft_command(*args: str, shell: str = "") -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "weft", *args]
    command = ["sh", "-c", f'"$@" {shell}', "sh", *words] if shell else words
    return subprocess.run(command, capture_output=True, text=True, env=os.environ)


@pytest.mark.parametrize("shell", ["| head -1", ">&-", ">/dev/full", ">&- 2>&-"])
def test_output_that_goes_nowhere(shell: str) -> None:
    done = weft_command("isa", shell=shell)
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr
    if "full" in shell:
        assert "the output cannot be written\n  got: No space left on device" in done.stderr
