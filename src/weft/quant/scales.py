"""Scales of groups: from the largest magnitude, or clipped for the least weighted error.

All functions take groups as `granularity.split` gives them, and return scales [A, 1, B, 1].
"""

from __future__ import annotations

import torch

from weft.quant.formats import Format

CLIPPED = tuple(1 - 0.05 * i for i in range(11))
"""Shares of the largest magnitude that the search tries; 1 first, so that ties are not clipped."""
Scales = tuple[torch.Tensor, torch.Tensor | None]


def of_range(groups: torch.Tensor, form: Format, symmetric: bool, share: float = 1.0) -> Scales:
    """Scale and zero of groups, so that `share` of their range is not saturated.

    A zero is a whole number, so that 0 stays 0. Groups of zeros have the scale 1.
    """
    if symmetric:
        most = groups.abs().amax((1, 3), keepdim=True) * share
        return _scale(most, form.high), None
    low = groups.amin((1, 3), keepdim=True).clamp(max=0) * share
    high = groups.amax((1, 3), keepdim=True).clamp(min=0) * share
    # Half of each: the range of large numbers of both signs has no float.
    scale = _scale(high / 2 - low / 2, (form.high - form.low) / 2)
    return scale, form.low - (low / scale).round()


def _scale(most: torch.Tensor, steps: float) -> torch.Tensor:
    """The step of a range; no denormal, whose few bits would break the bound of the error."""
    step = (most / steps).clamp(min=torch.finfo(torch.float32).tiny)
    return torch.where(most > 0, step, torch.ones_like(step))


def rounded(
    groups: torch.Tensor, form: Format, scale: torch.Tensor, zero: torch.Tensor | None
) -> torch.Tensor:
    """The nearest numbers of the format, ties to even, saturated; as float32."""
    q = groups / scale
    if form.integer:
        q = q.round() if zero is None else q.round() + zero
        return q.clamp(form.low, form.high)
    return q.clamp(form.low, form.high).to(form.dtype).float()


def searched(groups: torch.Tensor, form: Format, symmetric: bool, energy: torch.Tensor) -> Scales:
    """The scales of those that clip least or more with the least error, weighted by `energy`.

    energy   mean square of the input that each element is multiplied by, beside `groups`
    """
    best = of_range(groups, form, symmetric)
    least = _error(groups, form, best, energy)
    for share in CLIPPED[1:]:
        scales = of_range(groups, form, symmetric, share)
        error = _error(groups, form, scales, energy)
        better = error < least
        least = torch.where(better, error, least)
        best = _chosen(better, scales, best)
    return best


def _error(
    groups: torch.Tensor, form: Format, scales: Scales, energy: torch.Tensor
) -> torch.Tensor:
    scale, zero = scales
    q = rounded(groups, form, scale, zero)
    away = (q if zero is None else q - zero) * scale - groups
    return (away.square() * energy).sum((1, 3), keepdim=True)


def _chosen(better: torch.Tensor, new: Scales, old: Scales) -> Scales:
    scale, zero = (
        None if a is None or b is None else torch.where(better, a, b)
        for a, b in zip(new, old, strict=True)
    )
    assert scale is not None
    return scale, zero
