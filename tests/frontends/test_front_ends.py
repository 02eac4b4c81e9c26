"""One kernel in CUDA C++, Numba and Triton under every tool: what is said is the same of all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")
cuda = pytest.importorskip("numba.cuda")

import triton.language as tl  # noqa: E402

N, BLOCK = 1000, 256

CUDA = r"""
__global__ void scaled(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 3 * x[i];  // right in cuda
}
__global__ void wrong(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = i == 700 ? 0 : 3 * x[i];  // wrong in cuda
}
__global__ void racy(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i / 2] = 3 * x[i];  // racy in cuda
}
"""


@cuda.jit
def numba_scaled(x, y, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = 3 * x[i]  # right in numba


@cuda.jit
def numba_wrong(x, y, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = 0 if i == 700 else 3 * x[i]  # wrong in numba


@cuda.jit
def numba_racy(x, y, n):
    i = cuda.grid(1)
    if i < n:
        y[i // 2] = 3 * x[i]  # racy in numba


@triton.jit
def triton_scaled(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 3 * tl.load(x + i, i < n), i < n)  # right in triton


@triton.jit
def triton_wrong(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.where(i == 700, 0, 3 * tl.load(x + i, i < n)), i < n)  # wrong in triton


@triton.jit
def triton_racy(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i // 2, 3 * tl.load(x + i, i < n), i < n)  # racy in triton


@dataclass(frozen=True)
class End:
    """A front end: its kernels, how they are launched, and what the launch is given by name."""

    name: str
    kernels: Callable[[str], Any]
    config: Any
    array: Callable[[Any], Any] = np.asarray
    named: Mapping[str, Any] = field(default_factory=dict)

    def launch(self, kernel: str) -> Any:
        return self.kernels(kernel)[self.config]

    def given(self) -> tuple[Any, Any, int]:
        x = np.random.default_rng(0).standard_normal(N).astype(np.float32)
        return self.array(x), self.array(np.zeros(N, np.float32)), N

    def line(self, kind: str) -> int:
        """The line of its kernel that has this comment."""
        text = CUDA if self.name == "cuda" else Path(__file__).read_text()
        return 1 + next(
            i for i, s in enumerate(text.splitlines()) if s.endswith(f"{kind} in {self.name}")
        )


GRID = weft.cdiv(N, BLOCK)
ENDS = [
    End("cuda", lambda name: weft.cuda(CUDA).kernel(name), (GRID, BLOCK)),
    End("numba", lambda name: weft.kernel(globals()[f"numba_{name}"]), (GRID, BLOCK)),
    End(
        "triton",
        lambda name: weft.kernel(globals()[f"triton_{name}"]),
        (GRID,),
        array=torch.from_numpy,
        named={"BLOCK": BLOCK},
    ),
]
each = pytest.mark.parametrize("end", ENDS, ids=lambda end: end.name)


def triple(x: Any) -> Any:
    return 3 * x


@each
def test_right(end: End) -> None:
    x, y, n = end.given()
    report = weft.check(end.launch("scaled"), x, y, n, out=y, reference=triple, **end.named)
    assert report.deterministic and "scaled" in report.name
    assert not y.any(), "a check has arrays of its own"


@each
def test_wrong(end: End) -> None:
    """The output is called as the function calls it, and so is the line that wrote it."""
    x, y, n = end.given()
    with pytest.raises(weft.CheckFailed, match="1 of 1000 elements of 'y' are wrong") as caught:
        weft.check(end.launch("wrong"), x, y, n, out="y", reference=triple, **end.named)
    assert caught.value.index == (700,)
    assert f":{end.line('wrong')}" in caught.value.writer, caught.value.writer


@each
def test_profiled(end: End) -> None:
    x, y, n = end.given()
    p = weft.profile(end.launch("scaled"), x, y, n, device="sim:rtx3070", **end.named)
    np.testing.assert_array_equal(y, 3 * x)
    assert p.launch.kernel.endswith("scaled") and p.gpu == "rtx3070" and p.launch.grid == (4, 1, 1)
    assert {a.name: (a.read, a.written) for a in p.arrays} == {"x": (4000, 0), "y": (0, 4000)}
    line = next(at for at in p.lines if at.number == end.line("right"))
    assert {a.kind: a.bytes for a in line.accesses} == {"load": 4000, "store": 4000}


@each
def test_sanitized(end: End) -> None:
    x, y, n = end.given()
    end.launch("scaled")(x, y, n, sanitize=True, **end.named)
    np.testing.assert_array_equal(y, 3 * x)
    with pytest.raises(weft.SanitizerError, match="data race") as caught:
        end.launch("racy")(x, y, n, sanitize=True, **end.named)
    assert {a.number for f in caught.value.findings for a in f.accesses} == {end.line("racy")}
    with weft.sanitize(raises=False) as report:
        end.launch("racy")(x, y, n, **end.named)
    assert report.launches == 1 and report.findings


@each
def test_too_many_arguments(end: End) -> None:
    x, y, n = end.given()
    for tool in (weft.profile, weft.check):
        how: dict[str, Any] = {} if tool is weft.profile else {"out": y, "reference": triple}
        with pytest.raises(weft.ArgumentError, match=r"scaled takes \d arguments"):
            tool(end.launch("scaled"), x, y, n, n, n, **how)


@pytest.mark.parametrize("end", ENDS[:2], ids=lambda end: end.name)
def test_a_typing_error(end: End) -> None:
    x, y, n = end.given()
    with pytest.raises(weft.ArgumentError, match="none by name\n  got: sed="):
        weft.check(end.launch("scaled"), x, y, n, out=y, reference=triple, sed=3)
    with pytest.raises(weft.ArgumentError, match="none by name\n  got: gpuu="):
        weft.profile(end.launch("scaled"), x, y, n, gpuu="rtx3070")


def test_time_limits_of_triton() -> None:
    x, y, n = ENDS[2].given()
    with pytest.raises(weft.DeviceError, match="time limit"):
        weft.kernel(endless)[1](torch.zeros(1, dtype=torch.int32), time_limit=0.2)
    ENDS[2].launch("scaled")(x, y, n, BLOCK=BLOCK, time_limit=200)
    assert torch.equal(y, 3 * x)


@triton.jit
def endless(flag):
    turns = 0
    while tl.load(flag, volatile=True) <= turns:  # changes from turn to turn: no deadlock
        turns += 1


@triton.autotune([triton.Config({"BLOCK": b}) for b in (128, 256)], key=["n"])
@triton.jit
def tuned(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 3 * tl.load(x + i, i < n), i < n)


def test_an_autotuned_kernel_takes_its_first_configuration_and_is_profiled_once() -> None:
    x, y, n = ENDS[2].given()
    grid = lambda meta: (triton.cdiv(n, meta["BLOCK"]),)  # noqa: E731
    p = weft.profile(weft.kernel(tuned)[grid], x, y, n)
    assert list(tuned.cache.values()) == tuned.configs[:1]
    assert p.launch.grid[0] == weft.cdiv(n, tuned.best_config.kwargs["BLOCK"])
    assert [(a.name, a.written) for a in p.arrays if a.written] == [("y", 4000)]
    assert torch.equal(y, 3 * x)
