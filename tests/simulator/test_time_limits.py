"""Time limits: what may be given, that they cover compiling, and streams that are none."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from numba import cuda

import weft

ONE = np.zeros(1, np.int32)
NO_LIMITS = [float("nan"), "a", -1, 0, -0.5, True, [1]]


def _kernel(text: str = "x[0] = 1;") -> weft.Kernel:
    return weft.cuda(f'extern "C" __global__ void k(int *x) {{ {text} }}').k


@cuda.jit
def numba_kernel(x):  # type: ignore[no-untyped-def]
    x[0] = 1


@triton.jit
def triton_kernel(x):  # type: ignore[no-untyped-def]
    tl.store(x, 1)


PLACES: dict[str, Callable[[Any], object]] = {
    "launch": lambda limit: _kernel()[1, 1](ONE, time_limit=limit),
    "keywords": lambda limit: _kernel()(ONE, grid=1, block=1, time_limit=limit),
    "sanitize": lambda limit: _kernel()[1, 1](ONE, time_limit=limit, sanitize=True),
    "numba": lambda limit: weft.kernel(numba_kernel)[1, 1](ONE, time_limit=limit),
    "triton": lambda limit: weft.kernel(triton_kernel)[1](torch.zeros(1), time_limit=limit),
    "profile": lambda limit: weft.profile(_kernel()[1, 1], ONE, time_limit=limit),
}


@pytest.mark.parametrize("limit", NO_LIMITS, ids=repr)
@pytest.mark.parametrize("place", PLACES)
def test_what_is_no_time_limit(place: str, limit: Any) -> None:
    with pytest.raises(weft.ArgumentError, match="time_limit is a number of seconds\n  got: "):
        PLACES[place](limit)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "limit", [None, 600, 1e9, float("inf"), np.float64(600), 10**400], ids=lambda x: repr(x)[:9]
)
def test_what_is_one(place: str, limit: Any) -> None:
    PLACES[place](limit)


@pytest.mark.parametrize("how", [{}, {"sanitize": True}], ids=["plain", "sanitize"])
def test_it_covers_compiling(how: dict[str, Any]) -> None:
    """Nothing compiles in a microsecond; the text is new, so no cache has its code."""
    k = _kernel(f"/* {uuid.uuid4()} */ for (int i = 0; i < 100; i++) x[0] += __sinf(x[0] * i);")
    late = "k ran past its time limit\n  got: still compiling"
    with pytest.raises(weft.TimeLimit, match=late):
        k[1, 32](ONE.copy(), time_limit=1e-6, **how)
    k[1, 32](ONE.copy())


def test_a_session_covers_compiling() -> None:
    """The launch that is not compiled in time adds nothing to the report of those before it."""
    k = _kernel(f"/* {uuid.uuid4()} */ x[0] += __sinf(x[0]);")
    with weft.sanitize() as report:
        _kernel("x[0] = 1;")[1, 32](ONE.copy())
        with pytest.raises(weft.TimeLimit, match="still compiling"):
            k[1, 32](ONE.copy(), time_limit=1e-6)
    assert report.launches == 1


EXITS = """
import numpy as np, weft

k = weft.cuda('extern "C" __global__ void k(float *x) { x[0] = __sinf(x[1]); }').k
try:
    k[1, 32](np.zeros(2, np.float32), time_limit=1e-6)
except weft.TimeLimit as error:
    print(error)
"""


def test_a_process_that_ends_waits_for_its_compiler(tmp_path: Path) -> None:
    """LLVM crashes when a process ends while it works; its code is kept for the next process."""
    env = {**os.environ, "WEFT_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", EXITS]
    ended = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert ended.returncode == 0 and not ended.stderr, ended
    assert "still compiling" in ended.stdout
    assert list(tmp_path.glob("**/sim/**/*")), "compiled code is kept"


@pytest.mark.parametrize(
    "stream", ["junk", 3.5, -4, True, object()], ids=lambda s: type(s).__name__
)
def test_what_is_no_stream(stream: object) -> None:
    with pytest.raises(weft.LaunchError, match="not a CUDA stream"):
        weft.kernel(numba_kernel)[1, 1, 0, stream](ONE)
    with pytest.raises(weft.LaunchError, match="not a CUDA stream"):
        _kernel()[1, 1, 0, stream](ONE)
    with pytest.raises(weft.LaunchError, match="not a CUDA stream"):
        _kernel()(ONE, grid=1, block=1, stream=stream)


def test_what_is_one_on_the_simulator() -> None:
    class Stream:
        cuda_stream = 7

    for stream in (None, 0, 7, Stream()):
        _kernel()[1, 1, 0, stream](ONE)
