"""An array after a run, for the page: its first elements and a summary."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.lab.job import Job
from weft.measure.check import buffers

SHOWN = 8
"""Rows, and elements of each, that the page shows of an array."""


def bits(array: Any) -> np.ndarray[Any, Any]:
    """A copy of an array's bits, to see later whether it was changed."""
    return np.array(buffers.bits(array))


def shown(job: Job, name: str, array: Any, before: np.ndarray[Any, Any]) -> dict[str, Any]:
    """An array for the page: its first elements and a summary."""
    spec = next(a for a in job.arrays if a.name == name)
    after = buffers.bits(array)
    numbers = spec.dtype.decode(after)
    flat = numbers.reshape(-1)
    finite = flat[np.isfinite(flat)] if spec.dtype.floating else flat
    summary = {"min": finite.min().item(), "max": finite.max().item()} if finite.size else {}
    changed = int(np.count_nonzero(after.view(np.uint8) != before.view(np.uint8)))
    wide = numbers.reshape(-1, after.shape[-1]) if after.ndim > 1 and after.size else None
    rows = wide[:SHOWN, :SHOWN] if wide is not None else _in_rows(flat)
    return {
        "name": name,
        "dtype": spec.dtype.name,
        "shape": list(after.shape),
        "rows": [[_text(v) for v in row.tolist()] for row in rows],
        "changed": changed > 0,
        "out": spec.out,
        "nans": int(np.isnan(flat).sum()) if spec.dtype.floating else 0,
        **{k: _text(v) for k, v in summary.items()},
    }


def _in_rows(flat: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    first = flat[: SHOWN * SHOWN]
    return [first[i : i + SHOWN] for i in range(0, len(first), SHOWN)]


def _text(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)
