"""Estimates the traffic between L2 and DRAM from the cache lines that a launch accessed.

Each 128-byte line records which sectors were read and written, and in which epochs of the launch it
passed through L2. DRAM is read 64 bytes at a time at the first use of a line, and again if so much
other data has passed since its last use that L2 evicted it. Written sectors leave L2 when other
lines replace them. The curves were measured on an H200: arrays of growing size, read three times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.device.models import GpuModel
from weft.device.sim.tools.counters.counting import LaunchCounts
from weft.device.sim.tools.counters.layout import EPOCHS_AT, SECTOR_BYTES, WRITTEN_AT

MEASURED_L2 = 60e6
SURVIVES = ((30e6, 1.0), (32e6, 0.99), (36e6, 0.945), (40e6, 0.78), (44e6, 0.48), (48e6, 0.11),
            (52e6, 0.015), (56e6, 0.0))  # fmt: skip
"""Bytes that pass through an L2 of 60 MB -> the fraction of older data that survives."""

DIRTY = 30e6
"""Bytes of dirty lines in such an L2 at the end of a launch."""

PAIR = 2 * SECTOR_BYTES
"""Bytes that DRAM reads at a time."""

SAMPLE = 1 << 16
"""The most lines that are examined; of more lines an evenly spaced sample."""


@dataclass(frozen=True)
class Traffic:
    """Bytes read for the first time, read again after eviction from L2, and written back."""

    first: int
    again: int
    written: int


def estimate(counts: LaunchCounts, gpu: GpuModel) -> Traffic:
    """The traffic of a launch that starts with an empty L2."""
    sectors = counts.sectors
    first = PAIR * _sum(_read(sectors))
    written, touched = (SECTOR_BYTES * _sum(f(sectors)) for f in (_written, _touched))
    scale = gpu.l2 / MEASURED_L2
    again = _again(counts, scale) if touched > SURVIVES[0][0] * scale else 0.0
    kept = min(1.0, DIRTY * scale / touched) if touched else 1.0
    return Traffic(first, int(again), int(written * (1 - kept)))


# Counts by the low byte of a line's word, or by those of four lines in one number.
def _read(sectors: NDArray[Any]) -> NDArray[np.uint8]:
    """Pairs of sectors, as they are fetched from DRAM."""
    return _count(sectors | (sectors >> 1), 0x05050505)


def _written(sectors: NDArray[Any]) -> NDArray[np.uint8]:
    return _count(sectors >> WRITTEN_AT, 0x0F0F0F0F)


def _touched(sectors: NDArray[Any]) -> NDArray[np.uint8]:
    """Read or written."""
    return _count(sectors | (sectors >> WRITTEN_AT), 0x0F0F0F0F)


def _count(sectors: NDArray[Any], mask: int) -> NDArray[np.uint8]:
    count: NDArray[np.uint8] = np.bitwise_count(sectors & mask)
    return count


def _sum(counts: NDArray[np.uint8]) -> int:
    return int(counts.sum(dtype=np.int64))


def _again(counts: LaunchCounts, scale: float) -> float:
    """Bytes of lines that are used again in a later epoch, after their eviction."""
    words = counts.lines[counts.lines != 0]
    # A sample bounds the time for large arrays; results scale with the step.
    step = -(-len(words) // SAMPLE)
    words = words[::step]
    kinds, epochs = words & np.uint64(255), words >> np.uint64(EPOCHS_AT)
    several = np.bitwise_count(epochs) > 1  # only such lines can be read again
    if not several.any():
        return 0.0
    passing = SECTOR_BYTES * _touched(kinds).astype(np.int64)
    all_epochs = [np.uint64(1 << k) for k in range(counts.epoch_count)]
    through = np.array([step * passing[epochs & k != 0].sum() for k in all_epochs], np.float64)
    before = np.concatenate([[0.0], np.cumsum(through)])
    middle = before[:-1] + through / 2
    moved, epochs = PAIR * _read(kinds[several]).astype(np.int64), epochs[several]
    latest = np.full(len(epochs), -1)
    total = 0.0
    sizes, kept = (np.array(x) for x in zip(*SURVIVES, strict=True))
    for k, bit in enumerate(epochs & e != 0 for e in all_epochs):
        back = bit & (latest >= 0)
        passed = middle[k] - middle[latest[back]]
        total += float((moved[back] * (1 - np.interp(passed, sizes * scale, kept))).sum())
        latest[bit] = k
    return step * total
