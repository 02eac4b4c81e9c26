"""The real GPU behind the Device protocol, with a driver that records launches instead of running.

The module that the driver would load is replaced; choosing the device, checking limits, packing,
preparing and launching are the product's own.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import weft
from weft.device import devices, driver, models
from weft.device.base import LaunchConfig
from weft.device.gpu import device as gpu_device
from weft.device.gpu import loaded, pending
from weft.device.gpu.call import KernelCall, ParameterLayout
from weft.device.sim.device import SimDevice
from weft.source.resources import Resources

SOURCE = """
__device__ float factor = 2;
__global__ void __launch_bounds__(256) scale(float* x, int n) {
    if (threadIdx.x < n) x[threadIdx.x] *= factor;
}
__global__ void nothing() {}
"""
ADDRESS = 0x7000_0000

LaunchKernel = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
)


class OnGpu:
    """An array of 32 floats on a GPU, as CuPy or Numba describe one."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": (32,), "typestr": "<f4", "data": (ADDRESS, False), "version": 3}


class Driver:
    """Stands in for libcuda, and keeps its launches: (grid, block, stream, parameters)."""

    def __init__(self) -> None:
        self.launches: list[tuple[Any, ...]] = []
        self.sizes: tuple[int, ...] = ()
        self.cuLaunchKernelEx = LaunchKernel(self._launch)
        self.cuPointerGetAttribute: Callable[..., int] = lambda *args: driver.SUCCESS

    def _launch(self, config: int, function: int, params: int, extra: int) -> int:
        c = driver.CuLaunchConfig.from_address(config)
        pointers = (ctypes.c_void_p * len(self.sizes)).from_address(params)
        pairs = zip(pointers, self.sizes, strict=True)
        values = tuple(int.from_bytes(ctypes.string_at(at or 0, n), "little") for at, n in pairs)
        self.launches.append((tuple(c.grid), tuple(c.block), c.stream or 0, values))
        return driver.SUCCESS


class LoadedModule:
    """A module that the driver has loaded."""

    def __init__(self, image: Any, device: int, origin: str, ptx: str) -> None:
        self.image, self.device = image, device

    def resources(self, entry: str) -> Resources:
        known = dict.fromkeys(("local_bytes", "shared_bytes", "constant_bytes"), 0)
        return Resources(
            arch="sm_90a", registers=32, spill_stores=None, spill_loads=None, barriers=None, **known
        )

    def call(self, entry: str, layout: ParameterLayout, *config: Any, name: str) -> KernelCall:
        return KernelCall(name, 7, self.device, layout, LaunchConfig(*config), False)

    def symbol(self, name: str) -> tuple[int, int] | None:
        return (ADDRESS, 4) if name == "factor" else None


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Driver:
    library = Driver()
    monkeypatch.setattr(driver, "library", lambda: library)
    monkeypatch.setattr(driver, "count", lambda: 1)
    monkeypatch.setattr(gpu_device, "facts", lambda number: models.get("h200"))
    monkeypatch.setattr(loaded, "facts", lambda number: models.get("h200"))
    monkeypatch.setattr(loaded, "load", lambda image, device, *, origin, ptx: LoadedModule(
        image, device, origin, ptx))  # fmt: skip
    monkeypatch.setattr(pending, "launched", SimpleNamespace(append=lambda name: None))
    return library


def test_a_launch_goes_where_the_arrays_are(fake: Driver) -> None:
    kernel = weft.cuda(SOURCE).scale
    launch, fake.sizes = kernel[2, 64, 0, 9], (8, 4)
    for _ in range(2):
        launch(OnGpu(), 32)
    kernel.bind(3, 32, OnGpu(), 5, stream=11)()
    assert fake.launches == [
        ((2, 1, 1), (64, 1, 1), 9, (ADDRESS, 32)),
        ((2, 1, 1), (64, 1, 1), 9, (ADDRESS, 32)),
        ((3, 1, 1), (32, 1, 1), 11, (ADDRESS, 5)),
    ]
    x = np.ones(32, np.float32)
    kernel[1, 32](x, 16)  # the same kernel, on the simulated GPU
    assert x.sum() == 48 and len(fake.launches) == 3


def test_what_a_real_gpu_refuses(fake: Driver) -> None:
    kernel = weft.cuda(SOURCE).scale
    with pytest.raises(weft.LaunchError, match="compiled for fewer threads a block"):
        kernel[1, 512](OnGpu(), 32)
    with pytest.raises(weft.ArgumentError, match="sanitized on the simulated GPU only"):
        kernel[1, 32, 0, 1](OnGpu(), 32, sanitize=True)
    with pytest.raises(weft.ArgumentError, match="observed on the simulated GPU only"):
        kernel[1, 32].observe(object(), OnGpu(), 32)
    with pytest.raises(weft.LaunchError, match="a grid needs blocks"):
        kernel[0, 32, 0, 1](OnGpu(), 32)
    assert fake.launches == []


def test_a_kernel_that_is_compiled_for_a_real_gpu(fake: Driver) -> None:
    module = weft.cuda(SOURCE, device="gpu")
    with pytest.raises(weft.ArgumentError, match="compiled for a real GPU, its arrays are in host"):
        module.scale[1, 32](np.ones(32, np.float32), 32)
    module.nothing[4, 1, 0, 3]()
    assert fake.launches == [((4, 1, 1), (1, 1, 1), 3, ())]
    assert module.scale.home is devices.real(0)
    assert module.scale.resources.registers > 0  # as the compiler reports it


def test_variables_by_their_device(fake: Driver) -> None:
    module = weft.cuda(SOURCE)
    assert module.variable("factor", np.float32)[0] == 2
    there = module.variable("factor", np.float32, device="gpu:0")
    assert (there.address, there.nbytes, there.device) == (ADDRESS, 4, 0)
    with pytest.raises(weft.LaunchError, match="no variable 'facto'"):
        module.variable("facto", np.float32, device=0)


def test_devices_are_told_apart() -> None:
    h200, t4 = models.get("h200"), models.get("t4")
    same = {devices.simulated(h200), SimDevice(h200), devices.simulated(h200, fast=True)}
    assert len(same) == 2 and devices.simulated(t4) not in same
    assert devices.simulated(t4).limits.machine == "sm_75"
