"""Installs a simulated GPU under Numba, so that unedited programs run without a GPU.

Seven names inside Numba are replaced. Everything above them is Numba's own code: device arrays,
streams, events, contexts, overloads, ufuncs, reductions.

    driver.driver.cu*            functions of the CUDA driver       driver.py
    driver.ExperimentalDevice    the device and its name            `_Device`, below
    driver._to_core_stream       streams as launches take them      as they are
    driver.Function              functions of loaded code           image.py
    nrt.launch, nrt._Linker      Numba's own kernels                image.py
    dispatcher._Kernel           compiled kernels                   compiled.py
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from numba.cuda import dispatcher
from numba.cuda.cudadrv import driver
from numba.cuda.memory_management import nrt

from weft.device.models import GpuModel
from weft.errors import LaunchError
from weft.frontends.numba.compiled import kernel_class
from weft.frontends.numba.driver import CONTEXT, functions, reachable, unserved
from weft.frontends.numba.image import NumbaFunction, launcher, linker

_installed: list[GpuModel] = []


def installed() -> bool:
    """True if Numba uses the simulated driver."""
    return bool(_installed)


def install(model: GpuModel, *, force: bool) -> bool:
    """Install the simulated GPU; without `force` only if Numba finds no GPU."""
    if _installed:
        if _installed[0] != model:
            raise LaunchError(
                "another simulated GPU is already under Numba",
                got=model.key,
                allowed=_installed[0].key,
                next="choose the GPU once, before the first launch",
            )
        return True
    real = driver.driver.is_available
    if real and not force:
        return False
    # Numba caches device objects, so the choice is final for the process.
    _installed.append(model)
    _replace_driver(model, bindings=not real)
    driver.ExperimentalDevice = lambda number: _Device(number, model)
    driver._to_core_stream = _stream
    driver.Function = NumbaFunction
    nrt.launch, nrt._Linker = launcher(reachable), linker(model)
    dispatcher._Kernel = kernel_class(model.key)
    dispatcher.config.CUDA_LOW_OCCUPANCY_WARNINGS = (
        0  # the warning concerns the speed of a real GPU
    )
    return True


def _replace_driver(model: GpuModel, *, bindings: bool) -> None:
    """`bindings`: scripts that call `cuda.bindings` themselves get the same functions."""
    numba_driver = driver.driver
    numba_driver.is_initialized, numba_driver.initialization_error = False, None
    for name, function in functions(model).items():
        setattr(numba_driver, name, function)
        if bindings:
            setattr(driver.binding, name, _as_binding(function))
    numba_driver._cuda_python_wrap_fn = unserved
    numba_driver.ensure_initialized()


def _as_binding(function: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
    """The function as `cuda.bindings` has it, which returns the error code first."""

    @functools.wraps(function)
    def call(*args: Any) -> tuple[Any, ...]:
        try:
            result = function(*args)
        except driver.CudaAPIError as error:
            return (driver.binding.CUresult(error.code),)
        results = result if isinstance(result, tuple) else () if result is None else (result,)
        return (driver.binding.CUresult.CUDA_SUCCESS, *results)

    return call


def _stream(stream: Any) -> Any:
    """Return the stream unchanged: launches are synchronous."""
    return stream


class _Device:
    """The device object that Numba uses."""

    def __init__(self, number: int, model: GpuModel) -> None:
        if number != 0:
            raise LaunchError("there is one simulated GPU", got=f"device {number}", allowed="0")
        self.device_id, self.name = number, f"{model.name} (simulated by weft)"
        self.compute_capability = model.compute_capability
        self.uuid = f"00000000-0000-0000-0000-{number:012d}"
        self.context = SimpleNamespace(handle=driver.binding.CUcontext(CONTEXT))

    def set_current(self) -> None:
        """Do nothing: there is one context."""
