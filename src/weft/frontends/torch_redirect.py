"""`device="cuda"` in a script becomes the CPU, whose tensors the simulated GPU works on.

Public means of torch do it: a function mode sees every call that makes or moves a tensor, and what
no mode sees, the functions of `torch.cuda`, is replaced by what `torch_cuda` has of the same name.
To a script every tensor is on `cuda:0`: `is_cuda` and `device` say so, because scripts assert it.
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
"""Packages whose own questions are about where a tensor really is."""

DEVICE = torch.device("cuda", 0)
"""Where a script finds its tensors."""

Noticed = Callable[[Any], None]

_installed = False


def install(model: GpuModel, address_taken: Noticed) -> None:
    """From now on; `address_taken` hears of tensors whose address the script asks for."""
    global _installed
    _installed = True
    RedirectCuda(address_taken).__enter__()
    for owner, replaced in torch_cuda.replacements(model).items():
        for name, value in replaced.items():
            setattr(owner, name, value)


def device() -> torch.device:
    """The device to make tensors on: CUDA's where this module is in force."""
    return DEVICE if _installed else torch.device("cpu")


def on_cpu(device: Any) -> Any:
    """A device as torch spells them, with the CPU in the place of CUDA."""
    if isinstance(device, str) and device.partition(":")[0] == "cuda":
        return "cpu"
    if isinstance(device, torch.device) and device.type == "cuda":
        return torch.device("cpu")
    return device


class RedirectCuda(TorchFunctionMode):  # type: ignore[misc]
    """Calls of torch with the CPU in the place of CUDA."""

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
    """Does it make a tensor? Asked as torch's own mode asks: TorchDynamo can trace no other way."""
    return func in _device._device_constructors()


def _to_cpu(tensor: Any, *_: Any, **__: Any) -> Any:
    return tensor.to("cpu")


def _itself(value: Any, *_: Any, **__: Any) -> Any:
    return value


def _nothing(*_: Any) -> None:
    return None


def _is_cuda(tensor: Any, *_: Any) -> bool:
    """True for the script, and the truth for the libraries it uses."""
    return bool(tensor.device.type == "cuda") if _asked_by_libraries() else True


def _device_of(tensor: Any, *_: Any) -> torch.device:
    """`cuda:0` for the script, and the truth for the libraries it uses."""
    return torch.Tensor.device.__get__(tensor) if _asked_by_libraries() else DEVICE


def _asked_by_libraries() -> bool:
    """Does the call that a mode is handling come from torch, Triton or weft?"""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__") == __name__:
        frame = frame.f_back
    name = str(frame.f_globals.get("__name__", _HERE[0]))
    return name.partition(".")[0] in _HERE
