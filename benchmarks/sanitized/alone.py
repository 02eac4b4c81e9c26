"""One planted bug (or its twin) without weft's sanitizer, for other tools to look at.

alone.py CASE [twin]     CUDA C++ on a real GPU; Triton and Numba in their own simulators
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import planted
from planted import Case


def main(name: str, bug: bool) -> None:
    case = next(c for c in planted.cases() if c.id == name)
    {"CUDA C++": _gpu, "Triton": _triton, "Numba": _numba}[case.language](case, bug)


def _gpu(case: Case, bug: bool) -> None:
    """Through the driver alone, so that allocations are as a C++ program makes them."""
    from cuda.bindings import driver

    import weft

    def done(result: Any) -> Any:
        status, *values = result
        if int(status):
            print(f"driver: {status!r}")
            sys.exit(2)
        return values[0] if values else None

    ptx = weft.cuda(case.source(bug=bug), name=f"{case.name}.cu", arch="sm_90").ptx
    done(driver.cuInit(0))
    context = done(driver.cuDevicePrimaryCtxRetain(done(driver.cuDeviceGet(0))))
    done(driver.cuCtxSetCurrent(context))
    module = done(driver.cuModuleLoadData(ptx.text.encode() + b"\0"))
    function = done(driver.cuModuleGetFunction(module, ptx.entries["k"].encode()))
    values: list[Any] = []
    kept = []
    for text, value in zip(case.args, case.arguments(np.empty), strict=True):
        if isinstance(value, np.ndarray):
            memory = done(driver.cuMemAlloc(value.nbytes))
            if not text.endswith("=fresh"):
                done(driver.cuMemcpyHtoD(memory, value.ctypes.data, value.nbytes))
            values.append(np.array([int(memory)], np.uint64))
            kept.append(memory)
        else:
            values.append(np.array([value or 0], np.uint64 if value is None else np.int32))
    pointers = np.array([v.ctypes.data for v in values], np.uint64)
    grid, block = ((*d, 1, 1)[:3] for d in (case.grid, case.block))
    done(driver.cuLaunchKernel(function, *grid, *block, case.shared, 0, pointers.ctypes.data, 0))
    done(driver.cuCtxSynchronize())
    for memory in kept:
        done(driver.cuMemFree(memory))


def _bug(case: Case, bug: bool) -> Any:
    folder = Path(tempfile.mkdtemp())
    path = folder / "bug.py"
    path.write_text(case.source(bug=bug), encoding="utf-8")
    sys.path.insert(0, str(folder))
    import bug as module

    return module.k


def _triton(case: Case, bug: bool) -> None:
    import torch

    given = case.arguments(np.empty)
    args = [torch.from_numpy(a) if isinstance(a, np.ndarray) else a for a in given]
    _bug(case, bug)[case.grid](*args)


def _numba(case: Case, bug: bool) -> None:
    from numba import cuda

    cuda.jit(_bug(case, bug))[case.grid, case.block](*case.arguments(np.empty))


if __name__ == "__main__":
    main(sys.argv[1], "twin" not in sys.argv[2:])
