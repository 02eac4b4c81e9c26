"""Launches of CPU arrays repeated on the GPU, and compared: whole kernels, as their tests run them.

`watching(findings)` is a place in which every launch that succeeds on the simulated GPU is made
again with copies of its arguments on the real one.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np

import weft
from conformance.devices import DEVICE, _place
from weft.kernels.kernel import Launch

Finding = dict[str, Any]


class OnGpu:
    """A copy of an array on the GPU."""

    def __init__(self, x: np.ndarray) -> None:
        self.shape, self._dtype = x.shape, x.dtype
        self._at = _place(np.ascontiguousarray(x)) if x.nbytes else ctypes.c_uint64(0)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": self.shape, "typestr": self._dtype.str, "version": 3,
                "data": (self._at.value or 0, False), "strides": None}  # fmt: skip

    def back(self) -> np.ndarray:
        """What it holds now; its memory is given back."""
        from weft.device.gpu import driver

        out = np.empty(self.shape, self._dtype)
        if out.nbytes:
            lib, size = driver.library(), ctypes.c_size_t(out.nbytes)
            target = ctypes.c_void_p(out.ctypes.data)
            driver.check(lib.cuMemcpyDtoH_v2(target, self._at, size), "a result was copied")
            driver.check(lib.cuMemFree_v2(self._at), "memory was freed")
        return out


@contextlib.contextmanager
def watching(findings: list[Finding], where: str) -> Iterator[None]:
    """Adds a finding for each launch made meanwhile."""
    launch = Launch.__call__

    def twice(self: Launch, *args: Any, **options: Any) -> None:
        before = [x.copy() if isinstance(x, np.ndarray) else x for x in args]
        launch(self, *args, **options)
        if any(isinstance(x, np.ndarray) for x in args):
            findings.append(_again(launch, self, args, before) | {"where": where})

    Launch.__call__ = twice  # type: ignore[method-assign]
    try:
        yield
    finally:
        Launch.__call__ = launch  # type: ignore[method-assign]


def _again(launch: Any, shape: Launch, args: Any, before: list[Any]) -> Finding:
    from weft.device.gpu import driver

    with driver.current(DEVICE):
        there = [OnGpu(x) if isinstance(x, np.ndarray) else x for x in before]
        finding: Finding = {
            "name": shape.kernel.name, "grid": list(shape.shape.grid),
            "block": list(shape.shape.block),
        }  # fmt: skip
        try:
            launch(shape, *there)
            weft.synchronize()
        except (weft.LaunchError, weft.ArgumentError) as error:  # nothing was launched
            return finding | {"refused": str(error).splitlines()[0]}
        wrong = values = 0
        for x, y in zip(args, there, strict=True):
            if isinstance(y, OnGpu):
                got = y.back()
                values += got.size
                wrong += int((_bits(x) != _bits(got)).sum())
    return finding | {"values": values, "differing": wrong}


def _bits(x: np.ndarray) -> np.ndarray:
    """Elements as bit patterns: a NaN equals itself, and -0 is not 0."""
    flat = np.ascontiguousarray(x).reshape(-1)
    return flat.view(f"u{flat.itemsize}" if flat.itemsize in (1, 2, 4, 8) else f"V{flat.itemsize}")
