"""Conversion of an op's inputs by `torch.autocast`.

A call that nothing else of torch has to see converts its inputs itself, and is then made as if
autocast were off: in C++ (`native/cpp/casts.h`), or here until the C++ code has learned it. All
others, such as those of torch.compile, go through the kernels that `register` gives torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import torch

LOWER = "lower"
"""Convert to the dtype that torch.autocast was given, as PyTorch does for its products."""
WIDEST = "widest"
"""Convert to float32 if any input is of that dtype, as PyTorch does for ops of several inputs."""
Policy: TypeAlias = "torch.dtype | str | None"
"""The dtype that inputs are converted to, LOWER, WIDEST, or None: they are left as they are."""
_DEVICES = ("cpu", "cuda")
_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU) | torch._C.DispatchKeySet(
    torch._C.DispatchKey.AutocastCUDA
)


def word(policy: Policy) -> str:
    """The policy as the C++ code names it; see `casts.h`."""
    if isinstance(policy, torch.dtype):
        assert policy is torch.float32
        return "single"
    return policy or "kept"


def off() -> Any:
    """A context in which autocast is off, for all devices."""
    return torch._C._ExcludeDispatchKeyGuard(_KEYS)


def register(op: Any, policy: torch.dtype | str) -> None:
    """Convert the floating-point inputs of a custom op to a dtype, or by LOWER or WIDEST."""
    for device in _DEVICES:
        if isinstance(policy, torch.dtype):
            op.register_autocast(device, policy)
        else:
            _register(op, device, policy)


def _register(op: Any, device: str, policy: str) -> None:
    """As `register_autocast`, which takes a dtype that is known when the op is registered."""
    key = f"Autocast{device.upper()}"
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))

    def kernel(_: Any, *args: Any) -> Any:
        given = converted(args, policy, [device])
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return op._opoverload(*given)

    op._lib.impl(op._name, kernel, key, with_keyset=True)


def converted(args: Sequence[Any], policy: Policy, devices: Sequence[str] = _DEVICES) -> list[Any]:
    """The arguments that an op gets, where autocast is on for some devices."""
    dtypes = {d: torch.get_autocast_dtype(d) for d in devices if torch.is_autocast_enabled(d)}
    seen = [a for a in args if _is_seen(a, dtypes)]
    if policy is None or (policy == WIDEST and not any(a.dtype is torch.float32 for a in seen)):
        return list(args)
    to = dict.fromkeys(dtypes, torch.float32) if policy != LOWER else dtypes
    return [a.to(to[a.device.type]) if _is_seen(a, dtypes) else a for a in args]


def _is_seen(value: Any, dtypes: dict[str, torch.dtype]) -> bool:
    is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
    return is_float and value.device.type in dtypes and value.dtype is not torch.float64
