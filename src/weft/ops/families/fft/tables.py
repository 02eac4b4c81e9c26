"""Tables of roots of unity: computed in double precision, rounded once."""

from __future__ import annotations

import functools

import numpy as np
import torch

from weft.ops.core.plan import Constant
from weft.ops.families.fft.lengths import Stages


def stage_roots(stages: Stages) -> Constant | None:
    """The roots that all stages but the first multiply by: [r - 1][k] for stage after stage."""
    if len(stages.radices) == 1:
        return None
    return Constant(f"roots {stages}", functools.partial(_stage_roots, stages.radices))


def turns(n: int) -> Constant:
    """exp(-2 pi i k / 2n) for k < n: they fold a real transform of 2n elements."""
    return Constant(f"turns {n}", lambda: _tensor(_units(np.arange(n), 2 * n)))


def chirp(n: int) -> Constant:
    """exp(-pi i k^2 / n) for k < n."""
    return Constant(f"chirp {n}", lambda: _tensor(_chirp(n)))


def chirp_spectrum(n: int, length: int, rows: int = 1) -> Constant:
    """The transform of the opposite chirp for -n < k < n, over its length.

    Element k is at [k % rows][k / rows].
    """
    name = f"chirp spectrum {n} {length} {rows}"
    return Constant(name, lambda: _tensor(_chirp_spectrum(n, length).reshape(-1, rows).T.ravel()))


def _chirp(n: int) -> np.ndarray:
    k = np.arange(n, dtype=np.int64)
    return _units(k * k % (2 * n), 2 * n)


def _chirp_spectrum(n: int, length: int) -> np.ndarray:
    opposite = np.zeros(length, np.complex128)
    opposite[:n] = _chirp(n).conj()
    opposite[length - n + 1 :] = opposite[1:n][::-1]
    return np.fft.fft(opposite) / length


def _stage_roots(radices: tuple[int, ...]) -> torch.Tensor:
    tables, before = [], radices[0]
    for r in radices[1:]:
        k = np.arange(1, r)[:, None] * np.arange(before)[None, :]
        tables.append(_units(k, before * r).ravel())
        before *= r
    return _tensor(np.concatenate(tables))


def _units(k: np.ndarray, n: int) -> np.ndarray:
    """exp(-2 pi i k / n)."""
    return np.exp(-2j * np.pi * (k % n) / n)


def _tensor(values: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(values.astype(np.complex64))
