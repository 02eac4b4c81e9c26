"""Adam (Kingma and Ba, 2015) and AdamW (Loshchilov and Hutter, 2019)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.kernels import Kernel, cdiv
from weft.ops.core import source
from weft.optim.base import ELEMENTS, THREADS, FusedOptimiser, float_zeros, kernel
from weft.optim.bucket import Bucket, Make
from weft.optim.scalars import number
from weft.optim.sharded import is_sharded

SHARED = 256
"""Elements that share a scale in states of 8 bits."""


class _Adam(FusedOptimiser):
    """The step of Adam and AdamW; `decoupled_weight_decay` of a group selects AdamW."""

    own = MappingProxyType({**FusedOptimiser.own, "state_bits": None})
    deciding = ("amsgrad", "master_weights", "state_bits")

    def __init__(self, params: Any, *args: Any, **options: Any):
        bits = options.get("state_bits")
        if bits not in (None, 8):
            raise ArgumentError(
                f"weft.optim.{type(self).__name__}: state_bits= must be 8 or None",
                got=str(bits),
                allowed="8, or None: those of the parameter",
            )
        super().__init__(params, *args, **options)

    def split(self, group: dict[str, Any], params: list[Any]) -> list[tuple[bool, list[Any]]]:
        if group["state_bits"] == 8 and any(map(is_sharded, params)):
            raise ArgumentError(
                "weft.optim: parameters that are divided over processes have no states of 8 bits",
                got="a DTensor and state_bits=8",
                next="state_bits=None",
            )
        return super().split(group, params)

    def kinds(self, group: dict[str, Any], dtype: torch.dtype) -> Mapping[str, Make]:
        master = group["master_weights"] and dtype != torch.float32
        small = group["state_bits"] == 8
        zeros: Make = _codes if small else float_zeros if master else torch.zeros_like
        kinds: dict[str, Make] = {"exp_avg": zeros, "exp_avg_sq": zeros}
        if group["amsgrad"]:
            kinds["max_exp_avg_sq"] = zeros
        if master:
            kinds["master"] = lambda p: p.detach().float()
        if small:
            kinds |= {"exp_avg_scale": _scales, "exp_avg_sq_scale": _scales}
        return {**kinds, "step": lambda p: torch.zeros((), device=p.device)}

    def launch(self, bucket: Bucket, group: dict[str, Any], lists: Sequence[Any]) -> None:
        device, table = bucket.device, bucket.table
        beta1, beta2 = (float(beta) for beta in group["betas"])
        lr, lr_at = number(group["lr"], device)
        sign = -1.0 if group["maximize"] else 1.0
        table.launch(self._kernel(bucket, group, lists), THREADS, (
            table.counter, lr, lr_at, _log(beta1), _log(beta2), beta2, 1.0 - beta1, 1.0 - beta2,
            float(group["eps"]), float(group["weight_decay"]), sign, *self.scales(device),
        ), lists)  # fmt: skip

    def _kernel(self, bucket: Bucket, group: dict[str, Any], lists: Sequence[Any]) -> Kernel:
        master, decoupled = "master" in bucket.names, group.get("decoupled_weight_decay", True)
        if group["state_bits"] is None:
            states = lists[2][0].dtype
            return kernel("adam", bucket.dtype, states, master, decoupled, group["amsgrad"])
        if group["amsgrad"]:
            raise ArgumentError(
                "weft.optim: AMSGrad has no states of 8 bits",
                next="amsgrad=False or state_bits=None",
            )
        flags = f"{str(master).lower()}, {str(decoupled).lower()}, {THREADS}, {ELEMENTS}"
        return source.kernel(
            "../../optim/step8.cu", f"adam8<{source.ctype(bucket.dtype)}, {flags}>"
        )


def _codes(p: Any) -> torch.Tensor:
    return torch.zeros_like(p, dtype=torch.uint8)


def _scales(p: Any) -> torch.Tensor:
    return torch.zeros(cdiv(p.numel(), SHARED), device=p.device)


def _log(beta: float) -> float:
    """The logarithm of a decay rate; the least double for 0, of which all powers are 0."""
    return math.log(beta) if beta else -math.inf


class Adam(_Adam, torch.optim.Adam):  # type: ignore[misc]
    """torch.optim.Adam, in one launch for all parameters of a dtype.

    master_weights  parameters of 16 bits have states and a copy of themselves in float32
    max_grad_norm   gradients are scaled in the step so that the norm of all is at most this
    state_bits      8: states of 8 bits with a scale for each 256 elements
    """


class AdamW(_Adam, torch.optim.AdamW):  # type: ignore[misc]
    """torch.optim.AdamW, in one launch for all parameters of a dtype.

    master_weights  parameters of 16 bits have states and a copy of themselves in float32
    max_grad_norm   gradients are scaled in the step so that the norm of all is at most this
    state_bits      8: states of 8 bits with a scale for each 256 elements
    """
