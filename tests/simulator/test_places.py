"""The places in errors: the user's own line, and the memory that was missed."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import pytest

import weft
from weft.ptx.lines import SourceLines

SOURCE = """\
__device__ int table[3];
__device__ float fetch(cudaTextureObject_t t) {
    return tex2D<float>(t, 0.0f, 0.5f);
}
__global__ void direct(cudaTextureObject_t t, float* y) {
    y[0] = tex2D<float>(t, 0.0f, 0.5f);
}
__global__ void called(cudaTextureObject_t t, float* y) {
    y[0] = fetch(t);
}
__global__ void apart() {
    if (threadIdx.x < 32) asm volatile("bar.sync 1, 64;");
    else asm volatile("bar.sync 2, 64;");
}
__global__ void within() {
    if (threadIdx.x < 16) asm volatile("bar.sync 1, 64;");
    else asm volatile("bar.sync 2, 64;");
}
__global__ void never(volatile int* flag) {
    if (threadIdx.x < 32)
        __syncthreads();
    else
        while (flag[0] == 0) { }
}
__global__ void heap() {
    float* p = (float*)malloc(8);
    p[2] = 1.0f;
}
__global__ void beyond(int i) {
    table[i] = 1;
}
"""
X = np.zeros(8, np.float32)

# launch, error, pieces of where, pieces of got and allowed
CASES = [
    (lambda m: m.direct[1, 32](0, X), weft.DeviceError,
     ["kernel.cu:6  `y[0] = tex2D", ", in __nv_nvrtc_builtin_header.h:"], ["surface"]),
    (lambda m: m.called[1, 32](0, X), weft.DeviceError,
     ["kernel.cu:3  `return tex2D", ", inlined at kernel.cu:9"], ["thread (0, 0, 0)"]),
    (lambda m: m.apart[1, 64](), weft.Deadlock, ["kernel.cu:12  `if (threadIdx.x < 32)"],
     ["warp 0 waits at a barrier: kernel.cu:12", "warp 1 waits at a barrier: kernel.cu:13"]),
    (lambda m: m.within[1, 32](), weft.Deadlock, ["kernel.cu:1"],
     ["warp 0 waits at a barrier: kernel.cu:1"]),
    (lambda m: m.never[1, 64](np.zeros(1, np.int32)), weft.Deadlock, ["kernel.cu:21"],
     ["warp 0 waits at a barrier: kernel.cu:21", "warp 1 spins on a value", "kernel.cu:23"]),
    (lambda m: m.heap[1, 1](), weft.IllegalAddress, ["kernel.cu:27  `p[2] = 1.0f;`"],
     ["'heap block' (8 bytes): 4 bytes past its end"]),
    (lambda m: m.beyond[1, 1](4), weft.IllegalAddress, ["kernel.cu:30"],
     ["'table' (12 bytes): 8 bytes past its end"]),
]  # fmt: skip


@pytest.mark.parametrize("launch, kind, where, said", CASES)
def test_places(
    launch: Callable[[weft.Module], None], kind: type[weft.Error], where: list[str], said: list[str]
) -> None:
    with pytest.raises(kind) as caught:
        launch(weft.cuda(SOURCE))
    for piece in where:
        assert piece in caught.value.where
    for piece in said:
        assert piece in f"{caught.value.got} {caught.value.allowed}"
    assert os.getcwd() not in str(caught.value)


def test_the_own_line_is_the_innermost_of_the_users() -> None:
    text = '.file 1 "mine.cu"\n.file 2 "theirs.h"\n'
    lines = SourceLines(text, {"mine.cu": "outer\n  inner;\n"})
    for loc in (".loc 1 1 1", ".loc 1 2 3, function_name f, inlined_at 1 1 1"):
        assert lines.at(loc) == lines.at(loc).own  # type: ignore[union-attr]
    deep = lines.at(".loc 2 9 1, function_name g, inlined_at 1 2 3")
    assert deep is not None
    assert (str(deep), str(deep.own), deep.own.quote) == ("theirs.h:9", "mine.cu:2", "inner;")
    assert deep.own.calls == ", inlined at mine.cu:1"
    assert deep.calls == ", inlined at mine.cu:2, inlined at mine.cu:1"


@pytest.mark.parametrize("condition", ["threadIdx.x < 32", "threadIdx.x < 16", "threadIdx.x > 0"])
def test_exited_threads_do_not_hold_up_a_barrier(condition: str) -> None:
    """As on a GPU since Volta, where a barrier counts the threads that have not exited."""
    source = (
        f"__global__ void k(float* y) {{ if ({condition}) __syncthreads(); y[threadIdx.x] = 1; }}"
    )
    y = np.zeros(64, np.float32)
    weft.cuda(source).k[1, 64](y)
    assert y.all()
