"""Initial values of parameters, as torch.nn.init: random numbers of `weft.ops`, in place.

On a GPU, uniform and normal numbers have the bits of torch.nn.init for the same seed.

>>> import torch
>>> weight = torch.empty(64, 32)
>>> weight = weft.init.kaiming_uniform_(weight, nonlinearity="relu")
"""

from __future__ import annotations

import functools
import importlib
import math
from typing import Any

from weft.errors import ArgumentError
from weft.ops.core.bind import with_torch

__all__ = [
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
]


def uniform_(tensor: Any, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Any:
    """Uniform numbers in [a, b)."""
    return _filled(tensor, "seeded_uniform", a, b, generator)


def normal_(tensor: Any, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Any:
    """Normally distributed numbers."""
    return _filled(tensor, "seeded_normal", mean, std, generator)


def trunc_normal_(
    tensor: Any, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0,
    generator: Any = None,
) -> Any:  # fmt: skip
    """Normally distributed numbers between a and b: the inverse of the distribution function."""
    low, high = (math.erf((end - mean) / std / math.sqrt(2.0)) for end in (a, b))
    _filled(tensor, "seeded_uniform", low, high, generator)
    with _torch().no_grad():
        return tensor.erfinv_().mul_(std * math.sqrt(2.0)).add_(mean).clamp_(min=a, max=b)


def kaiming_uniform_(
    tensor: Any, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Any:  # fmt: skip
    """Uniform numbers whose variance keeps that of a layer's results (He et al., 2015)."""
    bound = math.sqrt(3.0) * _kaiming(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Any, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Any:  # fmt: skip
    """Normal numbers whose variance keeps that of a layer's results (He et al., 2015)."""
    return normal_(tensor, 0.0, _kaiming(tensor, a, mode, nonlinearity), generator)


def xavier_uniform_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """Uniform numbers whose variance suits results and gradients (Glorot and Bengio, 2010)."""
    bound = math.sqrt(3.0) * _xavier(tensor, gain)
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """Normal numbers whose variance suits results and gradients (Glorot and Bengio, 2010)."""
    return normal_(tensor, 0.0, _xavier(tensor, gain), generator)


def _kaiming(tensor: Any, a: float, mode: str, nonlinearity: str) -> float:
    fans = dict(zip(("fan_in", "fan_out"), _fans(tensor), strict=True))
    if mode not in fans:
        raise ArgumentError("weft.init: no such mode", got=mode, allowed="fan_in, fan_out")
    gain: float = _torch().nn.init.calculate_gain(nonlinearity, a)
    return gain / math.sqrt(max(1, fans[mode]))


def _xavier(tensor: Any, gain: float) -> float:
    return gain * math.sqrt(2.0 / max(1, sum(_fans(tensor))))


def _fans(tensor: Any) -> tuple[int, int]:
    """The number of inputs per result (fan in), and of results per input (fan out)."""
    if tensor.dim() < 2:
        raise ArgumentError(
            "weft.init: a tensor of weights has at least two dimensions",
            got=f"shape {list(tensor.shape)}",
            allowed="[results, inputs, ...]",
        )
    window = math.prod(tensor.shape[2:])
    return tensor.shape[1] * window, tensor.shape[0] * window


def _filled(tensor: Any, op: str, first: float, second: float, generator: Any) -> Any:
    library, begin = _parts()
    begun = begin("init", tensor.numel(), tensor.device, generator)
    with _torch().no_grad():
        return tensor.copy_(library.call(op)(tensor.detach(), first, second, *begun))


@functools.cache
def _parts() -> tuple[Any, Any]:
    return with_torch("weft.ops.core.library"), with_torch("weft.ops.families.random.start").start


def _torch() -> Any:
    return importlib.import_module("torch")  # by its name: `import weft.init` needs no torch
