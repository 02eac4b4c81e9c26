"""Implements Triton's GPU driver interface with the simulated GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase
from triton.runtime import driver as active_driver

from weft.device.models import GpuModel
from weft.frontends import clock
from weft.frontends.triton import cublas, dispatch, pipeline, timing
from weft.frontends.triton.deferred import Deferred
from weft.frontends.triton.launcher import Launcher, Scratch, Variant, running

FIRST_SIMULATED = 1000
"""The first device number of simulated GPUs if there are real ones."""

_simulator: SimDriver | None = None

_CPP = {"i1": "int8_t", "u1": "uint8_t", "fp16": "double", "bf16": "double", "fp32": "double",
        "f32": "double", "fp64": "double"}  # fmt: skip


class SimUtils:
    """Loads code and describes the GPU for Triton."""

    def __init__(self, driver: SimDriver) -> None:
        self._driver = driver

    def load_binary(
        self, name: str, binary: bytes, shared: int, device: int
    ) -> tuple[Variant, Variant, Deferred, Deferred, int]:
        """(module, function, registers, spills, most threads)."""
        model, fast = self._driver.simulated(device)
        kernel = Variant(binary.decode(), name, model, fast=fast)
        registers = Deferred(lambda: kernel.resources.registers)
        spills = Deferred(lambda: kernel.resources.spill_stores or 0)
        return kernel, kernel, registers, spills, model.max_threads_per_block

    def unload_module(self, module: Variant) -> None:
        """Do nothing: Python frees the module."""

    def get_device_properties(self, device: int) -> dict[str, int]:
        m, _ = self._driver.simulated(device)
        clock_khz = m.boost_mhz * 1000
        return {
            "max_shared_mem": m.shared_per_block,
            "max_num_regs": m.registers_per_sm,
            "multiprocessor_count": m.sms,
            "warpSize": m.warp_size,
            "sm_clock_rate": clock_khz,
            "mem_clock_rate": m.memory_khz,
            "mem_bus_width": m.memory_bus_bits,
        }

    def set_printf_fifo_size(self, size: int) -> None:
        """Do nothing: printf output is not buffered."""


class DeviceInterface:
    """The functions of `torch.cuda` that `triton.testing.do_bench` uses."""

    Event = clock.Event

    @staticmethod
    def synchronize(device: object = None) -> None:
        """Do nothing: launches are synchronous."""

    @staticmethod
    def current_device() -> int:
        return 0

    @staticmethod
    def set_device(device: object) -> None:
        """There is one."""

    @staticmethod
    def current_stream(device: object = None) -> None:
        return None


class SimDriver(DriverBase):  # type: ignore[misc]
    """The driver; each simulated GPU in use has its own device number."""

    launcher_cls = Launcher
    _devices: ClassVar[list[tuple[GpuModel, bool]]] = []
    """The GPUs of all drivers of the process: Triton caches kernels and limits by their numbers."""

    def __init__(self, model: GpuModel, fast: bool, first: int) -> None:
        """`first` is the number of the first device."""
        self.first, self._own = first, (model, fast)
        self.current = self._number(model, fast)
        self.utils = SimUtils(self)

    def _number(self, model: GpuModel, fast: bool) -> int:
        if (model, fast) not in self._devices:
            self._devices.append((model, fast))
        return self.first + self._devices.index((model, fast))

    def simulated(self, device: int) -> tuple[GpuModel, bool]:
        """(model, fast tensor cores) of a device number; unknown numbers mean the driver's own."""
        number = device - self.first
        return self._devices[number] if 0 <= number < len(self._devices) else self._own

    @contextmanager
    def simulating(self, model: GpuModel, fast: bool) -> Iterator[None]:
        """Send launches inside to this GPU; Triton caches kernels per device number."""
        before, self.current = self.current, self._number(model, fast)
        try:
            yield
        finally:
            self.current = before

    @classmethod
    def is_active(cls) -> bool:
        """Always False: Triton must not select this driver automatically."""
        return False

    def get_current_target(self) -> GPUTarget:
        return pipeline.target(self.simulated(self.current)[0])

    def get_current_device(self) -> int:
        return self.current

    def set_current_device(self, device: int) -> None:
        """There is one at a time."""

    def get_current_stream(self, device: int = 0) -> int:
        return 0

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        major, minor = divmod(self.get_current_target().arch, 10)
        return major, minor

    def get_active_torch_device(self) -> Any:
        from weft.frontends.pytorch import redirect

        return redirect.device()

    def get_device_interface(self) -> type[DeviceInterface]:
        return DeviceInterface

    def get_benchmarker(self) -> Callable[..., Any]:
        return _bench

    def get_empty_cache_for_benchmark(self) -> Any:
        import torch

        return torch.empty(1, dtype=torch.int)

    def clear_cache(self, cache: Any) -> None:
        """Do nothing: times of the simulation do not depend on a GPU cache."""

    def map_python_to_cpp_type(self, ty: str) -> str:
        return "CUdeviceptr" if ty[0] == "*" else _CPP.get(ty) or _integer(ty)

    def allocate_default_profile_scratch(self, size: int, alignment: int, stream: object) -> Any:
        return Scratch(size, alignment)

    def assemble_tensormap_to_arg(self, tensormaps_info: object, args: Any) -> Any:
        return args


def activate(model: GpuModel, *, fast: bool, alone: bool, autotune: bool = False) -> None:
    """Activate a simulated GPU, alone or in addition to a real one."""
    global _simulator
    pipeline.check_version()
    # Without a real GPU since then: `torch.cuda.is_available` may describe the simulated one.
    alone = alone or is_alone()
    real = None if alone else dispatch.real_driver()
    _simulator = SimDriver(model, fast, 0 if real is None else FIRST_SIMULATED)
    if real is None:
        pipeline.install()
        timing.install(autotune=autotune)
        cublas.install()
        active_driver.set_active(_simulator)
    else:
        active_driver.set_active(dispatch.DispatchingDriver(real, _simulator))


def is_alone() -> bool:
    """True if a simulated GPU is active and no real one beside it, as under `weft run`."""
    return _simulator is not None and _simulator.first != FIRST_SIMULATED


@contextmanager
def simulating(model: GpuModel, fast: bool) -> Iterator[None]:
    """Send Triton launches inside to this model; activate a simulated GPU if none is active."""
    if _simulator is None:
        activate(model, fast=fast, alone=False)
    assert _simulator is not None
    with _simulator.simulating(model, fast):
        if _simulator.first == FIRST_SIMULATED:
            with dispatch.in_charge(_simulator):
                yield
        else:
            yield


def _bench(
    call: Callable[[], Any], *, quantiles: Sequence[float] | None = None, **_: object
) -> float | list[float]:
    with running():
        took = clock.bench(call)
    return took if quantiles is None else [took] * len(quantiles)


def _integer(ty: str) -> str:
    return f"{'u' if ty[0] == 'u' else ''}int{ty[1:]}_t"
