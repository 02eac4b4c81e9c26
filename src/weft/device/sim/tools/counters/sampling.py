"""Counting, and samples: the addresses from which a picture of an access is drawn.

The first warps of the first and the last block (or of a block that is asked for) record their first
execution of each access: which lanes took part, and the address of each. `tracing` keeps more.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
    LaunchFields,
    Samples,
)
from weft.device.sim.tools.counters.stages.layout import Recorded
from weft.values.profile import AccessSample

if TYPE_CHECKING:
    from weft.device.base import Allocation


@dataclass
class Sampling(Counting):
    """Counts one launch and records samples of it; `block` is the number of the one to watch.

    samples  after the launch: reads them from the records, which takes as long as a small launch
    stages   events of the first block that is watched, if the kernel has stages
    """

    key: str = "count 3, sampled"
    block: int | None = None
    warps: int = WARPS
    depth: int = 1
    samples: Callable[[], tuple[AccessSample, ...]] = tuple
    stages: Recorded | None = None
    _table: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    _records: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    def watcher(self, e: Watched) -> Watcher:
        # Imported here: to compile, not to run.
        from weft.device.sim.tools.counters.sample_watcher import SampleWatcher
        from weft.device.sim.tools.counters.stages.sampled import SampleStages
        from weft.device.sim.tools.counters.stages.watcher import has_stages

        return SampleStages(e) if has_stages(e) else SampleWatcher(e)

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
        self.shared[LaunchFields.SAMPLED // 8] = self._table.ctypes.data
        if "stages" in observation.notes:
            together = observation.notes["stages"]["clusters"]
            cluster = observation.cluster if together else (1, 1, 1)
            self.stages = Recorded(chosen[0], observation.config.grid, cluster)
            self.shared[LaunchFields.EVENTS // 8] = self.stages.address
        observation.for_slots(2 * 8)

    def end(self, observation: Observation) -> None:
        super().end(observation)
        sites = observation.notes["sites"]
        size = (BLOCKS, len(sites), self.warps, Samples.words(self.depth))
        words = self._records[:, Samples.RECORDS // 8 :].reshape(size)
        shared_bytes = int(observation.code.shared_bytes + observation.config.shared_bytes)
        blocks = self._table[:, 0].tolist()
        self.samples = functools.partial(
            _samples, words, sites, blocks, tuple(observation.memory), shared_bytes
        )
        self._records = np.empty(0, np.int64)

    def _room(self, observation: Observation, sites: int) -> tuple[int, int]:
        """Warps that are watched, and records of each at each site."""
        return self.warps, self.depth


def _samples(
    words: NDArray[np.int64],
    sites: Sequence[Mapping[str, Any]],
    blocks: Sequence[int],
    memory: Sequence[Allocation],
    shared_bytes: int,
) -> tuple[AccessSample, ...]:
    """The samples in the records of all blocks, sites and warps."""
    depth = words.shape[3] // RECORD
    times, executions = words[..., 0], words[..., 1:].reshape(*words.shape[:3], depth, RECORD)
    # Block, site, warp and execution of each record that was written.
    written = np.nonzero(np.arange(depth) < times[..., None])
    records = executions[written]
    has_addresses = np.array([x["kind"] != LANES for x in sites], bool)[written[1]]
    places, bases = _places(records, has_addresses, memory, shared_bytes)
    at_site = [functools.partial(AccessSample, x["access"], x["kind"], x["nbytes"]) for x in sites]
    columns: list[list[int]] = [x.tolist() for x in (*written, times[written[:3]])]
    rows = zip(zip(*columns, strict=True), places, _offsets(records, bases), strict=True)
    return tuple(
        at_site[site](blocks[block], warp, place, offsets, execution, many)
        for (block, site, warp, execution, many), place, offsets in rows
    )


def _places(
    records: NDArray[np.int64],
    has_addresses: NDArray[np.bool_],
    memory: Sequence[Allocation],
    shared_bytes: int,
) -> tuple[list[str], NDArray[np.int64]]:
    """The name of the place that each record is in, and the address that its offsets start at."""
    taking, start, addresses = _lanes(records), records[:, 1], records[:, 2:]
    limits = np.iinfo(np.int64)
    least = np.where(taking, addresses, limits.max).min(1)
    most = np.where(taking, addresses, limits.min).max(1)
    names, bases = np.zeros(len(records), np.int64), least - least % 128
    near = (start <= least) & (most < start + max(1, shared_bytes))
    # From the last on, so that the first allocation that holds all wins, and shared memory first.
    places = [
        ((a.address <= least) & (most < a.address + a.nbytes), a.address - a.address % 16)
        for a in memory
    ]
    for i, (inside, base) in reversed([*enumerate([(near, start), *places], 1)]):
        names = np.where(inside, i, names)
        bases = np.where(inside, base, bases)
    known = ["", "shared", *(a.name for a in memory)]
    return (
        [known[i] for i in np.where(has_addresses, names, 0).tolist()],
        np.where(has_addresses, bases, 0),
    )


def _offsets(
    records: NDArray[np.int64], bases: NDArray[np.int64]
) -> Iterator[tuple[int | None, ...]]:
    taking = _lanes(records)
    rows = (records[:, 2:] - bases[:, None]).tolist()
    for row, runs in zip(rows, taking.tolist(), strict=True):
        # Mostly all lanes take part.
        yield tuple(
            row if all(runs) else [x if yes else None for x, yes in zip(row, runs, strict=True)]
        )


def _lanes(records: NDArray[np.int64]) -> NDArray[np.bool_]:
    """The lanes that took part."""
    return (records[:, :1] >> np.arange(32) & 1).astype(bool)
