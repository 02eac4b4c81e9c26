"""Kernels that are compiled before they run, several at the same time."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import weft
from weft.device import jit
from weft.device.sim.run import compile as compiler
from weft.device.sim.run.ahead import compile_ahead

KERNEL = "__global__ void ahead_{n}(float* x) {{ x[threadIdx.x] += {n}.5f; }}"


def test_launches_compile_and_do_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[tuple[str, str]] = []
    real = compiler.jit.compile_object

    def counted(text: str, **how: Any) -> bytes:
        compiled.append((threading.current_thread().name, text))
        return real(text, **how)

    monkeypatch.setattr(compiler.jit, "compile_object", counted)
    seed = np.random.default_rng().integers(1 << 30)  # the cache has none of these kernels
    kernels = [
        weft.cuda(KERNEL.format(n=int(seed) + i)).kernel(f"ahead_{int(seed) + i}") for i in range(3)
    ]
    x = np.zeros(32, np.float32)
    with compile_ahead():
        for kernel in (*kernels, kernels[0]):
            kernel[1, 32](x)
    assert not x.any() and len(compiled) == 3
    assert all(name.startswith("weft") for name, _ in compiled)
    for kernel in kernels:
        kernel[1, 32](x)
    assert x.any() and len(compiled) == 3  # nothing was compiled again


def test_errors_of_the_compilation_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(text: str, **how: Any) -> bytes:
        raise weft.Error("no code")

    monkeypatch.setattr(compiler.jit, "compile_object", refused)
    seed = int(np.random.default_rng().integers(1 << 30))
    kernel = weft.cuda(KERNEL.format(n=seed)).kernel(f"ahead_{seed}")
    with pytest.raises(weft.Error, match="no code"), compile_ahead():
        kernel[1, 32](np.zeros(32, np.float32))


IR = """
define i32 @run(ptr %context, ptr %worker) {{
  {lines}
  ret i32 0
}}
"""


def test_threads_compile_the_same_code_as_one() -> None:
    """llvmlite's lock is not held, so each compilation must be independent of the others."""
    lines = "\n  ".join(
        f"%p{i} = getelementptr i32, ptr %context, i64 {i}\n  store i32 {i * i}, ptr %p{i}"
        for i in range(300)
    )
    text = IR.format(lines=lines)
    want = jit.compile_object(text)
    results: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: results.append(jit.compile_object(text))) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [want] * 6
