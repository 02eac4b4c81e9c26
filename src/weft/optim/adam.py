"""Adam (Kingma and Ba, 2015) and AdamW (Loshchilov and Hutter, 2019)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from weft.optim.base import THREADS, Fused, float_zeros, kernel
from weft.optim.bucket import Bucket, Make
from weft.optim.scalars import number


class _Adam(Fused):
    """The step of both; `decoupled_weight_decay` of a group says which of them it is."""

    def kinds(self, group: dict[str, Any], dtype: torch.dtype) -> Mapping[str, Make]:
        master = group["master_weights"] and dtype != torch.float32
        zeros: Make = float_zeros if master else torch.zeros_like
        kinds: dict[str, Make] = {"exp_avg": zeros, "exp_avg_sq": zeros}
        if group["amsgrad"]:
            kinds["max_exp_avg_sq"] = zeros
        if master:
            kinds["master"] = lambda p: p.detach().float()
        return {**kinds, "step": lambda p: torch.zeros((), device=p.device)}

    def launch(self, bucket: Bucket, group: dict[str, Any], lists: Sequence[Any]) -> None:
        device, table = bucket.device, bucket.table
        beta1, beta2 = (float(beta) for beta in group["betas"])
        lr, lr_at = number(group["lr"], device)
        code = kernel(
            "adam", bucket.dtype, lists[2][0].dtype, "master" in bucket.names,
            group.get("decoupled_weight_decay", True), group["amsgrad"],
        )  # fmt: skip
        sign = -1.0 if group["maximize"] else 1.0
        table.launch(code, THREADS, (
            table.counter, lr, lr_at, _log(beta1), _log(beta2), beta2, 1.0 - beta1, 1.0 - beta2,
            float(group["eps"]), float(group["weight_decay"]), sign, *self.scales(device),
        ), lists)  # fmt: skip


def _log(beta: float) -> float:
    """The logarithm of a decay rate; the least double for 0, of which all powers are 0."""
    return math.log(beta) if beta else -math.inf


class Adam(_Adam, torch.optim.Adam):  # type: ignore[misc]
    """torch.optim.Adam, in one launch for all parameters of a dtype.

    master_weights  parameters of 16 bits have states and a copy of themselves in float32
    max_grad_norm   gradients are scaled in the step so that the norm of all is at most this
    """


class AdamW(_Adam, torch.optim.AdamW):  # type: ignore[misc]
    """torch.optim.AdamW, in one launch for all parameters of a dtype.

    master_weights  parameters of 16 bits have states and a copy of themselves in float32
    max_grad_norm   gradients are scaled in the step so that the norm of all is at most this
    """
