"""Counting, and samples: the addresses from which a picture of an access is drawn.

The first warps of the first and the last block (or of a block that is asked for) record their first
execution of each access: which lanes took part, and the address of each. `tracing` keeps more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft.device.sim.observe import Watched, Watcher
from weft.device.sim.run.observation import Observation
from weft.device.sim.tools.counters.counting import Counting
from weft.device.sim.tools.counters.layout import (
    BLOCKS,
    LANES,
    RECORD,
    WARPS,
    Launch,
    Samples,
)

if TYPE_CHECKING:
    from weft.device.base import Allocation


@dataclass(frozen=True)
class Sample:
    """One execution of an access by one warp.

    place       the array, "shared", or "" where no array holds all that was touched
    offsets     from the start of that place, for each of the 32 lanes; None: it took no part
    execution   its number among the `executions` of this access by this warp
    """

    instruction: int
    kind: str
    nbytes: int
    block: int
    warp: int
    place: str
    offsets: tuple[int | None, ...]
    execution: int = 0
    executions: int = 1


@dataclass
class Sampling(Counting):
    """Counts one launch and keeps `samples` of it; `block` is the number of the one to watch."""

    key: str = "count 1, sampled"
    block: int | None = None
    warps: int = WARPS
    depth: int = 1
    samples: tuple[Sample, ...] = ()
    _table: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    _records: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    def watcher(self, e: Watched) -> Watcher:
        from weft.device.sim.tools.counters.sample_watcher import (
            SampleWatcher,  # to compile, not to run
        )

        return SampleWatcher(e)

    def begin(self, observation: Observation) -> None:
        super().begin(observation)
        x, y, z = observation.config.grid
        last = x * y * z - 1
        # No block has the number -1, so the second row stays empty.
        chosen = [0, last] if self.block is None else [self.block, -1]
        sites = len(observation.notes["sites"])
        self.warps, self.depth = self._room(observation, sites)
        head, words = Samples.RECORDS // 8, sites * self.warps * Samples.words(self.depth)
        self._records = np.zeros((BLOCKS, head + words), np.int64)
        self._table = np.zeros((BLOCKS, 2), np.int64)
        for row, block, records in zip(self._table, chosen, self._records, strict=True):
            records[:head] = self.warps, self.depth
            row[:] = block, records.ctypes.data
        self.shared[Launch.SAMPLED // 8] = self._table.ctypes.data
        observation.for_slots(8)

    def end(self, observation: Observation) -> None:
        super().end(observation)
        shared = self._shared_bytes(observation)
        sites = observation.notes["sites"]
        size = (len(sites), self.warps, Samples.words(self.depth))
        out = []
        for (block, _), words in zip(self._table.tolist(), self._records, strict=True):
            for site, warps in zip(sites, words[Samples.RECORDS // 8 :].reshape(size), strict=True):
                for warp in np.flatnonzero(warps[:, 0]).tolist():
                    times = int(warps[warp, 0])
                    records = warps[warp, 1:].reshape(self.depth, RECORD)[:times]
                    out += [
                        replace(
                            _sample(site, block, warp, record, observation.memory, shared),
                            execution=i,
                            executions=times,
                        )
                        for i, record in enumerate(records)
                    ]
        self.samples = tuple(out)
        self._records = np.empty(0, np.int64)

    def _room(self, observation: Observation, sites: int) -> tuple[int, int]:
        """Warps that are watched, and records of each at each site."""
        return self.warps, self.depth

    def _shared_bytes(self, observation: Observation) -> int:
        return int(observation.code.shared_bytes + observation.config.shared_bytes)


def _sample(
    site: Mapping[str, Any],
    block: int,
    warp: int,
    record: NDArray[np.int64],
    memory: Any,
    shared_bytes: int,
) -> Sample:
    lanes, start, *addresses = record.tolist()
    taking = {lane: addresses[lane] for lane in range(32) if lanes >> lane & 1}
    least, most = min(taking.values()), max(taking.values())
    place, base = "", least - least % 128
    if site["kind"] == LANES:
        base = 0
    elif start <= least and most < start + max(1, shared_bytes):
        place, base = "shared", start
    else:
        a = _holder(memory, least, most)
        if a is not None:
            place, base = a.name, a.address - a.address % 16
    offsets = tuple(taking[lane] - base if lane in taking else None for lane in range(32))
    return Sample(site["access"], site["kind"], site["nbytes"], block, warp, place, offsets)


def _holder(memory: Any, least: int, most: int) -> Allocation | None:
    return next((a for a in memory if a.address <= least and most < a.address + a.nbytes), None)
