"""Redirects `device="cuda"` of a script to the CPU, whose tensors the simulated GPU uses.

It uses public interfaces of torch: a function mode intercepts every call that creates or moves a
tensor. Functions of `torch.cuda`, which no mode sees, are replaced by those of `torch_cuda`. For a
script every tensor is on `cuda:0`: `is_cuda` and `device` report this, because scripts assert it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _device

from weft.device.models import GpuModel
from weft.frontends import torch_cuda

_HERE = ("torch", "triton", "weft")
"""Packages that must see the real device of a tensor."""

DEVICE = torch.device("cuda", 0)
"""The device that scripts see."""

Noticed = Callable[[Any], None]

_installed = False


def install(model: GpuModel, address_taken: Noticed) -> None:
    """Installs the redirection; `address_taken` is called with tensors whose address is read."""
    global _installed
    _installed = True
    # Never exited: it is valid until the end of the script.
    RedirectCuda(address_taken).__enter__()
    for owner, replaced in torch_cuda.replacements(model).items():
        for name, value in replaced.items():
            setattr(owner, name, value)


def device() -> torch.device:
    """The device for new tensors: CUDA if the redirection is installed."""
    return DEVICE if _installed else torch.device("cpu")


def on_cpu(device: Any) -> Any:
    """Maps CUDA devices to the CPU; other devices are unchanged."""
    if isinstance(device, str) and device.partition(":")[0] == "cuda":
        return "cpu"
    if isinstance(device, torch.device) and device.type == "cuda":
        return torch.device("cpu")
    return device


class RedirectCuda(TorchFunctionMode):  # type: ignore[misc]
    """A function mode that replaces CUDA by the CPU in torch calls."""

    def __init__(self, address_taken: Noticed) -> None:
        super().__init__()
        self._special: dict[Any, Callable[..., Any]] = {
            torch.Tensor.cuda: _to_cpu,
            torch.nn.Module.cuda: _itself,
            torch.Tensor.pin_memory: _itself,
            torch.Tensor.is_cuda.__get__: _is_cuda,
            torch.Tensor.device.__get__: _device_of,
            torch.Tensor.data_ptr: self._data_ptr,
            torch.Tensor.record_stream: _nothing,
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
        if "device" in options:
            options["device"] = on_cpu(options["device"])
        elif _makes(func) and on_cpu(_device.CURRENT_DEVICE) != _device.CURRENT_DEVICE:
            options["device"] = "cpu"  # inside `with torch.device("cuda"):`
        # Pinning needs a CUDA driver.
        if options.get("pin_memory"):
            options["pin_memory"] = False
        if func is torch.Tensor.to or _makes(func):
            args = [on_cpu(value) for value in args]
        return func(*args, **options)

    def _data_ptr(self, tensor: Any) -> int:
        if not _asked_by_libraries():
            self._address_taken(tensor)
        return int(torch.Tensor.data_ptr(tensor))


def _makes(func: Callable[..., Any]) -> bool:
    """True for tensor constructors. This is torch's own test, which TorchDynamo can trace."""
    return func in _device._device_constructors()


def _to_cpu(tensor: Any, *_: Any, **__: Any) -> Any:
    return tensor.to("cpu")


def _itself(value: Any, *_: Any, **__: Any) -> Any:
    return value


def _nothing(*_: Any) -> None:
    return None


def _is_cuda(tensor: Any, *_: Any) -> bool:
    """True for the script; the real answer for libraries."""
    return bool(tensor.device.type == "cuda") if _asked_by_libraries() else True


def _device_of(tensor: Any, *_: Any) -> torch.device:
    """`cuda:0` for the script; the real device for libraries."""
    return torch.Tensor.device.__get__(tensor) if _asked_by_libraries() else DEVICE


def _asked_by_libraries() -> bool:
    """True if the handled call comes from torch, Triton or weft."""
    frame = sys._getframe(1)
    # Skip the frames of this module.
    while frame.f_back is not None and frame.f_globals.get("__name__") == __name__:
        frame = frame.f_back
    name = str(frame.f_globals.get("__name__", _HERE[0]))
    return name.partition(".")[0] in _HERE
