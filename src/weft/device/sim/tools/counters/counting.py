"""The counting observer: reserves memory for counters and adds them up after the launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft.device.sim.observe import Watched, Watcher
from weft.device.sim.run.observation import Observation, zeroed
from weft.device.sim.tools.counters.layout import (
    EPOCHS,
    CachedLineBits,
    CounterRow,
    LaunchFields,
    PerWorker,
    PlacedAllocation,
    Repeated,
)

if TYPE_CHECKING:
    from weft.device.base import Allocation

SMALL, SMALL_ALIGN, LARGE_ALIGN = 1 << 20, 512, 2 << 20
"""`cudaMalloc` allocates 512-byte pieces of pages of 2 MiB, and whole pages from about 1 MiB."""


@dataclass(frozen=True)
class Region:
    """An allocation in the virtual memory; its lines are `first .. first + lines - 1`."""

    name: str
    nbytes: int
    first: int
    lines: int


@dataclass(frozen=True)
class LaunchCounts:
    """The counts of a launch; see `layout` for rows and lines.

    words  the sums of the workers' memory, which `notes["rows"]` describes
    """

    notes: Mapping[str, Any]
    words: NDArray[np.int64]
    regions: tuple[Region, ...]
    lines: NDArray[np.uint64]
    epoch_count: int

    @cached_property
    def sectors(self) -> NDArray[np.uint32]:
        """Sectors read and written: the low bytes of `lines`, those of four lines to a number."""
        # NumPy counts the bits of 32-bit numbers as fast as those of single bytes.
        out = np.zeros(-(-len(self.lines) // 4) * 4, np.uint8)
        out[: len(self.lines)] = self.lines
        return out.view(np.uint32)


@dataclass
class Counting:
    """Counts one launch.

    l1_lines      lines that a block of threads can keep in its share of an L1
    resident      blocks that the GPU runs at once
    shared        the launch's memory that all workers share: `layout.LaunchFields`
    blocks        ranges of the blocks to run, if not the whole grid
    """

    l1_lines: int
    resident: int
    counts: LaunchCounts | None = None
    key: str = "count 3"
    shared: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    blocks: Sequence[range] = ()
    _workers: list[NDArray[np.uint8]] = field(default_factory=list)

    def watcher(self, e: Watched) -> Watcher:
        from weft.device.sim.tools.counters.watcher import CountWatcher

        return CountWatcher(e)

    def begin(self, observation: Observation) -> None:
        x, y, z = observation.config.grid
        blocks = x * y * z
        regions, places = _place(observation.memory)
        lines = max((r.first + r.lines for r in regions), default=0)
        seen = zeroed(8 * (lines + 1)).view(np.uint64)
        # A part is as many blocks as the GPU holds at once, or more where a word has too few bits.
        parts = min(EPOCHS, -(-blocks // self.resident))
        shared = np.zeros(LaunchFields.SIZE // 8 + places.size, np.int64)
        shared[LaunchFields.SIZE // 8 :] = places.ravel()
        fields = {
            LaunchFields.PLACES: shared.ctypes.data + LaunchFields.SIZE,
            LaunchFields.PLACE_COUNT: len(places),
            LaunchFields.LINES: seen.ctypes.data,
            LaunchFields.BLOCKS: blocks,
            LaunchFields.EPOCH_COUNT: parts,
        }
        for at, value in fields.items():
            shared[at // 8] = value
        self.shared = shared
        observation.for_launch(shared.view(np.uint8))
        self._l1(observation, len(seen))
        words = np.empty(0, np.int64)
        self.counts = LaunchCounts(observation.notes, words, regions, seen, parts)

    def _l1(self, observation: Observation, lines: int) -> None:
        """Allocate each worker's counters and its L1: its sets, and the state of each line."""
        sets = 1 << max(0, self.l1_lines // CachedLineBits.WAYS - 1).bit_length()
        start = observation.notes["nbytes"]
        cached = start + 4 * max(2, sets)
        self._workers = observation.for_workers(cached + 8 * lines)
        for memory in self._workers:
            head = memory[: PerWorker.HEADER].view(np.int64)
            head[PerWorker.SETS // 8] = memory.ctypes.data + start
            head[PerWorker.SET_MASK // 8] = sets - 1
            head[PerWorker.CACHED // 8] = memory.ctypes.data + cached

    def end(self, observation: Observation) -> None:
        total = np.zeros(observation.notes["nbytes"] // 8, np.int64)
        for memory in self._workers:
            words = memory[: 8 * len(total)].view(np.int64)
            _add_repeated(words, observation.notes["rows"])
            total += words
        assert self.counts is not None
        c = self.counts
        self._workers = []
        self.counts = LaunchCounts(c.notes, total, c.regions, c.lines, c.epoch_count)


def _add_repeated(words: NDArray[np.int64], rows: Sequence[Mapping[str, Any]]) -> None:
    """Add executions that are recorded before their row, and not yet in it."""
    for row in rows:
        if row.get("repeated"):
            at = row["at"] // 8
            before = words[at - Repeated.SIZE // 8 : at]
            counters = before[Repeated.COUNTERS // 8 :][: CounterRow.PLACE // 8]
            words[at : at + len(counters)] += before[Repeated.TIMES // 8] * counters


def _place(memory: Sequence[Allocation]) -> tuple[tuple[Region, ...], NDArray[np.int64]]:
    """The virtual address of each allocation; an offset of less than 16 bytes is preserved."""
    regions, places = [], np.zeros((len(memory), PlacedAllocation.SIZE // 8), np.int64)
    end = 0
    for row, a in zip(places, memory, strict=True):
        # Places of their own make the counts independent of where the host has put the arrays.
        align = LARGE_ALIGN if a.nbytes >= SMALL else SMALL_ALIGN
        base = -(-end // align) * align
        start = base + a.address % 16
        end = start + a.nbytes
        lines = (end + 127 >> 7) - (base >> 7)
        regions.append(Region(a.name, a.nbytes, base >> 7, lines))
        row[:] = a.address, a.nbytes, start - a.address, 0
    return tuple(regions), places
