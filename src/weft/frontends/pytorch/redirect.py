"""Redirects `device="cuda"` of a script to the CPU, whose tensors the simulated GPU uses.

It uses public interfaces of torch: a function mode intercepts every call that creates or moves a
tensor. Functions of `torch.cuda`, which no mode sees, are replaced by those of `cuda.py`. For a
script every tensor is on the current GPU: `is_cuda` and `device` report this, because scripts
assert it. So does PyTorch's Python code for several processes, which compares devices.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils import _device

from weft.device.models import GpuModel
from weft.frontends.pytorch import devices, library, memory, modules, operations
from weft.frontends.pytorch.streams import on_cpu

_HERE = ("torch", "triton", "weft")
"""Packages that must see the real device of a tensor."""

_ON_THE_CPU = ("torch.distributed.checkpoint.", "torch.distributed._functional_collectives.")
"""Parts that see real devices: one tests that tensors are on the CPU, after it has copied them
there; the other makes tensors from devices."""

_MODULE_TO = torch._C._nn._parse_to
"""torch's parser of the arguments of `nn.Module.to`."""

_RUN_BACKWARD = torch.autograd._engine_run_backward
"""torch's call of its engine, after all handling of modes."""

Noticed = Callable[[Any], None]

_installed = False


def install(model: GpuModel, address_taken: Noticed, gpus: int = 1) -> operations.Operations:
    """Install the redirection and return the mode that sees every operation.

    `address_taken` is called with tensors whose address is read.
    """
    global _installed
    _installed = True
    devices.set_count(gpus)
    # Of the CPU's library; a GPU has its own.
    warnings.filterwarnings("ignore", "mkldnn_matmul failed")
    tracker = memory.Tracker()
    redirect, mode = RedirectCuda(address_taken), operations.Operations(tracker)
    tables = (
        modules.replacements(model, tracker, gpus),
        library.replacements(redirect, mode),
        {torch.autograd: {"_engine_run_backward": redirect.inside(_RUN_BACKWARD)}},
    )
    for owner, replaced in (item for table in tables for item in table.items()):
        for name, value in replaced.items():
            setattr(owner, name, value)
    enter_in_every_thread(redirect, mode)
    return mode


def enter_in_every_thread(*modes: Any) -> None:
    """Enter modes, which torch keeps per thread, here and in threads that start later.

    A thread leaves them at its end. Otherwise C++ code would release them when the thread is no
    longer one of Python's, and abort a process that exits at that moment.
    """
    begin = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]

    def bootstrap(thread: threading.Thread) -> None:
        with contextlib.ExitStack() as entered:
            for mode in modes:
                entered.enter_context(mode)
            begin(thread)

    threading.Thread._bootstrap_inner = bootstrap  # type: ignore[attr-defined]
    # Never exited: they are valid until the end of the script.
    for mode in modes:
        mode.__enter__()


def device() -> torch.device:
    """The device for new tensors: CUDA if the redirection is installed."""
    return devices.current() if _installed else torch.device("cpu")


def _index_on_cpu(device: Any) -> Any:
    """Map a device to the CPU, also a GPU's number, where a number can be nothing else."""
    if type(device) is int:
        devices.check(device)
        return "cpu"
    return on_cpu(device)


class RedirectCuda(TorchFunctionMode):  # type: ignore[misc]
    """A function mode that replaces CUDA by the CPU in torch calls."""

    def __init__(self, address_taken: Noticed) -> None:
        super().__init__()
        self._special: dict[Any, Callable[..., Any]] = {
            torch.Tensor.cuda: _to_cpu,
            torch.Tensor.cpu: _to_host,
            torch.nn.Module.cuda: _itself,
            torch.Tensor.pin_memory: _pinned,
            torch.Tensor.is_pinned: _is_pinned,
            torch.Tensor.get_device: _index_of,
            torch.Tensor.is_cuda.__get__: _is_cuda,
            torch.Tensor.is_cpu.__get__: _is_cpu,
            torch.Tensor.device.__get__: _device_of,
            torch.Tensor.data_ptr: self._data_ptr,
            torch.device: _device_by_number,
        }
        self._address_taken = address_taken

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        special = self._special.get(func)
        if special is not None:
            return special(*args, **(kwargs or {}))
        options = dict(kwargs or {})
        if func is torch.Tensor.to and _copies(options.get("device", *args[1:2])):
            options["copy"] = True
        if "device" in options:
            options["device"] = _index_on_cpu(options["device"])
        elif _makes(func) and on_cpu(_device.CURRENT_DEVICE) != _device.CURRENT_DEVICE:
            options["device"] = "cpu"  # inside `with torch.device("cuda"):`
        if func is torch.Tensor.to:
            args = [args[0], *(_index_on_cpu(value) for value in args[1:2]), *args[2:]]
        elif func is _MODULE_TO:
            args = [*(_index_on_cpu(value) for value in args[:1]), *args[1:]]
        elif _makes(func):
            args = [on_cpu(value) for value in args]
        # Pinning needs a CUDA driver.
        if options.get("pin_memory"):
            return _pinned(func(*args, **{**options, "pin_memory": False}))
        return func(*args, **options)

    def inside(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function with this mode, which torch leaves while the mode handles a call.

        Hooks of a backward pass make and move tensors, too.
        """

        @functools.wraps(function)
        def called(*args: Any, **options: Any) -> Any:
            if self in _get_current_function_mode_stack():
                return function(*args, **options)
            with self:
                return function(*args, **options)

        return called

    def _data_ptr(self, tensor: Any) -> int:
        if not _called_by_libraries():
            self._address_taken(tensor)
        return int(torch.Tensor.data_ptr(tensor))


def _makes(func: Callable[..., Any]) -> bool:
    """True for tensor constructors. This is torch's own test, which TorchDynamo can trace."""
    return func in _device._device_constructors()


def _to_cpu(tensor: Any, device: Any = None, *_: Any, **__: Any) -> Any:
    return tensor.to(_index_on_cpu(device) or "cpu", copy=_copies(device))


def _to_host(tensor: Any, *_: Any, **__: Any) -> Any:
    return tensor.to("cpu", copy=_copies("cpu"))


def _copies(device: Any = None) -> bool:
    """True where a tensor that moves to a device must not be the same memory.

    On another GPU than the current one it is a copy. `torch.distributed` frees memory of a GPU
    after it has moved its tensor to the CPU.
    """
    if isinstance(device, str) and ":" not in device and device != "cpu":
        return False
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if device.type == "cpu":
            return not torch.compiler.is_dynamo_compiling() and _compares_devices()
        return device.type == "cuda" and device.index not in (None, devices.index())
    return type(device) is int and device != devices.index()


def _itself(value: Any, *_: Any, **__: Any) -> Any:
    return value


def _pinned(tensor: Any, *_: Any, **__: Any) -> Any:
    """The tensor itself, which `is_pinned` knows from then on."""
    tensor._weft_pinned = True
    return tensor


def _is_pinned(tensor: Any, *_: Any, **__: Any) -> bool:
    return hasattr(tensor, "_weft_pinned")


def _device_by_number(type: Any, *args: Any, **options: Any) -> torch.device:
    """torch's constructor, which knows numbers only where there is a GPU."""
    if isinstance(type, int) and not isinstance(type, bool):
        return torch.device("cuda", type)
    return torch.device(type, *args, **options)


def _index_of(tensor: Any) -> int:
    return devices.index() if _is_cuda(tensor) else -1


def _is_cuda(tensor: Any, *_: Any) -> bool:
    """True for the script, but for `meta` tensors; the real answer for libraries."""
    return bool(_device_of(tensor).type == "cuda")


def _is_cpu(tensor: Any, *_: Any) -> bool:
    return bool(_device_of(tensor).type == "cpu")


def _device_of(tensor: Any, *_: Any) -> torch.device:
    """The current GPU for the script; the real device for libraries, and of `meta` tensors."""
    real = torch.Tensor.device.__get__(tensor)
    hidden = real.type == "cpu" and (_compares_devices() or not _called_by_libraries())
    return devices.current() if hidden else real


def _called_by_libraries() -> bool:
    """True if the handled call comes from torch, Triton or weft."""
    return _caller().partition(".")[0] in _HERE


def _compares_devices() -> bool:
    """True if the caller is a part of `torch.distributed` that compares devices of tensors."""
    caller = f"{_caller()}."
    return caller.startswith("torch.distributed.") and not caller.startswith(_ON_THE_CPU)


def _caller() -> str:
    """The module that made the handled call."""
    frame = sys._getframe(1)
    # Skip the frames of this module.
    while frame.f_back is not None and frame.f_globals.get("__name__") == __name__:
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", _HERE[0]))
