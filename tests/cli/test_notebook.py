"""Notebooks: `%%cuda` in a real IPython shell, and what reports look like there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import weft
from weft.climbing import ladder
from weft.climbing.records import Climb
from weft.measure.bench.bench import Bench
from weft.values.climb import RungResult
from weft.values.timing import Timing

pytestmark = pytest.mark.sim
interactive = pytest.importorskip("IPython.core.interactiveshell")

SCALE = (
    "__global__ void scale(float* x, int n) {\n    if (threadIdx.x < n) x[threadIdx.x] *= BY;\n}"
)


@pytest.fixture
def shell() -> Iterator[Any]:
    made = interactive.InteractiveShell()
    made.history_manager.enabled = False
    made.run_line_magic("load_ext", "weft")
    yield made
    made.history_manager.end_session()


def run(shell: Any, text: str) -> Any:
    return shell.run_cell(text, store_history=False)


def test_a_cell_becomes_kernels(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(shell, f"%%cuda --name m -D BY=3\n{SCALE}").success
    assert "scale(float* x, int n)" in capsys.readouterr().out
    assert isinstance(shell.user_ns["m"], weft.Module)
    assert shell.user_ns["scale"] is shell.user_ns["m"].scale
    shell.user_ns["x"] = x = np.ones(8, np.float32)
    assert run(shell, "scale[1, 8](x, 8)").success and (x == 3).all()


@pytest.mark.parametrize(
    ("cell", "said", "hidden"),
    [
        ("%%cuda\n" + SCALE, 'cell_1.cu:3: identifier "BY" is undefined', "run_cell_magic"),
        ("%%cuda --nmae m\n" + SCALE, "unrecognized arguments: --nmae m", "SystemExit"),
        ("%%cuda -D 'X\n" + SCALE, "%%cuda cannot read its line", "shlex"),
        ("%%cuda --name 3\n" + SCALE, "--name must be a Python identifier", "run_cell_magic"),
        ("%%cuda\ntemplate <class T> __global__ void f(T* x) {}", "%%cuda --name m", "_bind"),
        ("%%cuda\n__device__ int f() { return 1; }", "no __global__ function", "_bind"),
    ],
    ids=["source", "option", "quote", "name", "template", "no kernel"],
)
def test_errors_show_nothing_of_weft(
    shell: Any, capsys: pytest.CaptureFixture[str], cell: str, said: str, hidden: str
) -> None:
    assert not run(shell, cell).success
    shown = "".join(capsys.readouterr())
    assert said in shown and hidden not in shown and "src/weft" not in shown
    assert "Traceback" not in shown


def test_a_launch_shows_the_users_line_alone(
    shell: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    run(shell, f"%%cuda -D BY=3\n{SCALE}")
    shell.user_ns["x"] = np.ones(4, np.float32)
    capsys.readouterr()
    assert not run(shell, "n = 8\nscale[1, 8](x, n)").success
    shown = "".join(capsys.readouterr())
    assert "scale[1, 8](x, n)" in shown and "x[4] of 4 float32" in shown
    assert "weft.IllegalAddress: cell_1.cu:3" in shown and "launch.py" not in shown
    assert not run(shell, "m = scale.missing").success


def test_a_kernel_that_is_not_there_has_a_public_name(
    shell: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    run(shell, f"%%cuda --name m -D BY=3\n{SCALE}")
    assert not run(shell, "m.scael").success
    assert "weft.LaunchError: no kernel 'scael'" in "".join(capsys.readouterr())


def test_warnings_are_shown_below_the_cell(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(shell, "%%cuda\n__global__ void k(int* x) { int spare; x[0] = 1; }").success
    assert capsys.readouterr().err.startswith('warning: cell_1.cu:2: variable "spare"')


# ---- reports ---------------------------------------------------------------------------------
def test_reports_have_html() -> None:
    kernel = weft.cuda("__global__ void k(float* y) { y[threadIdx.x / 2] = threadIdx.x; }").k
    y = np.zeros(16, np.float32)
    with weft.sanitize(raises=False) as report:
        kernel[1, 32](y)
    assert "✗" in report._repr_html_() and "<pre>kernel.cu:1" in report._repr_html_()
    twice = weft.cuda("__global__ void f(const float* x, float* y) { *y = 2 * *x; }").f[1, 1]
    x, out = np.ones(1, np.float32), np.zeros(1, np.float32)
    checked = weft.check(twice, x, out, out=out, reference=lambda x: 2 * x, seed=1)
    assert "✓" in checked._repr_html_() and "<td" in checked._repr_html_()


def test_results_have_html() -> None:
    timing = Timing("<mine>", 1e-3, 0.9e-3, 1.1e-3, 10, 0, "graph")
    shown = Bench("h200", True, (timing,), floor=5e-4, bound="memory")._repr_html_()
    assert "&lt;mine&gt;" in shown and "50.0%" in shown and "<mine>" not in shown
    assert "Not timed" in Bench("h200", False, (), floor=1e-3)._repr_html_()
    climb = Climb("vecadd", "sim", "H200", (RungResult(0, "naive", "an idea", "CUDA C++", "f32"),))
    assert climb._repr_html_().startswith("<iframe srcdoc=") and "an idea" in climb._repr_html_()
    assert "<td>00 one thread</td>" in ladder.find("vecadd")._repr_html_()
