"""Products of layers with quantised weights; the one place that chooses the ops for them."""

from __future__ import annotations

import torch

from weft import ops
from weft.ops.core import library
from weft.quant.formats import BLOCK
from weft.quant.quantised import Quantised


def weight_only(
    x: torch.Tensor, weight: Quantised, bias: torch.Tensor | None, constant: bool = False
) -> torch.Tensor:
    """Compute x @ weight.T + bias with the weight in the dtype of x [..., K].

    constant  no kernel shortly before writes the weight, and no gradient is wanted
    """
    if weight.group == BLOCK:  # the op has scales of rows and of groups of K
        return plain(x, weight.dequantise(x.dtype), bias)
    given = None if bias is None else bias.to(x.dtype)
    op = library.call("linear_quantised_constant") if constant else ops.linear_quantised
    made: torch.Tensor = op(x, weight.weight, weight.scale, weight.zero, given)
    return made


def dynamic(x: torch.Tensor, weight: Quantised, bias: torch.Tensor | None) -> torch.Tensor:
    """Compute x @ weight.T + bias in 8 bits: each row of x [..., K] has a scale of its own."""
    q, scale = ops.quantise(x.reshape(-1, x.shape[-1]), weight.form.dtype)
    given = None if bias is None else bias.to(x.dtype)
    made = ops.scaled_mm(q, weight.weight.T, scale, weight.scale.T, given, x.dtype)
    return made.reshape(*x.shape[:-1], weight.shape[0])


def plain(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Compute x @ weight.T + bias with a weight that is not quantised."""
    made: torch.Tensor = ops.linear(x, weight, None if bias is None else bias.to(x.dtype))
    return made
