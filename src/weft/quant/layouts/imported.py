"""A weight that another package quantised, and the layer that computes with it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from weft.quant.formats import BLOCK, CHANNEL, SIDE, TENSOR, Group
from weft.quant.layers import DynamicLinear, Linear
from weft.quant.quantised import Quantised


@dataclass(frozen=True)
class Imported:
    """A quantised weight, and what its layer does with inputs.

    order       [K]: column k of the weight is for element order[k] of the input, or None
    multiplier  [K]: the input is multiplied by it first, or None
    is_dynamic  rows of inputs are quantised, too
    """

    weight: Quantised
    order: torch.Tensor | None = None
    multiplier: torch.Tensor | None = None
    is_dynamic: bool = False

    def layer(self, bias: torch.nn.Parameter | None = None) -> Linear:
        """Make the layer; one whose products no kernel has in 8 bits keeps its inputs."""
        kind = DynamicLinear if self.is_dynamic and _has_product(self.weight) else Linear
        return kind(self.weight, bias, multiplier=self.multiplier, order=self.order)

    def to(self, device: torch.device | str, dtype: torch.dtype) -> Imported:
        """Move the tensors; `dtype` is what the weight is dequantised to."""
        w = self.weight
        moved = replace(
            w, weight=w.weight.to(device), scale=w.scale.to(device), zero=_moved(w.zero, device),
            dtype=dtype,
        )  # fmt: skip
        order, multiplier = _moved(self.order, device), _moved(self.multiplier, device)
        return replace(self, weight=moved, order=order, multiplier=multiplier)


def _moved(x: torch.Tensor | None, device: torch.device | str) -> torch.Tensor | None:
    return None if x is None else x.to(device)


def _has_product(weight: Quantised) -> bool:
    """True for weights that `scaled_mm` multiplies."""
    groups: tuple[Group, ...] = (CHANNEL, TENSOR)
    if not weight.form.integer:
        groups = (CHANNEL, TENSOR, BLOCK, SIDE)
    return weight.form.bits == 8 and weight.zero is None and weight.group in groups
