"""Large kernels are compiled as several functions: the same results, in linear time.

LLVM's work is counted by the lines of the functions that it is given.
"""

from __future__ import annotations

from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

import weft
from weft.device.sim.emit.generate import generate
from weft.ir.cut import LARGE, PART, cut
from weft.ptx.parse import parse

pytestmark = pytest.mark.sim

SOURCE = """
__device__ int turn(int x) { return x % 3 == 0 ? x / 3 : x + 7; }

__global__ void k(int* out, const int* in, int n) {
    __shared__ int t[96];
    int i = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;
    t[threadIdx.x] = in[i];
    __syncthreads();
    for (int j = 0; j < n; ++j) {
        int x = t[(threadIdx.x + j) % 96];
        if (x > 50) { while (x > j) x = turn(x - 9); sum += x; }
        else { for (int l = 0; l < x % 5; ++l) sum ^= in[(x + l) & 63]; }
        __syncthreads();
        if (threadIdx.x < 40) t[threadIdx.x] += sum & 15;
        __syncthreads();
        if (sum > 4000 && threadIdx.x % 2) return;
    }
    out[i] = sum + __shfl_down_sync(__activemask(), sum, 1);
}
"""

GUARDED = """
    add.s32 %r{x}, %r1, {x};
    setp.lt.s32 %p1, %r{x}, 7;
    @%p1 bra PAST{x};
    mul.wide.s32 %rd3, %r{x}, 4;
    add.s64 %rd4, %rd3, %rd2;
    st.global.u32 [%rd4], %r{x};
PAST{x}:
"""


def guarded(steps: int) -> str:
    """IR of a kernel with stores behind branches."""
    text = f"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out)
{{
    .reg .pred %p<2>;
    .reg .b32 %r<{steps + 2}>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %rd2, %r0, 4;
    add.s64 %rd2, %rd1, %rd2;
    ld.global.u32 %r1, [%rd2];
{"".join(GUARDED.format(x=i + 2) for i in range(steps))}
    ret;
}}
"""
    return generate(parse(text), "k", (256, 1, 1))[0]


def longest(text: str) -> int:
    """Lines of the longest function."""
    return max(x.partition("\n}")[0].count("\n") for x in text.split("\ndefine "))


def launched(kernels: weft.Module) -> list[np.ndarray]:
    numbers = np.random.default_rng(3).integers(0, 100, 2 * 96).astype(np.int32)
    results = []
    for n in (0, 9):
        out = np.zeros_like(numbers)
        kernels.k[2, 96](out, numbers, n)
        results.append(out)
    return results


def test_results_do_not_depend_on_cuts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Barriers, loops that diverge and threads that leave early, in parts of a few lines."""
    monkeypatch.setenv("WEFT_DRAFTS", "0")
    counts = []

    def finely(text: str) -> str:
        parts = cut(text, large=0, part=60)
        counts.append(parts.count("\ndefine") - text.count("\ndefine"))
        return parts

    results = []
    for i, how in enumerate((lambda text: text, finely)):
        monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / str(i)))
        monkeypatch.setattr("weft.ir.cut.cut", how)
        results.append(launched(weft.cuda(SOURCE)))
    assert counts[0] > 10
    assert np.array_equal(results[0], results[1])
    assert results[0][1].any()


def test_functions_stay_small() -> None:
    assert cut(guarded(50)) == guarded(50)
    text = guarded(800)
    parts = cut(text)
    assert longest(text) > LARGE
    assert longest(parts) < 2 * PART
    # The parts are little more than the function that they are made of.
    assert parts.count("\n") < text.count("\n") * 1.1


def test_code_that_is_not_understood_stays_as_it_is() -> None:
    text = guarded(20)
    odd = "\n  %odd = freeze i32 %w\n  br label %enter\n"
    text = text.replace("\n  br label %enter\n", odd, 1)
    text = text.replace("\nB1:\n", "\nB1:\n  %even = add i32 %odd, 1\n")
    assert "%odd =" in text and "%even =" in text
    assert cut(text, large=0, part=60) == text


def test_parts_that_are_never_entered_are_left_out() -> None:
    dead = "".join(
        f"dead{i}:\n" + "  store i32 0, ptr %t1\n" * 100 + "  ret i32 0\n" for i in range(3)
    )
    text = guarded(20).replace("\nabort:\n", f"\n{dead}abort:\n", 1)
    parts = cut(text, large=0, part=60)
    assert "dead1:" in text and "dead1:" not in parts
    llvm.parse_assembly(parts, llvm.create_context()).verify()
