"""The two devices that contract tests run on: `pytest --device sim` (default) or `--device gpu`.

A device makes arrays of its own kind from NumPy's and reads them back. `module` gives kernels that
take NumPy arrays wherever they run: on a GPU they are copied there and back around the launch.
"""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

import numpy as np

import weft
from weft.device import driver, models
from weft.device.gpu import memory
from weft.device.gpu.facts import facts


class Sim:
    """The simulated GPU: NumPy arrays are its memory."""

    name = "sim"
    gpu: int | None = None

    def array(self, a: np.ndarray) -> Any:
        return a

    def read(self, a: Any) -> np.ndarray:
        return a

    def module(self, module: weft.Module) -> Any:
        return module

    def as_simulated(self, text: str) -> str:
        return text


class Gpu:
    """A real one: arrays are CUDA memory behind `__cuda_array_interface__`, of any dtype."""

    name = "gpu"
    gpu: int | None = 0

    def array(self, a: np.ndarray) -> Any:
        return CudaArray(a)

    def read(self, a: Any) -> np.ndarray:
        return a.numpy()

    def module(self, module: weft.Module) -> Any:
        return _Module(module)

    def as_simulated(self, text: str) -> str:
        """A message with the names that it has on the default model."""
        text = text.replace(facts(0).name, models.get(models.DEFAULT).name)
        return text.replace("CudaArray", "ndarray")


DEVICES = {"sim": Sim, "gpu": Gpu}
current: Sim | Gpu = Sim()
"""The device of this run; conftest.py sets it."""


class CudaArray:
    """CUDA memory that belongs to no framework; aligned, shaped and guarded as the original is."""

    def __init__(self, a: np.ndarray) -> None:
        self.shape, self.dtype, self.nbytes = a.shape, a.dtype, a.nbytes
        self.read_only = not a.flags.writeable
        self.strides = None if a.flags.c_contiguous else a.strides
        start = ctypes.c_uint64()
        with driver.current(0):
            size = ctypes.c_size_t(self.nbytes + 64)
            code = driver.library().cuMemAlloc_v2(ctypes.byref(start), size)
        driver.check(code, "allocating memory")
        weakref.finalize(self, _free, start.value)
        self.pointer = start.value + a.ctypes.data % 16
        if a.nbytes:
            memory.write(self.pointer, a.tobytes(), 0)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.pointer, self.read_only),
            "strides": self.strides,
            "version": 3,
        }

    def numpy(self) -> np.ndarray:
        data = memory.read(self.pointer, self.nbytes, 0)
        return np.frombuffer(bytearray(data), self.dtype).reshape(self.shape)


def _free(start: int) -> None:
    with driver.current(0):
        driver.library().cuMemFree_v2(ctypes.c_uint64(start))


class _Module:
    """A module whose kernels copy NumPy arrays to the GPU and back."""

    def __init__(self, module: weft.Module) -> None:
        self._module = module

    def __getattr__(self, name: str) -> _Kernel:
        return self.kernel(name)

    def kernel(self, name: str) -> _Kernel:
        return _Kernel(self._module.kernel(name))

    def variable(self, name: str, dtype: Any = np.uint8) -> Any:
        return self._module.variable(name, dtype, device=0)


class _Kernel:
    def __init__(self, kernel: weft.Kernel) -> None:
        self._kernel = kernel

    def __getitem__(self, config: Any) -> Any:
        launch = self._kernel[config]

        def run(*args: Any, **options: Any) -> None:
            is_array = [isinstance(a, np.ndarray) and not a.dtype.names for a in args]
            there = [CudaArray(a) if yes else a for a, yes in zip(args, is_array, strict=True)]
            launch(*there, **options)
            weft.synchronize()
            for a, b in zip(args, there, strict=True):
                if isinstance(b, CudaArray) and a.flags.writeable:
                    a[...] = b.numpy()

        return run

    def __call__(self, *args: Any, **options: Any) -> None:
        self._kernel(*args, **options)
