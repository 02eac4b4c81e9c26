"""instance_norm: group_norm with a group for each channel, and running statistics."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.ops.core import library
from weft.ops.families.norm.arguments import check_dtype, check_weights

NAME = "instance_norm"


def _check(x: Any, mean: Any, var: Any, weight: Any, bias: Any, use_input_stats: bool) -> None:
    check_dtype(NAME, x)
    if x.dim() < 2:
        raise ArgumentError(
            "weft.ops.instance_norm: 'input' needs a batch and a channel dimension",
            got=f"shape {list(x.shape)}",
            allowed="2 dimensions or more",
        )
    if (mean is None) != (var is None) or (mean is None and not use_input_stats):
        raise ArgumentError(
            "weft.ops.instance_norm: running_mean and running_var are needed together, and where "
            "use_input_stats is False",
            got=", ".join(
                f"{n}=None" for n, t in (("running_mean", mean), ("running_var", var)) if t is None
            ),
            next="pass both, or neither and use_input_stats=True",
        )
    if use_input_stats and math.prod(x.shape[2:]) == 1:
        raise ArgumentError(
            "weft.ops.instance_norm: more than one value per channel is needed",
            got=f"input of shape {list(x.shape)}",
            next="pass use_input_stats=False",
        )
    size = (x.shape[1],)
    check_weights(NAME, x, size, running_mean=mean, running_var=var)
    check_weights(NAME, x, size, weight=weight, bias=bias)


def _updated(running: Any, found: Any, momentum: float) -> None:
    """Move running statistics towards those of a batch: the mean over its elements."""
    running.lerp_(found.mean(0).to(running.dtype), momentum)


def _instance_norm() -> Callable[..., Any]:
    norm, with_statistics, evaluate = (
        library.call(name) for name in ("group_norm", "group_norm_forward", "batch_norm")
    )

    def instance_norm(
        input: Any,
        running_mean: Any = None,
        running_var: Any = None,
        weight: Any = None,
        bias: Any = None,
        use_input_stats: bool = True,
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> Any:
        """Instance norm, as torch.nn.functional.instance_norm.

        With use_input_stats, running_mean and running_var are updated in place if they are given;
        without, they are the statistics.
        """
        _check(input, running_mean, running_var, weight, bias, use_input_stats)
        kind = input.device.type
        if torch.is_autocast_enabled(kind):  # that of group_norm, float32, is not for this op
            with torch.autocast(kind, enabled=False):
                return instance_norm(
                    input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
                )
        if not use_input_stats:
            return evaluate(input, running_mean, running_var, weight, bias, False, momentum, eps)
        channels = input.shape[1]
        if running_mean is None or not input.numel():
            return norm(input, channels, weight, bias, eps) if channels else input.clone()
        made, mean, rstd = with_statistics(input, channels, weight, bias, eps)
        size = math.prod(input.shape[2:])
        with torch.no_grad():
            # The variance is not negative; that of the running statistics is the unbiased one.
            var = (rstd.square().reciprocal() - eps).clamp(min=0) * (size / (size - 1))
            _updated(running_mean, mean, momentum)
            _updated(running_var, var, momentum)
        return made

    return instance_norm


MAKERS = {NAME: _instance_norm}
