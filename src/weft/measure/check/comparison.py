"""Compares an output with the reference: the wrong elements and the worst of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.measure.check.runner import Stored
from weft.measure.dtypes import Array, DType

MAP_ROWS, MAP_COLUMNS = 8, 32
_SHADES = " ░▒▓█"


@dataclass(frozen=True)
class Difference:
    """An output that is wrong.

    wrong   a flag for every element
    ratio   the error of the worst element over its tolerance
    """

    output: str
    index: tuple[int, ...]
    got: float | int
    expected: float | int
    allowed: float
    ulps: float
    ratio: float
    wrong: Array

    @property
    def count(self) -> int:
        return int(np.count_nonzero(self.wrong))

    def map(self) -> str:
        """A text map of the output, darker where more elements are wrong."""
        flat = self.wrong.reshape(-1, self.wrong.shape[-1]) if self.wrong.ndim > 1 else None
        grid = flat if flat is not None else self.wrong.reshape(1, -1)
        if grid.shape[0] == 1 and grid.shape[1] > MAP_COLUMNS:  # one long row: use the width of two
            cells = [np.array([c]) for c in np.array_split(grid[0], MAP_COLUMNS * 2)]
            return "|" + "".join(_shade(c) for c in cells) + "|"
        rows = np.array_split(grid, min(MAP_ROWS, grid.shape[0]), axis=0)
        lines = []
        for row in rows:
            cells = np.array_split(row, min(MAP_COLUMNS, row.shape[1]), axis=1)
            lines.append("|" + "".join(_shade(c) for c in cells) + "|")
        return "\n".join(lines)


def _shade(cell: Array) -> str:
    part = float(np.mean(cell)) if cell.size else 0.0
    return _SHADES[int(np.ceil(part * (len(_SHADES) - 1)))]


@dataclass(frozen=True)
class Agreement:
    """An output that is right; `ratio` is the largest error over its tolerance.

    blind  True if an output of zeros would also pass
    """

    output: str
    ratio: float
    blind: bool


def compare(
    name: str, stored: Stored, expected: Array, limit: Array, dtype: DType
) -> Difference | Agreement:
    """Compare one output; `limit` is the tolerance of each element.

    Integers wrap around: an expected 300 is 44 in a byte.
    """
    got = stored.dtype.decode(stored.bits)
    if not dtype.floating:
        # The reference computes in wide integers; the output type wraps.
        if expected.dtype.kind != "f":
            expected = expected.astype(dtype.numpy)
        wrong = np.asarray(got != expected)
        ratio = np.where(wrong, np.inf, 0.0)
        blind = bool(expected.size) and not np.any(expected)
    else:
        ratio = _ratios(got, expected, limit, dtype)
        wrong = ratio > 1
        zeros = _ratios(np.zeros_like(got), expected, limit, dtype)
        blind = bool(expected.size) and not np.any(zeros > 1)
    if not np.any(wrong):
        return Agreement(name, float(np.max(ratio, initial=0.0)), blind)
    # A NaN ratio counts as infinitely wrong.
    at = np.unravel_index(int(np.argmax(np.where(np.isnan(ratio), np.inf, ratio))), wrong.shape)
    g, e = got[at].item(), expected[at].item()
    return Difference(
        name,
        tuple(int(i) for i in at),
        g,
        e,
        float(limit[at]) if dtype.floating else 0.0,
        dtype.ulps(g, e) if dtype.floating else float(abs(g - e)),
        float(ratio[at]),
        wrong,
    )


def _ratios(got: Array, expected: Array, limit: Array, dtype: DType) -> Array:
    """Errors over tolerances; infinite where only one side is NaN or infinite."""
    with np.errstate(all="ignore"):
        error = np.abs(got - expected) / limit
        # Near the largest finite value, both infinity and the largest value are correct roundings.
        over = np.abs(expected) > dtype.largest
        edge = (
            np.abs(expected) + limit >= dtype.largest
        )  # rounding decides between finite and infinite
        same = (got == expected) | (np.isnan(got) & np.isnan(expected))
        same |= edge & np.isinf(got) & (np.sign(got) == np.sign(expected))
        same |= over & (np.abs(got) == dtype.largest) & (np.sign(got) == np.sign(expected))
        error = np.where(np.isfinite(got) & np.isfinite(expected) & ~over, error, np.inf)
        return np.where(same, 0.0, error)
