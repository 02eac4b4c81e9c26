"""Launches of CPU arrays repeated on the GPU, and compared: whole kernels, as their tests run them.

`watching(findings)` is a place in which every launch that succeeds on the simulated GPU is made
again with copies of its arguments on the real one.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from conformance.devices import DEVICE, _place
from weft.device.gpu import memory
from weft.device.sim.device import module
from weft.kernels.kernel import Launch

Finding = dict[str, Any]
Kept = Mapping[str, bytes]


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
        """Its present contents; its memory is freed."""
        from weft.device import driver

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
        kept = _variables(self)
        launch(self, *args, **options)
        if any(isinstance(x, np.ndarray) for x in args):
            findings.append(_again(self, args, before, kept) | {"where": where})

    Launch.__call__ = twice  # type: ignore[method-assign]
    try:
        yield
    finally:
        Launch.__call__ = launch  # type: ignore[method-assign]


def _again(launch: Launch, args: Sequence[Any], before: Sequence[Any], kept: Kept) -> Finding:
    """The same PTX with the same parameters on the GPU; variables are as they were before, too."""
    from weft.device import driver

    kernel, shape = launch.kernel, launch.config
    finding: Finding = {"name": kernel.name, "grid": list(shape.grid), "block": list(shape.block)}
    if any(isinstance(x, np.void) for x in args):
        return finding | {"skipped": "a structure holds addresses of the host"}
    with driver.current(DEVICE):
        there = [OnGpu(x) if isinstance(x, np.ndarray) else x for x in before]
        module = _loaded(kernel.ptx)
        for name, data in kept.items():
            if found := module.symbol(name):
                memory.write(found[0], data, DEVICE)
        params = kernel.packer.pack(there)[0]
        module.launch(kernel.entry, params, shape.grid, shape.block, shape.shared_bytes)
        wrong = values = 0
        for x, y in zip(args, there, strict=True):
            if isinstance(y, OnGpu):
                got = y.back()
                values += got.size
                wrong += int((_bits(x) != _bits(got)).sum())
    return finding | {"values": values, "differing": wrong}


@lru_cache(maxsize=16)
def _loaded(ptx: str) -> Any:
    from weft.device import gpu

    return gpu.load(ptx, DEVICE)


def _variables(launch: Launch) -> Kept:
    """The contents of the module's variables."""
    code = module(launch.kernel.program, launch.kernel.simulator)
    code.place()
    image = code.image
    return {name: image.view(name, np.dtype(np.uint8)).tobytes() for name in image.placed}


def _bits(x: np.ndarray) -> np.ndarray:
    """Elements as bit patterns: a NaN equals itself, and -0 is not 0."""
    flat = np.ascontiguousarray(x).reshape(-1)
    return flat.view(f"u{flat.itemsize}" if flat.itemsize in (1, 2, 4, 8) else f"V{flat.itemsize}")
