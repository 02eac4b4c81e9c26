"""An estimate of the bytes between L2 and memory, from the lines that a launch has touched.

Each 128-byte line knows its sectors that were read and written, and in which parts (epochs) of the
launch it went through L2. Memory is read 64 bytes at a time when a line is first needed, and again
when so much else has passed since its last use that L2 has dropped it. Written sectors leave L2
as other lines come. The curves are an H200's: arrays of growing size, read three times.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.device.models import GpuModel
from weft.device.sim.count.counting import Counts

MEASURED_L2 = 60e6
SURVIVES = ((30e6, 1.0), (32e6, 0.99), (36e6, 0.945), (40e6, 0.78), (44e6, 0.48), (48e6, 0.11),
            (52e6, 0.015), (56e6, 0.0))  # fmt: skip
"""Bytes that pass through an L2 of 60 MB -> the part of what was there that still is."""

DIRTY = 30e6
"""Bytes of written lines that such an L2 keeps at the end of a launch."""

_PAIRS = np.array([64 * (bool(m & 3) + bool(m & 12)) for m in range(16)], np.int64)
_SECTORS = np.array([32 * m.bit_count() for m in range(16)], np.int64)


@dataclass(frozen=True)
class Traffic:
    """Bytes: read for the first time, read again because L2 had dropped them, written back."""

    first: int
    again: int
    written: int


def estimate(counts: Counts, gpu: GpuModel) -> Traffic:
    """What a launch moves between L2 and memory, if L2 was empty before."""
    reads, writes = counts.flags & 15, counts.flags >> 4
    moved = _PAIRS[reads]
    passing = _SECTORS[reads | writes]
    scale = gpu.l2 / MEASURED_L2
    total = int(passing.sum())
    again = _again(counts, moved, passing, scale) if total > SURVIVES[0][0] * scale else 0.0
    written = int(_SECTORS[writes].sum())
    kept = min(1.0, DIRTY * scale / total) if total else 1.0
    return Traffic(int(moved.sum()), int(again), int(written * (1 - kept)))


def _again(
    counts: Counts, moved: NDArray[np.int64], passing: NDArray[np.int64], scale: float
) -> float:
    """Bytes of lines that are used in one epoch, and in a later one find themselves dropped."""
    used = np.flatnonzero(counts.epochs)
    epochs, moved, passing = counts.epochs[used], moved[used], passing[used]
    bits = [(epochs >> np.uint64(k)) & np.uint64(1) == 1 for k in range(counts.epoch_count)]
    through = np.array([passing[bit].sum() for bit in bits], np.float64)
    before = np.concatenate([[0.0], np.cumsum(through)])
    middle = before[:-1] + through / 2
    latest = np.full(len(used), -1)
    total = 0.0
    sizes, kept = (np.array(x) for x in zip(*SURVIVES, strict=True))
    for k, bit in enumerate(bits):
        back = bit & (latest >= 0)
        passed = middle[k] - middle[latest[back]]
        total += float((moved[back] * (1 - np.interp(passed, sizes * scale, kept))).sum())
        latest[bit] = k
    return total
