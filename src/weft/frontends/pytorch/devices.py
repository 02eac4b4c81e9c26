"""The simulated GPUs by number: how many there are, and the current one of this process.

Their tensors are all in the host's memory, so that a tensor has no number of its own: for a script
it is on the current device.
"""

from __future__ import annotations

from typing import Any

import torch

from weft.errors import Error

_state = {"count": 1, "current": 0}


def set_count(count: int) -> None:
    """Set the number of simulated GPUs."""
    _state["count"] = count


def index() -> int:
    """The number of the current device."""
    return _state["current"]


def current() -> torch.device:
    """The current device."""
    return torch.device("cuda", _state["current"])


def check(number: int) -> int:
    """Return the number of a device; raise if there is no such GPU."""
    count = _state["count"]
    if number >= count:
        error = Error(
            "CUDA error: invalid device ordinal",
            got=f"cuda:{number}",
            allowed=f"cuda:0 to cuda:{count - 1}" if count > 1 else "cuda:0",
            next=f"`weft run --gpus {number + 1}` simulates enough GPUs; a process of torchrun "
            "chooses the one of its LOCAL_RANK",
        )
        raise RuntimeError(str(error))
    return number


def set_device(device: Any) -> None:
    """`torch.cuda.set_device`: a number, a name, or a device; a negative one changes nothing."""
    exchange(_number(device))


def exchange(number: int) -> int:
    """Make a device the current one and return the number of the last one; -1 for none."""
    if number < 0:
        return -1
    before, _state["current"] = _state["current"], check(number)
    return before


def can_access_peer(device: Any, peer_device: Any) -> bool:
    """`torch.cuda.can_device_access_peer`: true for any two different GPUs."""
    one, other = check(_number(device)), check(_number(peer_device))
    return one != other


def _number(device: Any) -> int:
    if isinstance(device, int):
        return device
    number = torch.device(device).index
    return _state["current"] if number is None else number


class Context:
    """`with torch.cuda.device(1):` makes a device the current one."""

    def __init__(self, device: Any = -1) -> None:
        self.idx = -1 if device is None else _number(device)
        self.prev_idx = -1

    def __enter__(self) -> Context:
        self.prev_idx = exchange(self.idx)
        return self

    def __exit__(self, *_: object) -> None:
        exchange(self.prev_idx)


class ContextOf(Context):
    """`with torch.cuda.device_of(x):`; all tensors are on the current device."""

    def __init__(self, obj: Any = None) -> None:
        super().__init__()
