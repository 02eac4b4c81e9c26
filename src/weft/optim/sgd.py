"""Stochastic gradient descent with momentum (Sutskever et al., 2013)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from weft.optim.base import THREADS, FusedOptimiser, float_zeros, kernel
from weft.optim.bucket import Bucket, Make
from weft.optim.scalars import number


class SGD(FusedOptimiser, torch.optim.SGD):  # type: ignore[misc]
    """torch.optim.SGD, in one launch for all parameters of a dtype.

    master_weights  parameters of 16 bits have states and a copy of themselves in float32
    max_grad_norm   gradients are scaled in the step so that the norm of all is at most this
    """

    deciding = ("momentum", "dampening", "master_weights")

    def kinds(self, group: dict[str, Any], dtype: torch.dtype) -> Mapping[str, Make]:
        master = group["master_weights"] and dtype != torch.float32
        kinds: dict[str, Make] = {}
        if group["momentum"] != 0:
            kinds["momentum_buffer"] = float_zeros if master else torch.zeros_like
        if master:
            kinds["master"] = lambda p: p.detach().float()
        return kinds

    def split(self, group: dict[str, Any], params: list[Any]) -> list[tuple[bool, list[Any]]]:
        """The first gradient becomes the momentum as it is; later ones are dampened."""
        if group["momentum"] == 0 or group["dampening"] == 0:
            return [(False, params)]
        parts: tuple[list[Any], list[Any]] = ([], [])
        for p in params:
            parts[self.state[p].get("momentum_buffer") is None].append(p)
        return [(is_first, some) for is_first, some in enumerate(parts) if some]  # type: ignore[misc]

    def launch(self, bucket: Bucket, group: dict[str, Any], lists: Sequence[Any]) -> None:
        device, momentum = bucket.device, float(group["momentum"])
        lr, lr_at = number(group["lr"], device)
        has_momentum, has_master = momentum != 0, "master" in bucket.names
        states = lists[2][0].dtype if has_momentum else bucket.dtype
        code = kernel(
            "sgd", bucket.dtype, states, has_master, has_momentum, bool(group["nesterov"])
        )
        rest = 1.0 if bucket.first else 1.0 - float(group["dampening"])
        sign = -1.0 if group["maximize"] else 1.0
        bucket.table.launch(code, THREADS, (
            lr, lr_at, momentum, rest, float(group["weight_decay"]), sign, *self.scales(device),
        ), lists)  # fmt: skip
