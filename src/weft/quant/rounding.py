"""Quantise a weight: `weft.quant.quantise`."""

from __future__ import annotations

import torch

from weft.errors import ArgumentError
from weft.quant.formats import Format, Group, check_group, format_of
from weft.quant.granularity import join, split
from weft.quant.packing import pack
from weft.quant.quantised import Quantised
from weft.quant.scales import of_range, rounded, searched
from weft.quoting import quoted

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


def quantise(
    weight: torch.Tensor,
    format: str,
    group: int | str | None = None,
    *,
    symmetric: bool = True,
    axis: int = 1,
    energy: torch.Tensor | None = None,
) -> Quantised:
    """Quantise the weight of a linear layer to 8 or 4 bits.

    weight      [N, K] in float32, float16, bfloat16 or float64, on any device
    format      int8, int4, e4m3 or e5m2
    group       elements of a row that share a scale: 32, 64 or 128; "channel" (also None) for a
                row, "tensor" for all; "block" for 128 x 128, of e4m3 and e5m2
    symmetric   False: integers also have a zero, for weights whose signs are not balanced
    axis        the dimension that a product sums over; 0 for a weight [K, N], which is transposed
    energy      mean square of each input channel [K]: scales are then clipped for the least error
                of the layer's output

    The scale is the largest magnitude of a group over the largest number of the format. Numbers are
    rounded to the nearest, ties to even, and saturated: without `energy`, integers are at most half
    a scale away. Groups of zeros have the scale 1.

    >>> import torch
    >>> w = torch.linspace(-1, 1, 64).reshape(2, 32)
    >>> q = weft.quant.quantise(w, "int8", group=32)
    >>> print(bool(((q.dequantise() - w).abs() <= q.scale / 2).all()), q.bits)
    True 9.0
    """
    form = format_of(format)
    kind = check_group(form, group)
    _check_options(form, symmetric, axis)
    _check_weight(weight)
    matrix = weight.detach() if axis in (1, -1) else weight.detach().T
    shape = (matrix.shape[0], matrix.shape[1])
    _check_columns(form, kind, shape[1])
    values = matrix.float()
    _check_finite(values)
    groups = split(values, kind)
    if energy is None:
        scale, zero = of_range(groups, form, symmetric)
    else:
        squares = _check_energy(energy, shape[1]).to(values.device, torch.float32)
        scale, zero = searched(groups, form, symmetric, split(squares.expand(shape), kind))
    q = join(rounded(groups, form, scale, zero), shape)
    return Quantised(
        weight=pack(q).contiguous() if form.bits == 4 else q.to(form.dtype).contiguous(),
        scale=scale[:, 0, :, 0].contiguous(),
        zero=None if zero is None else zero[:, 0, :, 0].contiguous(),
        format=form.name,
        group=kind,
        shape=shape,
        dtype=weight.dtype,
    )


# ---- refusals ----------------------------------------------------------------------------------
def _check_options(form: Format, symmetric: object, axis: object) -> None:
    if not isinstance(symmetric, bool):
        raise ArgumentError("symmetric is a flag", got=quoted(symmetric), allowed="True, False")
    if not symmetric and not form.integer:
        raise ArgumentError(
            f"{form.name} weights are symmetric: floats need no zero",
            got="symmetric=False",
            allowed="symmetric=True; int8 and int4 take both",
        )
    if axis not in (0, 1, -1, -2) or isinstance(axis, bool):
        raise ArgumentError("axis is no dimension of a weight", got=quoted(axis), allowed="0, 1")


def _check_weight(weight: object) -> None:
    names = ", ".join(str(d).removeprefix("torch.") for d in DTYPES)
    if not isinstance(weight, torch.Tensor):
        raise ArgumentError("a weight is a tensor", got=quoted(weight), allowed=f"{names} [N, K]")
    if weight.dtype not in DTYPES:
        raise ArgumentError("a weight has floats", got=str(weight.dtype), allowed=names)
    if weight.dim() != 2 or 0 in weight.shape:
        raise ArgumentError(
            "a weight has rows and columns", got=str(list(weight.shape)), allowed="[N, K]"
        )


def _check_columns(form: Format, group: Group, k: int) -> None:
    if form.bits == 4 and k % 2:
        raise ArgumentError(
            "int4 weights have an even number of columns, because a byte holds two",
            got=f"K = {k}",
            next="use int8, or add a column of zeros to the weight and to the input",
        )
    if isinstance(group, int) and k % group:
        raise ArgumentError(
            "the group does not divide the columns of the weight",
            got=f"group={group}, K = {k}",
            allowed="32, 64 or 128 that divides K",
            next='group="channel" takes any K',
        )


def _check_finite(values: torch.Tensor) -> None:
    bad = ~values.isfinite()
    if bool(bad.any()):
        row, column = (int(i) for i in bad.nonzero()[0])
        raise ArgumentError(
            "the weight has numbers that are not finite in float32",
            where=f"row {row}, column {column}",
            got=f"{float(values[row, column])}, one of {int(bad.sum())}",
            allowed="finite numbers",
        )


def _check_energy(energy: object, k: int) -> torch.Tensor:
    fits = isinstance(energy, torch.Tensor) and tuple(energy.shape) == (k,)
    if not isinstance(energy, torch.Tensor) or not fits:
        got = list(energy.shape) if isinstance(energy, torch.Tensor) else quoted(energy)
        raise ArgumentError(
            "energy has another shape than the input channels", got=str(got), allowed=f"[{k}]"
        )
    if not bool((energy.isfinite() & (energy >= 0)).all()):
        raise ArgumentError("energy has numbers that are no mean squares", allowed="finite, >= 0")
    return energy
