"""Records the operations and the copies of a PyTorch script, for a timeline.

All tensors of a script are on the CPU, so that it is not seen which ones a GPU would hold. Those
that the script makes without naming a device are taken to be the host's, all others the device's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _device

from weft.frontends import activity
from weft.frontends.pytorch import costs, redirect, streams
from weft.values.time import timeline

_ON_HOST = "_weft_on_host"
"""The attribute of storages that the script made in memory of the host."""
_SENT = "_weft_sent"
"""The attribute of those that it has copied to the device since then."""
_PINNED = "_weft_pinned"
"""The attribute of tensors that it has pinned."""
_READS = ("item", "tolist", "numpy", "cpu")
"""Methods that copy a tensor to the host."""
_OF_COPIES = ("aten::_local_scalar_dense",)
"""Operations that only copy: the method that calls them is recorded."""
_making = threading.local()


def install() -> None:
    """Record the copies of the script from now on, and the stream of its launches."""
    activity.streams.append(lambda: streams.current().cuda_stream)
    redirect.enter_in_every_thread(Transfers())
    own = torch.nn.Module.to
    cuda = torch.nn.Module.cuda

    def to(module: Any, *args: Any, **options: Any) -> Any:
        moved = own(module, *args, **options)
        if _to_cuda(args, options):
            _move(module)
        return moved

    def to_cuda(module: Any, device: Any = None) -> Any:
        _move(module)
        return cuda(module, device)

    torch.nn.Module.to, torch.nn.Module.cuda = to, to_cuda


def operation(name: str, number: int, values: Any) -> None:
    """Record an operation that ran; `number` is that of its call, counted from 1."""
    if activity.current is None or name in _OF_COPIES or getattr(_making, "on_host", False):
        return
    args, options, out = values
    inputs = list(costs.tensors((args, options)))
    if inputs and all(map(_is_on_host, inputs)):
        for tensor in costs.tensors(out):
            setattr(tensor.untyped_storage(), _ON_HOST, True)
        return
    storages = (t.untyped_storage() for t in costs.tensors(values))
    memory = sorted({(s.data_ptr(), s.nbytes()) for s in storages})
    with activity.call(name):
        activity.note(
            timeline.KERNEL, name, activity.stream(), number - 1, operation=number, memory=memory
        )


class Transfers(TorchFunctionMode):  # type: ignore[misc]
    """Sees the calls that move a tensor, before they are redirected to the CPU."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        options = kwargs or {}
        if _makes_on_host(func, options):
            return _made(func, args, options)
        moves = func is torch.Tensor.cuda or (
            func is torch.Tensor.to and _to_cuda(args[1:], options)
        )
        if moves and hasattr(args[0].untyped_storage(), _ON_HOST):
            _copied(timeline.TO_DEVICE, args[0], waits=not options.get("non_blocking"))
            setattr(args[0].untyped_storage(), _SENT, True)
        elif _is_read(func, args, options) and not _is_on_host(args[0]):
            _copied(timeline.TO_HOST, args[0], waits=True)
        return func(*args, **options)


def _made(func: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """Make a tensor in memory of the host; what fills it is not the device's work."""
    before, _making.on_host = getattr(_making, "on_host", False), True
    try:
        out = func(*args, **options)
    finally:
        _making.on_host = before
    if isinstance(out, torch.Tensor):
        setattr(out.untyped_storage(), _ON_HOST, True)
    return out


def _is_on_host(tensor: Any) -> bool:
    storage = tensor.untyped_storage()
    return hasattr(storage, _ON_HOST) and not hasattr(storage, _SENT)


def _is_read(func: Any, args: Sequence[Any], options: Mapping[str, Any]) -> bool:
    if not args or not isinstance(args[0], torch.Tensor):
        return False
    if func is torch.Tensor.to:
        wanted = options.get("device", args[1] if len(args) > 1 else None)
        return str(wanted).partition(":")[0] == "cpu"
    name = getattr(func, "__name__", "")
    return name in _READS and getattr(torch.Tensor, name, None) is func


def _makes_on_host(func: Any, options: Mapping[str, Any]) -> bool:
    if func is torch.from_numpy:
        return True
    # Inside of `with torch.device("cuda"):` a tensor is the device's.
    default = _device.CURRENT_DEVICE
    named = options.get("device") or default
    return func in _device._device_constructors() and not _is_cuda(named)


def _is_cuda(device: Any) -> bool:
    # A number alone is a GPU's.
    return isinstance(device, int) or str(device or "").partition(":")[0] == "cuda"


def _to_cuda(args: Sequence[Any], options: Mapping[str, Any]) -> bool:
    given = options.get("device", args[0] if args else None)
    return not isinstance(given, bool | torch.Tensor) and _is_cuda(given)


def _copied(direction: str, tensor: Any, *, waits: bool) -> None:
    pinned = hasattr(tensor, _PINNED)
    with activity.call("cudaMemcpyAsync"):
        activity.copied(
            direction, tensor.numel() * tensor.element_size(), stream=activity.stream(),
            pageable=not pinned, memory=tensor.untyped_storage().data_ptr(),
            waits=waits or not pinned,
        )  # fmt: skip


def _move(module: Any) -> None:
    """Record copies of the parameters and buffers of a module, once each."""
    for tensor in (*module.parameters(), *module.buffers()):
        storage = tensor.untyped_storage()
        if not hasattr(storage, _SENT):
            setattr(storage, _SENT, True)
            _copied(timeline.TO_DEVICE, tensor, waits=True)
