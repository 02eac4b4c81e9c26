"""`weft trace-values` and `weft debug --race`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.debug.races import stop_at_races
from weft.debug.session import open_session
from weft.debug.value_trace import Trace, TraceRequest
from weft.device.sim.run import settings
from weft.device.sim.run.settings import LaunchRequest

KERNELS = """\
struct Pt { float x; int k; };
__device__ float term(float v, int k) {
    float acc = v * k;
    return acc;
}
__global__ void total(const float* x, float* out) {
    __shared__ float part[64];
    int t = threadIdx.x;
    part[t] = x[t];
    float acc = 0;
    Pt p = {0, t};
    for (int s = 32; s > 0; s /= 2) {
        if (t < s) {
            part[t] += part[t + s];
            acc += term(x[t], s);
            p.x = acc / x[0] * 0.0f;
        }
        __syncthreads();
    }
    out[blockIdx.x] = part[0] + acc + p.x;
}
__global__ void all_at_once(float* x) {
    for (int k = 0; k < 3; ++k) x[k] = threadIdx.x;
}
__global__ void right(float* x) {
    x[threadIdx.x] += 1;
}
__global__ void wrong_address(float* x) {
    x[threadIdx.x + 100] = 1;
}
"""
MODULE = weft.cuda(KERNELS)
SCRIPT = f'''\
import numpy as np, weft
SOURCE = """{KERNELS}"""
x, out = np.arange(64, dtype=np.float32), np.zeros(2, np.float32)
module = weft.cuda(SOURCE)
module.right[1, 64](x)
for n in range(2):
    module.total[2, 64](x, out)
print("end")
'''
PROGRAM = """\
#include <cstdio>
__global__ void count(int* x) {
    int v = x[threadIdx.x];
    v += 2;
    x[0] = v;
}
int main() {
    int* x;
    cudaMalloc(&x, 256);
    count<<<1, 64>>>(x);
    cudaDeviceSynchronize();
    printf("done\\n");
}
"""


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "weft", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def trace(variable: str, thread: int, block: int = 0) -> list[tuple[int, Any, Any]]:
    """The changes of an expression in a launch of `total`: line, old and new value."""
    found: list[tuple[int, Any, Any]] = []

    class Session:
        def run(self, asked: LaunchRequest) -> None:
            wanted = TraceRequest("total", variable, (thread, 0, 0), (block, 0, 0))
            found.extend((c.line, c.old, c.new) for c in Trace(asked, wanted).run())

    with settings.in_this_process(Session()):
        MODULE.total[2, 64](np.arange(64, dtype=np.float32), np.zeros(2, np.float32))
    return found


@pytest.mark.parametrize(("thread", "block"), [(3, 0), (3, 1), (40, 1)])
def test_a_variable_of_a_thread(thread: int, block: int) -> None:
    """The kernel's own variable, although a called function has one of the same name."""
    expected, value, steps = [(10, None, 0.0)], 0.0, [s for s in (32, 16, 8, 4, 2, 1) if thread < s]
    for s in steps:
        expected.append((15, value, value + thread * s))
        value += thread * s
    assert trace("acc", thread, block) == expected


def test_expressions_structures_and_nans() -> None:
    assert [c[1:] for c in trace("s / 2", 0)][:3] == [(None, 16), (16, 8), (8, 4)]
    assert trace("p.k", 5)[-1][2] == 5
    values = [c[2] for c in trace("p.x", 0)]
    assert len(values[values.index(0.0) + 1 :]) == 1  # a NaN stays the same NaN
    assert [c[0] for c in trace("v", 1)] and trace("k", 1)[-1][2] == 2


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(weft.Error, match="no variable nothing"):
        trace("nothing", 0)
    with pytest.raises(weft.Error, match="no such thread"):
        trace("acc", 64)


def test_the_verb(tmp_path: Path) -> None:
    file = tmp_path / "s.py"
    file.write_text(SCRIPT, encoding="utf-8")
    words = ["--kernel", "total", "--var", "acc", "--thread", "9", "--block", "1"]
    done = run("trace-values", *words, str(file))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "acc in total, block (1, 0, 0), thread (9, 0, 0), launch 1"
    assert lines[1].split() == ["kernel.cu:10", "0.0", "float", "acc", "=", "0;"]
    assert "0.0 -> 320.0" in lines[2] and lines[-1] == "end"
    done = run("trace-values", "--json", *words, str(file))
    first, second = (json.loads(line) for line in done.stdout.splitlines()[:2])
    assert (first["launch"], second["launch"]) == (1, 2)
    assert first["changes"] == second["changes"]
    assert first["changes"][1] == {
        "file": "kernel.cu", "line": 15, "old": 0.0, "new": 320.0,
        "quote": "acc += term(x[t], s);",
    }  # fmt: skip
    missed = run("trace-values", "--kernel", "total", "--var", "acc", "--block", "7", str(file))
    assert "no launch of total has block (7, 0, 0)" in missed.stderr
    refused = run("trace-values", "--kernel", "total", "--var", "acc", "--thread", "x", str(file))
    assert refused.returncode == 1 and "thread takes one to three numbers" in refused.stderr


def test_a_program(tmp_path: Path) -> None:
    file = tmp_path / "p.cu"
    file.write_text(PROGRAM, encoding="utf-8")
    done = run("trace-values", "--kernel", "count", "--var", "v", "--json", str(file))
    changes = json.loads(done.stdout.splitlines()[0])["changes"]
    assert [(c["line"], c["new"]) for c in changes][-1] == (4, 2), done.stderr
    assert "done" in done.stdout
    done = run("debug", "--race", "-c", "print v", str(file))
    assert "the second access of a data race" in done.stdout, done.stderr
    assert f"read: {file}:3" in done.stdout and f"write: {file}:5" in done.stdout
    assert done.stdout.index("seen: ") < done.stdout.index("count stopped")


def raced(launch: Callable[[], None]) -> list[tuple[str, int, int]]:
    """The stops of a launch: the reason, the line and the thread."""
    seen: list[tuple[str, int, int]] = []

    def look(d: weft.Debugger) -> None:
        assert d.stop is not None and d.here.line is not None
        seen.append((d.stop.reason, d.here.line.line, d.thread[0]))
        d.detach()

    session = open_session()
    session.every, session.talk = True, look
    stop_at_races(session)
    try:
        launch()
    finally:
        session.close()
    return seen


def test_the_second_access_of_a_race(capsys: pytest.CaptureFixture[str]) -> None:
    x, out = np.arange(64, dtype=np.float32), np.zeros(2, np.float32)
    ((reason, line, thread),) = raced(lambda: MODULE.total[1, 64](x, out))
    assert reason.startswith("the second access of a data race")
    said = capsys.readouterr().out
    assert "write: kernel.cu:9" in said and "read: kernel.cu:14" in said
    assert (line, thread) == (9, 32)


def test_threads_of_one_warp() -> None:
    ((_, line, thread),) = raced(lambda: MODULE.all_at_once[1, 32](np.zeros(3, np.float32)))
    assert line == 23 and 0 <= thread < 32


def test_a_launch_without_a_race_runs_once() -> None:
    x = np.zeros(64, np.float32)
    assert raced(lambda: MODULE.right[1, 64](x)) == []
    assert x.tolist() == [1.0] * 64


def test_a_fault_stops_too() -> None:
    with pytest.raises(weft.IllegalAddress):
        raced(lambda: MODULE.wrong_address[1, 32](np.zeros(8, np.float32)))
