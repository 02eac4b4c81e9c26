"""An estimate of the bytes between L2 and memory, from the lines that a launch has touched.

Each 128-byte line knows its sectors that were read and written, and in which parts (epochs) of the
launch it went through L2. Memory is read 64 bytes at a time when a line is first needed, and again
when so much else has passed since its last use that L2 has dropped it. Written sectors leave L2
as other lines come. The curves are an H200's: arrays of growing size, read three times.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.device.models import GpuModel
from weft.device.sim.tools.counters.counting import Counts
from weft.device.sim.tools.counters.layout import EPOCHS_AT, WRITTEN_AT

MEASURED_L2 = 60e6
SURVIVES = ((30e6, 1.0), (32e6, 0.99), (36e6, 0.945), (40e6, 0.78), (44e6, 0.48), (48e6, 0.11),
            (52e6, 0.015), (56e6, 0.0))  # fmt: skip
"""Bytes that pass through an L2 of 60 MB -> the part of what was there that still is."""

DIRTY = 30e6
"""Bytes of written lines that such an L2 keeps at the end of a launch."""

SAMPLE = 1 << 16
"""Lines that are looked at, evenly spread, where there are more."""

_READ = np.array([64 * (bool(x & 3) + bool(x & 12)) for x in range(256)], np.int64)
_WRITTEN = np.array([32 * (x >> WRITTEN_AT).bit_count() for x in range(256)], np.int64)
_TOUCHED = np.array([32 * ((x | x >> WRITTEN_AT) & 15).bit_count() for x in range(256)], np.int64)
"""Bytes by the low byte of a line's word: fetched from memory, written, either."""


@dataclass(frozen=True)
class Traffic:
    """Bytes: read for the first time, read again because L2 had dropped them, written back."""

    first: int
    again: int
    written: int


def estimate(counts: Counts, gpu: GpuModel) -> Traffic:
    """What a launch moves between L2 and memory, if L2 was empty before."""
    sorts = np.bincount((counts.lines & np.uint64(255)).astype(np.uint8), minlength=256)
    first, written, touched = (int(sorts @ table) for table in (_READ, _WRITTEN, _TOUCHED))
    scale = gpu.l2 / MEASURED_L2
    again = _again(counts, scale) if touched > SURVIVES[0][0] * scale else 0.0
    kept = min(1.0, DIRTY * scale / touched) if touched else 1.0
    return Traffic(first, int(again), int(written * (1 - kept)))


def _again(counts: Counts, scale: float) -> float:
    """Bytes of lines that are used in one epoch, and in a later one find themselves dropped."""
    words = counts.lines[counts.lines != 0]
    step = -(-len(words) // SAMPLE)
    words = words[::step]
    kinds, epochs = words & np.uint64(255), words >> np.uint64(EPOCHS_AT)
    moved, passing = _READ[kinds], _TOUCHED[kinds]
    bits = [(epochs >> np.uint64(k)) & np.uint64(1) == 1 for k in range(counts.epoch_count)]
    through = np.array([step * passing[bit].sum() for bit in bits], np.float64)
    before = np.concatenate([[0.0], np.cumsum(through)])
    middle = before[:-1] + through / 2
    latest = np.full(len(words), -1)
    total = 0.0
    sizes, kept = (np.array(x) for x in zip(*SURVIVES, strict=True))
    for k, bit in enumerate(bits):
        back = bit & (latest >= 0)
        passed = middle[k] - middle[latest[back]]
        total += float((moved[back] * (1 - np.interp(passed, sizes * scale, kept))).sum())
        latest[bit] = k
    return step * total
