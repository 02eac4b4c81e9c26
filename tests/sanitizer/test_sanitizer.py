"""The sanitizer as a user meets it: the flag, the stretch, the switch, reports, what is counted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from everyday import load
from weft.device import jit
from weft.device.sim.tools.sanitizer.shadow.fast import pattern_of

RACE = r"""
__global__ void reversed(const float* x, float* y) {
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    BARRIER
    y[threadIdx.x] = s[63 - threadIdx.x];
}
"""


def kernel(barrier: str) -> weft.Kernel:
    return weft.cuda(RACE, defines={"BARRIER": barrier}, name="race.cu").reversed


def arrays() -> tuple[np.ndarray, np.ndarray]:
    return np.arange(64, dtype=np.float32), np.zeros(64, np.float32)


def test_a_race_names_both_lines_and_what_would_help() -> None:
    with pytest.raises(weft.SanitizerError) as caught:
        kernel("")[1, 64](*arrays(), sanitize=True)
    (found,) = caught.value.findings
    assert found.kind == "data race"
    assert {a.number for a in found.accesses} == {4, 6}
    assert {a.verb for a in found.accesses} == {"read", "write"}
    assert all(a.block == (0, 0, 0) and a.thread is not None for a in found.accesses)
    text = str(caught.value)
    assert "race.cu:4" in text and "s[threadIdx.x] = x[threadIdx.x];" in text
    assert "next: __syncthreads() between the two" in text
    assert "checked: 1 launches, 256 accesses" in text
    json.dumps(found.to_dict())


@pytest.mark.parametrize("how", ["flag", "session"])
def test_a_sanitized_launch_is_compiled_once(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plain code is made when a launch runs plainly."""
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    made, compile_object = [], jit.compile_object

    def compiled(text: str, **how: Any) -> bytes:
        if "@run(" in text:  # the others are functions that drafts share
            made.append(text)
        return compile_object(text, **how)

    monkeypatch.setattr(jit, "compile_object", compiled)
    (x, y), launch = arrays(), kernel("__syncthreads();")[1, 64]
    if how == "flag":
        launch(x, y, sanitize=True)
    else:
        with weft.sanitize():
            launch(x, y)
    assert len(made) == 1
    launch(x, y)
    launch(x, y, time_limit=600)
    assert len(made) == 2


ADVICE = {
    "blocks race, and lanes of one warp too": (
        "__global__ void k(const int* x, int* y) { y[x[threadIdx.x] & 3] += 1; }", 4,
        "does not order blocks",
    ),
    "warps race, and lanes of one warp too": (
        "__global__ void k(const int* x, int* y) { __shared__ int h[4]; int t = threadIdx.x;\n"
        "if (t < 4) h[t] = 0;\natomicAdd(&h[t & 3], 1);\n__syncthreads(); y[t] = h[t & 3]; }", 1,
        "__syncthreads() between the two",
    ),
    "one instruction races with itself": (
        "__global__ void k(const int* x, int* y) { y[0] = threadIdx.x; }", 1, "use an atomic",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("source", "grid", "advice"), ADVICE.values(), ids=ADVICE)
def test_advice_fits_the_widest_race(source: str, grid: int, advice: str) -> None:
    x, y = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    with pytest.raises(weft.SanitizerError) as caught:
        weft.cuda(source).k[grid, 64](x, y, sanitize=True)
    assert all(advice in f.next for f in caught.value.findings), str(caught.value)


WITHIN = r"""
__global__ void within(int* y, int z) {
    __shared__ int s[64];
    int t = threadIdx.x, v = 0;
    s[t] = t + z;
    __syncthreads();
    if (t == 0) v += s[z];
    if (t == 31) v += s[z + 31];
    if (t < 32) v += s[z + t];
    if (t > 32 && t < 63) s[z + t - 32] = 77;  // between the two that were read before
    y[t] = v;
}
__global__ void outside(int* y, int z) {
    unsigned t = threadIdx.x, members = t < 32 ? 0xffffffffu : 0xffffu, from = t % 32 + 1 & 31;
    unsigned v = __shfl_sync(members, y[t], from);
    unsigned here = -(members >> from & 1), gone = ~here;
    y[t] = (v & here) + (v | gone);
}
"""


def test_reads_between_two_words_that_were_read_before_are_recorded() -> None:
    with pytest.raises(weft.SanitizerError) as caught:
        weft.cuda(WITHIN).within[1, 64](np.zeros(64, np.int32), 0, sanitize=True)
    (found,) = caught.value.findings
    assert {a.number for a in found.accesses} == {9, 10} and found.times == 30


def test_an_undefined_value_that_is_masked_out_is_not_used() -> None:
    y = np.arange(48, dtype=np.int32)
    weft.cuda(WITHIN).outside[1, 48](y, 0, sanitize=True)
    neighbour = np.r_[(np.arange(32) + 1) % 32, 33:48, 0]
    np.testing.assert_array_equal(y[:47], 2 * neighbour[:47])
    assert y[47] == -1


COPY = """#include <cuda_pipeline.h>
__global__ void k(const float4* x, float* y, int to, int from) {
    __shared__ float4 s[32];
    __pipeline_memcpy_async(&s[threadIdx.x + to], &x[threadIdx.x + from], 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    y[threadIdx.x] = s[threadIdx.x].x;
}"""


@pytest.mark.parametrize(("to", "source", "what"), [
    (1, 0, "out-of-bounds write of 16 bytes in k, shared memory"),
    (0, 1, "out-of-bounds read of 16 bytes in k, global memory"),
])  # fmt: skip
def test_a_copy_names_the_side_that_is_wrong(to: int, source: int, what: str) -> None:
    x, y = np.zeros(128, np.float32), np.zeros(32, np.float32)
    with pytest.raises(weft.IllegalAddress, match=what):
        weft.cuda(COPY).k[1, 32](x, y, to, source)


def test_a_clean_launch_computes_what_it_computes() -> None:
    x, y = arrays()
    kernel("__syncthreads();")[1, 64](x, y, sanitize=True)
    assert (y == x[::-1]).all()


def test_a_stretch_collects_and_counts() -> None:
    fine = kernel("__syncthreads();")
    with weft.sanitize() as report:
        for _ in range(3):
            fine[1, 64](*arrays())
    assert report.launches == 3
    assert report.counts.accesses == 3 * 4 * 64
    assert report.counts.barriers == 3
    assert "nothing found in 3 launches, 768 accesses, 3 barriers" in str(report)
    with pytest.raises(weft.SanitizerError, match="data race"), weft.sanitize():
        kernel("")[1, 64](*arrays())
    kernel("")[1, 64](*arrays())  # the stretch is over


def test_what_ends_a_launch_is_a_finding_and_the_cause() -> None:
    x, y = arrays()
    x = x[:40].copy()  # a view may be read around
    with pytest.raises(weft.SanitizerError, match="out of bounds") as caught:
        kernel("__syncthreads();")[1, 64](x, y, sanitize=True)
    assert isinstance(caught.value.__cause__, weft.IllegalAddress)
    with weft.sanitize(raises=False) as report, pytest.raises(weft.IllegalAddress):
        kernel("__syncthreads();")[1, 64](x, y)
    assert [f.kind for f in report.findings] == ["out of bounds"]


def test_fresh_memory_is_filled_by_the_host_or_a_kernel() -> None:
    twice = weft.cuda("__global__ void k(const float* x, float* y) { y[0] = 2 * x[0]; }").k
    x, y = weft.sanitizer.empty(1), np.zeros(1, np.float32)
    with pytest.raises(weft.SanitizerError, match=r"uninitialised[^$]*x\[0\]"):
        twice[1, 1](x, y, sanitize=True)
    twice[1, 1](y, x, sanitize=True)
    twice[1, 1](x, y, sanitize=True)
    z = weft.sanitizer.empty((1,), np.float32)
    z[:] = 1
    weft.sanitizer.filled(z)
    twice[1, 1](z, y, sanitize=True)


def test_an_argument_does_not_reach_into_its_neighbour() -> None:
    shift = weft.cuda(
        "__global__ void k(const float* x, float* y, int n) {"
        " int i = threadIdx.x; y[i] = x[i + n]; }"
    ).k
    memory = bytearray(512)  # of two arrays, which are no views of a third
    x, y = np.frombuffer(memory, np.float32, 65), np.frombuffer(memory, np.float32, 63, 260)
    shift[1, 63](x, y, 2, sanitize=True)
    with pytest.raises(weft.SanitizerError, match="leaves its own array for another one"):
        shift[1, 63](x, y, 3, sanitize=True)


def test_writing_what_is_there_is_no_hazard() -> None:
    found = weft.cuda(
        "__global__ void k(const int* x, int* any) { if (x[threadIdx.x] > 5) *any = 1; }"
    ).k
    x, any_ = np.arange(96, dtype=np.int32), np.zeros(1, np.int32)
    found[4, 96](x, any_, sanitize=True)
    assert any_[0] == 1


def test_a_volatile_read_does_not_hide_a_plain_one() -> None:
    """Volatile reads do not race with atomics; plain reads of the same words do."""
    source = r"""
__global__ void k(int* y, int z) {
    __shared__ int s[64];
    int t = threadIdx.x, v = 0;
    s[t] = z;
    __syncthreads();
    if (t < 32) {
        asm volatile("{.reg .u64 a; cvta.to.shared.u64 a, %1; ld.volatile.shared.s32 %0, [a];}"
                     : "=r"(v) : "l"(s + (t & 15)));
        v += s[t & 15];
    }
    if (t == 37) atomicAdd(s + 5, 1);
    y[t] = v;
}
"""
    with pytest.raises(weft.SanitizerError) as caught:
        weft.cuda(source).k[1, 64](np.zeros(64, np.int32), 12345, sanitize=True)
    (found,) = caught.value.findings
    assert {a.number for a in found.accesses} == {10, 12}


def test_memory_that_the_heap_gives_out_again_does_not_race() -> None:
    """As the arguments of child grids, which are freed when their grid is launched."""
    source = """__global__ void k(int* y) {
        int* p = (int*)malloc(64);
        p[0] = blockIdx.x;
        asm volatile("" ::: "memory");
        y[blockIdx.x] = p[0];
        free(p);
    }"""
    y = np.zeros(4, np.int32)
    weft.cuda(source).k[4, 1](y, sanitize=True)
    assert y.tolist() == [0, 1, 2, 3]


def test_launch_order_is_an_order() -> None:
    step = weft.cuda(
        "__global__ void k(const float* x, float* y) {"
        " y[blockIdx.x * 32 + threadIdx.x] = x[(blockIdx.x * 32 + threadIdx.x + 32) % 128]; }"
    ).k
    a, b = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    with weft.sanitize() as report:
        step[4, 32](a, b)
        step[4, 32](b, a)
    assert report.launches == 2 and (a == np.roll(np.arange(128), -64)).all()


def test_the_switch_of_the_environment(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        f"import numpy as np, weft\nk = weft.cuda({RACE!r}, defines={{'BARRIER': ''}}).reversed\n"
        "k[1, 64](np.arange(64, dtype=np.float32), np.zeros(64, np.float32))\n"
    )
    environment = {**os.environ, "WEFT_SANITIZE": "1"}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and "SanitizerError" in done.stderr and "data race" in done.stderr


def verb(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "weft", "check", "--sanitize", *arguments],
        capture_output=True,
        text=True,
    )


def test_the_verb_runs_a_script(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        f"import sys, numpy as np, weft\nprint('said', sys.argv[1:])\n"
        f"k = weft.cuda({RACE!r}, defines={{'BARRIER': sys.argv[1]}}).reversed\n"
        "k[1, 64](np.arange(64, dtype=np.float32), np.zeros(64, np.float32))\n"
    )
    done = verb(script, "__syncthreads();")
    assert done.returncode == 0 and "nothing found in 1 launches" in done.stdout
    done = verb("--json", script, " ")
    facts = json.loads(done.stdout)
    assert done.returncode == 1 and "said" in done.stderr
    assert [f["kind"] for f in facts["findings"]] == ["data race"]
    assert facts["counts"]["accesses"] == 256


PROGRAM = r"""
__global__ void twice(const float* x, float* y) { y[threadIdx.x] = 2 * x[threadIdx.x]; }
int main() {
    float *x, *y;
    cudaMalloc(&x, 128);
    cudaMalloc(&y, 128);
    twice<<<1, 32>>>(x, y);
    return cudaDeviceSynchronize();
}
"""


@pytest.mark.slow
def test_the_verb_runs_a_program(tmp_path: Path) -> None:
    (tmp_path / "p.cu").write_text(PROGRAM)
    done = verb(tmp_path / "p.cu")
    assert done.returncode == 1, done.stderr
    assert "uninitialised: a read of memory that was never written in twice" in done.stdout


def test_shared_offsets_wrap_lane_by_lane() -> None:
    shift = weft.cuda(
        "__global__ void k(const int* x, int* y) { __shared__ int s[64]; int t = threadIdx.x;"
        " s[t] = x[t]; __syncthreads(); y[t] = t >= 1 ? s[t - 1] : 7; }"
    ).k
    x, y = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    shift[1, 64](x, y)
    assert y.tolist() == [7, *range(63)]


PATTERNS = {
    "consecutive floats": (tuple(range(0, 128, 4)), 4, True, 32),
    "halves in words": (tuple(range(0, 64, 2)), 2, True, 16),
    "two rows that are one": (tuple(4 * (i % 16) for i in range(32)), 4, False, 16),
    "every other word": (tuple(range(0, 256, 8)), 4, True, 64),
}


@pytest.mark.parametrize(("off", "nbytes", "writes", "count"), PATTERNS.values(), ids=PATTERNS)
def test_patterns(off: tuple[int, ...], nbytes: int, writes: bool, count: int) -> None:
    pattern = pattern_of(off, nbytes, writes)
    assert pattern is not None and len(pattern) == count
    touched = {x // 4 for x in off}
    assert {i for i, r in enumerate(pattern) if r >= 0} == touched


def test_lanes_that_write_one_word_have_no_pattern() -> None:
    assert pattern_of(tuple(4 * (i % 16) for i in range(32)), 4, True) is None


@pytest.mark.parametrize(
    ("barrier", "aligned"),
    [("bar.sync 0", True), ("barrier.sync.aligned 0", True), ("barrier.sync 0", False)],
)
def test_an_aligned_barrier_needs_the_whole_warp(barrier: str, aligned: bool) -> None:
    """Some lanes of a warp may execute a barrier that is not aligned."""
    text = f"""__global__ void k(float* x) {{
        if (threadIdx.x % 32 < 16) asm volatile("{barrier};" ::: "memory");
        x[threadIdx.x] += 1;
        asm volatile("barrier.sync 0;" ::: "memory");
    }}"""
    with weft.sanitize(raises=False) as report:
        weft.cuda(text).k[1, 32](np.zeros(32, np.float32))
    split = [f for f in report.findings if "only some threads of a warp reach" in str(f)]
    assert bool(split) == aligned


ARRIVAL = r"""
__global__ void shifted(const float4* x, float4* y) {
    __shared__ float4 s[32];
    __shared__ unsigned long long full;
    int t = threadIdx.x % 32;
    unsigned barrier = __cvta_generic_to_shared(&full), to = __cvta_generic_to_shared(s + t), done;
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 32;" ::"r"(barrier));
    __syncthreads();
    if (threadIdx.x < 32) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(x + t) : "memory");
        asm volatile("{ .reg .b64 s; ARRIVE [%0]; }" ::"r"(barrier) : "memory");
    } else {
        do asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 0;"
                        " selp.b32 %0, 1, 0, p; }" : "=r"(done) : "r"(barrier) : "memory");
        while (!done);
        y[t] = s[31 - t];
    }
}
"""


@pytest.mark.parametrize(
    ("arrive", "kinds"),
    [
        ("cp.async.mbarrier.arrive.noinc.shared.b64", set()),
        ("mbarrier.arrive.shared.b64 s,", {"missing wait"}),
    ],
)
def test_an_mbarrier_waits_for_copies_that_arrive_at_it(arrive: str, kinds: set[str]) -> None:
    launch = weft.cuda(ARRIVAL.replace("ARRIVE", arrive)).shifted[1, 64]
    findings = []
    try:
        launch(np.zeros(128, np.float32), np.zeros(128, np.float32), sanitize=True)
    except weft.SanitizerError as error:
        findings = error.findings
    assert {found.kind for found in findings} == kinds


@pytest.mark.parametrize(
    ("kernel", "kind", "line"),
    [
        ("empty_mbarrier", "deadlock", "while"),
        ("read_flag", "deadlock", "while"),
        ("take_lock", "deadlock", "while"),
        ("barrier_and_flag", "barrier divergence", "__syncthreads"),
    ],
)
def test_a_deadlock_has_its_own_name(kernel: str, kind: str, line: str) -> None:
    """Only threads that never reach a barrier diverge; the line is that of the wait."""
    flags = np.full(64, kernel == "take_lock", np.int32)
    given = () if kernel == "empty_mbarrier" else (flags,)
    with weft.sanitize(raises=False) as report, pytest.raises(weft.Deadlock) as caught:
        load("deadlocks").kernel(kernel)[1, 64](*given)
    (found,) = [f for f in report.findings if "deadlocked" in f.what]
    assert found.kind == kind
    assert found.accesses[0].file.endswith("deadlocks.cu") and line in found.accesses[0].line
    assert caught.value.where == found.accesses[0].line
