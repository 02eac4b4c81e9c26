"""Prune a weight to two of four by magnitude, and report what that keeps."""

from __future__ import annotations

from typing import Any

import torch

from weft.errors import ArgumentError
from weft.records import dataclass

FOUR = 4
ROUNDS = 24
"""Rounds of exchanges between pairs of fours; each compares every four with another one."""
PART = 2**24
"""Elements that are compared at once, so that memory stays bounded."""


@dataclass(frozen=True)
class SparsityReport:
    """The share of a weight that pruning to two of four keeps.

    kept   share of the sum of magnitudes
    error  Frobenius norm of what is pruned, relative to that of the weight
    zeros  share of elements that are 0 already

    >>> report = weft.sparse.report(torch.tensor([[1.0, 0.0, 3.0, 0.0]]))
    >>> print(report.kept, report.error, report.zeros)
    1.0 0.0 0.5
    """

    kept: float
    error: float
    zeros: float

    def __str__(self) -> str:
        return (
            f"2:4 keeps {self.kept:.1%} of the magnitude; relative error {self.error:.3f};"
            f" {self.zeros:.1%} are zeros now"
        ).replace("%", " %")


def check_weight(who: str, weight: Any, multiple: int = FOUR) -> None:
    """Raise unless a weight is a matrix of floating-point numbers with whole fours of columns."""
    if not isinstance(weight, torch.Tensor):
        raise ArgumentError(
            f"weft.sparse.{who}: weight has a wrong type",
            got=f"{weight!r:.60} ({type(weight).__name__})",
            allowed="a tensor",
        )
    fits = weight.dim() == 2 and weight.shape[1] > 0 and weight.shape[1] % multiple == 0
    if not fits or not weight.is_floating_point():
        raise ArgumentError(
            f"weft.sparse.{who}: weight has a shape or dtype that cannot be 2:4 sparse",
            got=f"{list(weight.shape)} {weight.dtype}",
            allowed=f"[N, K] of floating-point numbers, K a multiple of {multiple}",
        )


def prune(weight: Any, permute: bool = False) -> Any:
    """Keep two of four; see `weft.sparse.prune`."""
    check_weight("prune", weight)
    if not permute:
        return _pruned(weight.detach())
    order = permutation(weight)
    return _pruned(weight.detach()[:, order]), order


def report(weight: Any) -> SparsityReport:
    """Measure what `prune` keeps; see `weft.sparse.report`."""
    check_weight("report", weight)
    wide = weight.detach().double()
    pruned = _pruned(wide)
    total, norm = float(wide.abs().sum()), float(wide.norm())
    kept = float(pruned.abs().sum()) / total if total else 1.0
    error = float((wide - pruned).norm()) / norm if norm else 0.0
    zeros = float((wide == 0).double().mean()) if wide.numel() else 0.0
    return SparsityReport(kept, error, zeros)


def _pruned(weight: Any) -> Any:
    return weight.masked_fill(~kept_places(weight), 0)


def kept_places(weight: Any) -> Any:
    """True where an element is one of the two of its four that are kept; the first ones of equals.

    A NaN counts as largest: it stays, to be seen.
    """
    fours = weight.detach().abs().reshape(weight.shape[0], -1, FOUR)
    order = fours.sort(dim=2, descending=True, stable=True).indices[..., :2]
    kept = torch.zeros(fours.shape, dtype=torch.bool, device=weight.device)
    return kept.scatter_(2, order, True).reshape(weight.shape)


# ---- permutation -------------------------------------------------------------------------------
def permutation(weight: Any) -> Any:
    """An order of columns that keeps more magnitude, found by exchanges that each keep more.

    The idea is that of channel permutations by J. Pool and C. Yu, "Channel Permutations for N:M
    Sparsity" (2021); here fours are compared in pairs, all pairs of a round at once.
    """
    magnitudes = weight.detach().abs().float()
    order = torch.arange(weight.shape[1], device=weight.device).reshape(-1, FOUR)
    count = order.shape[0]
    for distance in range(1, min(count, ROUNDS + 1)):
        first, second = _pairs(count, distance, weight.device)
        gains = _gains(magnitudes, order[first], order[second])  # [pairs, 4 * 4]
        best = gains.max(dim=1)
        chosen = (best.values > 0).nonzero().flatten()
        left, right = first[chosen], second[chosen]
        i, j = best.indices[chosen] // FOUR, best.indices[chosen] % FOUR
        order[left, i], order[right, j] = order[right, j].clone(), order[left, i].clone()
    return order.flatten()


def _pairs(count: int, distance: int, device: Any) -> tuple[Any, Any]:
    """Disjoint pairs of fours that are so far apart: (first ones, second ones)."""
    at = torch.arange(count, device=device)
    first = at[(at // distance % 2 == 0) & (at + distance < count)]
    return first, first + distance


def _gains(magnitudes: Any, left: Any, right: Any) -> Any:
    """The magnitude that is kept in addition if column i of a left four is exchanged with column j
    of its right one: [pairs, 4 i + j].
    """
    rows = max(1, PART // (2 * FOUR**3 * max(1, left.shape[0])))
    total = torch.zeros(left.shape[0], FOUR * FOUR, device=magnitudes.device)
    for part in magnitudes.split(rows):
        a, b = part[:, left], part[:, right]  # [rows, pairs, 4]
        now = _kept(a) + _kept(b)
        for i in range(FOUR):
            for j in range(FOUR):
                changed = a.clone(), b.clone()
                changed[0][..., i], changed[1][..., j] = b[..., j], a[..., i]
                gain = _kept(changed[0]) + _kept(changed[1]) - now
                total[:, FOUR * i + j] += gain.sum(0)
    return total


def _kept(fours: Any) -> Any:
    """The sum of the two largest of four."""
    low, high = fours[..., :2], fours[..., 2:]
    pairs = torch.maximum(low.sum(-1), high.sum(-1))
    return torch.maximum(pairs, low.amax(-1) + high.amax(-1))
