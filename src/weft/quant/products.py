"""Products of layers with quantised weights; the one place that chooses the ops for them."""

from __future__ import annotations

import torch

from weft import ops
from weft.quant.formats import CHANNEL, Format
from weft.quant.granularity import join, split
from weft.quant.quantised import Quantised
from weft.quant.scales import of_range, rounded


def weight_only(x: torch.Tensor, weight: Quantised, bias: torch.Tensor | None) -> torch.Tensor:
    """Compute x @ weight.T + bias with the weight in the dtype of x [..., K]."""
    return plain(x, weight.dequantise(x.dtype), bias)


def dynamic(x: torch.Tensor, weight: Quantised, bias: torch.Tensor | None) -> torch.Tensor:
    """Compute x @ weight.T + bias in 8 bits: each row of x [..., K] has a scale of its own."""
    form = weight.form
    q, scale = rows(x.reshape(-1, x.shape[-1]), form)
    product = _int8 if form.integer else _fp8
    made = product(q, weight, scale, None if bias is None else bias.to(x.dtype), x.dtype)
    return made.reshape(*x.shape[:-1], weight.shape[0])


def rows(x: torch.Tensor, form: Format) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise the rows of x [M, K]: numbers of the format, and scales [M, 1]."""
    groups = split(x.float(), CHANNEL)
    scale, _ = of_range(groups, form, symmetric=True)
    q = join(rounded(groups, form, scale, None), (x.shape[0], x.shape[1]))
    return q.to(form.dtype), scale[:, 0, :, 0]


def _fp8(
    q: torch.Tensor,
    weight: Quantised,
    scale: torch.Tensor,
    bias: torch.Tensor | None,
    dtype: torch.dtype,
) -> torch.Tensor:
    made: torch.Tensor = ops.scaled_mm(q, weight.weight.T, scale, weight.scale.T, bias, dtype)
    return made


def _int8(
    q: torch.Tensor,
    weight: Quantised,
    scale: torch.Tensor,
    bias: torch.Tensor | None,
    dtype: torch.dtype,
) -> torch.Tensor:
    """Sums of products of integers are exact in float32 up to 2**24."""
    sums = plain(q.float(), weight.weight.float()) * scale * weight.scale.T
    return (sums if bias is None else sums + bias.float()).to(dtype)


def plain(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Compute x @ weight.T + bias with a weight that is not quantised."""
    made: torch.Tensor = ops.linear(x, weight, None if bias is None else bias.to(x.dtype))
    return made
