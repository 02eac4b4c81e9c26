"""The debugger on small kernels: stops, values, steps, the way back, mistakes."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.debug import scouting
from weft.debug.session import open_session
from weft.device.sim.run import settings
from weft.ptx.debug_info import Variable
from weft.ptx.debug_info.types import INT

SOURCE = """\
struct Pt { float x; int k[2]; };
__device__ float helper(float a, int n) {
    float s = 0;
    for (int j = 0; j < n; ++j) {
        s += a * j;
    }
    return s;
}
__device__ int calls;
__global__ void k(float* x, int n) {
    __shared__ float tile[2][32];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    Pt p;
    // nothing here
    p.x = 2.0f;
    p.k[0] = i; p.k[1] = n;
    tile[1][threadIdx.x] = x[i];
    __syncthreads();
    if (i < n) {
        float acc = helper(tile[1][31 - threadIdx.x], 3);
        x[i] = acc + p.x + p.k[0];
    }
    calls = 7;
}
"""
MODULE = weft.cuda(SOURCE)
N = 60


def run(
    do: Callable[[weft.Debugger], Any] | None, line: int | None = 20, **chosen: Any
) -> np.ndarray[Any, Any]:
    """Launch `k` with a breakpoint and return its array; `do` is called at each stop."""
    x = np.arange(64, dtype=np.float32)
    with weft.breakpoint(MODULE.k, line, on_stop=do, **chosen):
        MODULE.k[2, 32](x, N)
    assert settings.current is None
    return x


def expected() -> np.ndarray[Any, Any]:
    x = np.arange(64, dtype=np.float32)
    MODULE.k[2, 32](x, N)
    return x


def test_values_by_their_names() -> None:
    seen: dict[str, Any] = {}

    def look(d: weft.Debugger) -> None:
        for text in (
            "i", "p", "p.k[1]", "x[i]", "tile[1]", "&x[1] - 1 == x", "*x", "i * 2 + n % 7",
            "-i / 2", "threadIdx.x", "blockIdx.x", "blockDim.x", "gridDim.x", "warpSize", "calls",
            "1 << 4 | 1",
        ):  # fmt: skip
            seen[text] = d.value(text).python
        seen["other"] = d.value("i", thread=(7, 0, 0)).python
        seen["lanes"] = [v and v.python for v in d.lanes("i")]
        seen["place"] = d.block, d.thread, str(d.here.line)
        seen["text"] = str(d.value("p")), str(d.value("tile[0]"))
        seen["locals"] = sorted(d.variables())

    got = run(look, condition="i == 37")
    np.testing.assert_array_equal(got, expected())
    text = seen.pop("text")
    tile = [float(32 + i) for i in range(32)]
    assert seen == {
        "i": 37, "p": {"x": 2.0, "k": [37, N]}, "p.k[1]": N, "x[i]": 37.0, "tile[1]": tile,
        "&x[1] - 1 == x": 1, "*x": float(got[0]), "i * 2 + n % 7": 78, "-i / 2": -18,
        "threadIdx.x": 5, "blockIdx.x": 1, "blockDim.x": 32, "gridDim.x": 2, "warpSize": 32,
        "calls": 7, "1 << 4 | 1": 17, "other": 39, "lanes": list(range(32, 64)),
        "place": ((1, 0, 0), (5, 0, 0), "kernel.cu:20"),
        "locals": ["acc", "calls", "i", "n", "p", "tile", "x"],
    }  # fmt: skip
    assert text[0] == "{x = 2.0, k = {37, 60}}"


@pytest.mark.parametrize(
    ("chosen", "threads"),
    [
        ({}, [(0, 0), (1, 0)]),
        ({"thread": 5}, [(0, 5), (1, 5)]),
        ({"thread": (5, 0, 0), "block": 1}, [(1, 5)]),
        ({"condition": "i == 37 || p.k[0] == 3"}, [(0, 3), (1, 5)]),
        ({"condition": "tile[1][threadIdx.x] == 40.0f"}, [(1, 8)]),
        ({"condition": "i % 32 == 9 && i > 32"}, [(1, 9)]),
        ({"condition": "acc < -1 || i == 33"}, [(1, 1)]),
        ({"condition": "i == -37"}, []),
    ],
)
def test_where_a_breakpoint_stops(chosen: dict[str, Any], threads: list[tuple[int, int]]) -> None:
    seen = []
    got = run(lambda d: seen.append((d.block[0], d.thread[0])), **chosen)
    assert seen == threads
    np.testing.assert_array_equal(got, expected())


def test_conditions_in_code_and_by_the_host_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three ways to evaluate: optimised code first, code for all lanes, one lane by the host."""
    conditions = ["!(i != 40) && n > 3", "(i & 3) == 2 && i * 1.5 > 86.5"]
    conditions += ["-i < -50 && threadIdx.x + blockDim.x == 56 && blockIdx.x == gridDim.x - 1"]

    def hits(condition: str) -> list[tuple[int, int]]:
        seen: list[tuple[int, int]] = []
        run(lambda d: seen.append((d.block[0], d.thread[0])), condition=condition)
        return seen

    first = [hits(c) for c in conditions]
    monkeypatch.setattr(scouting, "_build", lambda *_: None)
    second = [hits(c + " && true") for c in conditions]
    third = [hits(c + " && i << 0 == i") for c in conditions]
    assert first == second == third
    assert first == [[(1, 8)], [(1, 26)], [(1, 24)]]


def test_lines_are_stepped_into_and_over() -> None:
    places: list[tuple[str, int]] = []

    def walk(d: weft.Debugger) -> None:
        def note() -> None:
            assert d.here.line is not None
            places.append((d.here.function, d.here.line.line))

        d.step()
        note()
        assert [f.function for f in d.frames()] == ["helper", "k"]
        assert d.select_frame(1).function == "k"
        assert d.value("i").number == 37
        for move in (d.next, d.next, d.next, d.step):
            move()
            note()
        assert (d.value("s").number, d.value("j").number, d.value("a").number) == (0.0, 1, 58.0)
        before = d.here.ins.index
        d.stepi()
        assert d.here.ins.index == before + 1
        d.finish()
        note()
        d.next()
        note()
        assert d.value("acc").number == 58.0 * 3

    run(walk, condition="i == 37")
    assert places == [
        ("helper", 3), ("helper", 4), ("helper", 5), ("helper", 4), ("helper", 5),
        ("k", 20), ("k", 21),
    ]  # fmt: skip


def test_next_passes_over_a_call() -> None:
    def over(d: weft.Debugger) -> None:
        d.next()
        assert d.here.function == "k" and d.here.line is not None and d.here.line.line == 21

    run(over, condition="i == 37")


def test_back_to_the_last_write() -> None:
    def back(d: weft.Debugger) -> None:
        d.back("tile[1][26]")
        assert d.thread == (26, 0, 0) and d.here.line is not None and d.here.line.line == 17
        d.stepi()
        assert d.value("tile[1][26]").number == 58.0
        assert d.value("i").number == 58
        while d.here.function == "k":
            d.step()
        for _ in range(6):
            d.next()
        assert d.value("j").number == 2
        d.back("s")
        assert d.value("j").number == 1
        d.back("s")
        assert d.value("j").number == 0
        with pytest.raises(weft.Error, match="a result of operators"):
            d.back("s + 1")

    got = run(back, condition="i == 37")
    np.testing.assert_array_equal(got, expected())


def test_nothing_has_written_it() -> None:
    def back(d: weft.Debugger) -> None:
        with pytest.raises(weft.Error, match="nothing has written"):
            d.back("x[40]")
        assert d.value("i").number == 37

    run(back, condition="i == 37")


def test_a_value_is_set_and_watched() -> None:
    seen = []

    def change(d: weft.Debugger) -> None:
        assert d.set("x[63]", "5.5").number == 5.5
        d.set("p.k[0]", "1000")
        d.watch("x[40]")
        stop = d.cont()
        assert stop is not None
        seen.append((stop.reason, d.thread[0], d.value("x[40]").number))
        with pytest.raises(weft.Error, match="a register"):
            d.set("i", "3")
        with pytest.raises(weft.Error, match="does not fit"):
            d.set("p.k[0]", "1 << 40")
        with pytest.raises(weft.Error, match="no memory of the launch"):
            d.value("x[1 << 30]")

    got, right = run(change, condition="i == 37"), expected()
    assert seen == [("a write of x[40]", 8, 40.0)]
    assert got[63] == 5.5
    assert got[37] == right[37] - 37 + 1000


def test_warps_and_barriers() -> None:
    source = """\
__global__ void two(float* x) {
    int t = threadIdx.x;
    if (t < 40) {
        x[t] = t;
    }
    __syncthreads();
    x[t] += x[95 - t];
}
"""
    kernel = weft.cuda(source).two
    seen = []

    def look(d: weft.Debugger) -> None:
        if not seen:
            seen.append([(w.state, f"{w.active:x}") for w in d.warps()])
            d.stop_on = weft.debug.stops.StopOn(barrier=True)
            d.select((70, 0, 0))
            with pytest.raises(weft.Error, match="has not started"):
                d.value("t")
            stop = d.cont()
            assert stop is not None and stop.reason == "a barrier"
            seen.append([(w.state, f"{w.active:x}") for w in d.warps()])
            d.detach()

    with weft.breakpoint(kernel, line=4, condition="t == 33", on_stop=look):
        kernel[1, 96](np.zeros(96, np.float32))
    waits = "waits at a barrier"
    assert seen == [
        [(waits, "ffffffff"), ("runs", "ff"), ("not started", "0")],
        [(waits, "ffffffff"), ("runs", "ffffffff"), ("not started", "0")],
    ]


FAULTS = {
    "IllegalAddress": ("x[t + n] = kept;", 4),
    "AssertFailed": ("assert(t != 27);", 4),
    "Trapped": ("if (t == 27) { __trap(); }", 4),
    "Deadlock": ('if (t < 32) { __syncthreads(); } else { asm("bar.sync 1, 64;"); }', 4),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_stops_with_all_values(kind: str) -> None:
    statement, line = FAULTS[kind]
    source = f"""\
#include <cassert>
__global__ void f(float* x, int n) {{
    int t = threadIdx.x; volatile int kept = t + 1;
    {statement}
    x[t] = kept;
}}
"""
    kernel = weft.cuda(source).f
    seen: list[Any] = []

    def look(d: weft.Debugger) -> None:
        assert d.stop is not None and d.here.line is not None
        seen.append((d.stop.reason.partition(":")[0], d.here.line.line))
        seen.append(d.value("kept").number)
        seen.append([w.state for w in d.warps()])
        with pytest.raises(weft.Error, match="cannot go on"):
            d.step()

    made = weft.breakpoint(kernel, line=3, condition="t == -1")
    open_session().talk = look
    try:
        with pytest.raises(getattr(weft, kind)):
            kernel[1, 64](np.zeros(64, np.float32), 37)
    finally:
        made.delete()
    assert seen[0] == (kind, line)
    if kind == "Deadlock":
        assert seen[2] == ["waits at a barrier"] * 2
    else:
        assert seen[1] == 28


def test_the_first_nan() -> None:
    source = """\
__global__ void f(float* x) {
    float v = x[threadIdx.x];
    float root = sqrtf(v);
    x[threadIdx.x] = root + 1;
}
"""
    kernel, seen = weft.cuda(source).f, []
    session = open_session()
    session.every, session.stop_on = True, weft.debug.stops.StopOn(nan=True)
    session.talk = lambda d: seen.append((d.stop.reason, d.thread[0], d.here.line.line))
    try:
        kernel[1, 32](np.array([1.0] * 9 + [-1.0] * 23, np.float32))
    finally:
        session.close()
    assert [(x[0], x[1]) for x in seen] == [("the first NaN", 9)]
    assert seen[0][2] == 3


def test_breakpoints_and_the_sanitizer_end_in_any_order() -> None:
    seen: list[int] = []

    def launch(stops: int) -> None:
        before = len(seen)
        MODULE.k[1, 32](np.arange(64, dtype=np.float32), N)
        assert len(seen) - before == stops

    outer = weft.breakpoint(MODULE.k, 20, thread=1, on_stop=lambda d: seen.append(1))
    with weft.sanitize() as report:
        launch(0)  # the sanitizer is newer
        assert report.launches == 1
        inner = weft.breakpoint(MODULE.k, 20, thread=2, on_stop=lambda d: seen.append(2))
        launch(2)
        outer.delete()
        launch(1)
    launch(1)
    inner.delete()
    launch(0)
    assert settings.current is None


@pytest.mark.parametrize(
    ("chosen", "text"),
    [
        ({"line": 14}, "line 14 of kernel.cu has no code.*next line with code is 15: p.x = 2.0f;"),
        ({"line": 99}, "the last line with code is 24"),
        ({"line": 20, "condition": "ii == 3"}, "no variable ii.*did you mean i"),
        ({"line": 20, "condition": "i = 3"}, "compare with =="),
        ({"line": 20, "condition": "threadIdx.w == 3"}, "threadIdx has no member w"),
        ({"line": 20, "condition": "%r999 == 1"}, "k has no register %r999"),
        ({"line": "20"}, "line"),
        ({"thread": (1, 2, 3, 4)}, "one to three numbers"),
        ({"block": -1}, "one to three numbers"),
    ],
)
def test_mistakes_are_named_before_a_launch(chosen: dict[str, Any], text: str) -> None:
    with pytest.raises(weft.Error, match=f"(?s){text}"):
        weft.breakpoint(MODULE.k, **chosen)
    assert settings.current is None


def test_what_is_no_kernel() -> None:
    with pytest.raises(weft.Error, match="a kernel of weft"):
        weft.breakpoint("k")


def test_a_kernel_without_a_source() -> None:
    kernel = weft.load_ptx(MODULE.ptx.text).kernel(MODULE.k.entry)
    seen = []

    def look(d: weft.Debugger) -> None:
        name = next(n for n in d.registers() if n.startswith("%r"))
        seen.append(d.value(name).type.kind.value)
        with pytest.raises(weft.Error, match="no debug information"):
            d.value("i")
        d.detach()

    with weft.breakpoint(kernel, on_stop=look):
        kernel[2, 32](np.arange(64, dtype=np.float32), N)
    assert seen == ["integer"]


def test_a_variable_that_has_been_optimised_away() -> None:
    """A description without a place, as compilers write it; NVRTC's -G keeps what it can."""

    def look(d: weft.Debugger) -> None:
        scope = d.source.scopes(d.here)[-1]
        scope.variables.append(Variable("gone", INT))
        try:
            with pytest.raises(weft.Error, match="gone has been optimised away") as raised:
                d.value("gone + 1")
        finally:
            scope.variables.pop()
        assert raised.value.next == "declare it volatile, which keeps it: volatile int gone"

    run(look, condition="i == 37")


def test_quit_ends_the_launch_and_nothing_else() -> None:
    with pytest.raises(weft.Error, match="was ended in the debugger"):
        run(lambda d: d.end(), condition="i == 37")
    np.testing.assert_array_equal(run(None, condition="i == -1"), expected())


def test_an_error_at_a_stop_ends_the_launch() -> None:
    with pytest.raises(ZeroDivisionError):
        run(lambda d: 1 // 0)
    assert not [t for t in threading.enumerate() if t.name == "weft debugger"]


def test_a_launch_inside_a_stop_runs_plainly() -> None:
    seen = []

    def nested(d: weft.Debugger) -> None:
        seen.append(expected()[0])

    got = run(nested, condition="i == 37")
    assert seen == [got[0]]


def test_two_debuggers_take_turns() -> None:
    order: list[str] = []

    def look(d: weft.Debugger) -> None:
        order.append("in")
        d.next()
        order.append("out")

    def launch() -> None:
        MODULE.k[2, 32](np.arange(64, dtype=np.float32), N)

    with weft.breakpoint(MODULE.k, 20, "i == 37", on_stop=look):
        threads = [threading.Thread(target=launch) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert order == ["in", "out"] * 2


def test_control_c_stops_a_loop_that_does_not_end() -> None:
    source = """\
__global__ void spin(volatile int* go, int* out) {
    int rounds = 0;
    while (*go == 0) {
        ++rounds;
    }
    *out = 1;
}
"""
    kernel, seen = weft.cuda(source).spin, []
    go, out = np.zeros(1, np.int32), np.zeros(1, np.int32)

    def look(d: weft.Debugger) -> None:
        timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
        timer.start()
        stop = d.cont()
        assert stop is not None
        timer.join()
        seen.append((stop.reason, d.value("rounds").number > 0))
        d.set("*go", "1")

    with weft.breakpoint(kernel, line=2, on_stop=look):
        kernel[1, 32](go, out)
    assert seen == [("interrupted", True)]
    assert out[0] == 1
