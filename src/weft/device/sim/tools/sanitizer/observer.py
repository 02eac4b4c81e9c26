"""The sanitizer around a launch: allocates its shadow memory, and reads the findings."""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from weft.device.base import Allocation
from weft.device.sim.run import initialised
from weft.device.sim.run.heap import HeapBlock
from weft.device.sim.run.observation import Observation, zeroed
from weft.device.sim.tools.sanitizer import clusters, extents, leaks
from weft.device.sim.tools.sanitizer.layout import (
    BlockState,
    FindingKind,
    LaunchState,
    Record,
    WorkerState,
)
from weft.device.sim.tools.sanitizer.meetings import parities
from weft.device.sim.tools.sanitizer.watcher import Sanitizing
from weft.errors import Deadlock


@dataclass(frozen=True, slots=True)
class Raw:
    """One entry of a worker's table, as compiled code has written it.

    index, other_index  instructions of the kernel; other_index -1: there is no other access
    """

    kind: int
    apart: int
    times: int
    address: int
    index: int
    mine: int
    other_index: int
    other: int
    block: int


@dataclass(slots=True)
class CheckCounts:
    """The numbers of checked accesses, barriers and arrays."""

    accesses: int = 0
    barriers: int = 0
    syncs: int = 0
    arrays: int = 0
    lost: int = 0


@dataclass(slots=True)
class Seen:
    """The results of one launch under the sanitizer."""

    raw: list[Raw] = field(default_factory=list)
    counts: CheckCounts = field(default_factory=CheckCounts)
    memory: Sequence[Allocation] = ()
    leaks: Sequence[HeapBlock] = ()
    error: BaseException | None = None


class Sanitizer:
    """The observer; `take` returns the results of the last launch of this thread."""

    key = "sanitizer"
    watcher = Sanitizing
    strict_textures = True

    def __init__(self) -> None:
        self._mine = threading.local()

    def take(self) -> Seen | None:
        """The results, once; None for a launch that could not be compiled in time."""
        seen: Seen | None = vars(self._mine).pop("seen", None)
        return seen

    def begin(self, observation: Observation) -> None:
        code, notes = observation.code, observation.notes
        heap = observation.heap
        every = [a for a in observation.memory if a.name != "heap block"]
        # One region for the whole heap: kernels may allocate during the launch.
        every += [leaks.span(heap)] if heap is not None else []
        seen = self._mine.seen = Seen(memory=every)
        self._mine.before = set(heap.live) if heap is not None else set()
        self._mine.forget = None
        regions = _merged(every)
        tracked = _tracked(observation, every, notes["written"])
        rows = np.zeros((len(regions) + 1, LaunchState.ROW // 8), np.int64)
        keep: list[NDArray[np.uint8]] = []
        for row, (low, high) in zip(rows, regions, strict=False):
            row[:2] = low, high - low
            if any(low <= t < high for t in tracked) or extents.wanted(low, high):
                # A record has eight bytes for every four of memory.
                planes = [zeroed(2 * (high - low)) for _ in range(2)]
                keep += planes
                row[2:4] = [p.ctypes.data for p in planes]
                if heap is not None and low <= heap.start < high:
                    self._mine.forget = functools.partial(_forget, planes, low)
                    heap.listeners.append(self._mine.forget)
            row[4] = initialised.bytes_at(low, high)
        arrays = len(regions)
        if notes["clusters"]:
            near, planes = clusters.regions(observation)
            rows = np.concatenate([rows[:arrays], near, rows[arrays:]])
            keep += planes
        total = int(np.prod(observation.config.grid))
        # Records keep so many bits of a block's number; blocks beyond share a row.
        width = min(total, Record.BLOCKS + 1) if notes["publishes"] else 0
        published = np.zeros(width * code.warps * LaunchState.PUBLICATION + 8, np.uint8)
        launch = np.zeros(LaunchState.SIZE // 8, np.int64)
        own = _own(observation, regions, len(notes["sites"]))
        launch[:5] = rows.ctypes.data, len(rows) - 1, 0, published.ctypes.data, own.ctypes.data
        self._mine.keep = (keep, rows, published, own, arrays)
        observation.for_launch(launch.view(np.uint8))
        self._mine.workers = observation.for_workers(
            WorkerState.CACHE + WorkerState.SITE * (len(notes["sites"]) + 2)
        )
        shared = code.shared_bytes + observation.config.shared_bytes
        layout = BlockState(
            code.warps, code.local_bytes, notes["masks"], notes["undefined"], notes["tiles"],
            locks=notes["locks"], ranks=notes["ranks"],
        )  # fmt: skip
        self._mine.slots = observation.for_slots(layout.size(shared)), layout
        seen.counts.arrays = sum(not a.around for a in every) - (heap is not None)

    def end(self, observation: Observation) -> None:
        seen, sites = self._mine.seen, observation.notes["sites"]
        seen.error = observation.error
        for memory in self._mine.workers:
            words = memory.view(np.int64)
            counts = seen.counts
            counts.accesses += int(words[WorkerState.ACCESSES // 8])
            counts.barriers += int(words[WorkerState.BARRIERS // 8])
            counts.syncs += int(words[WorkerState.SYNCS // 8])
            counts.lost += int(words[WorkerState.LOST // 8])
            table = words[WorkerState.FINDINGS // 8 : WorkerState.CACHE // 8].reshape(
                WorkerState.ENTRIES, -1
            )
            seen.raw += [_raw(entry, sites) for entry in table[table[:, 0] != 0]]
        if isinstance(observation.error, Deadlock):
            slots, layout = self._mine.slots
            stuck = parities.stuck(slots, layout, observation.code.warps)
            seen.raw += [_stuck(block, note, sites) for block, note in stuck]
        seen.raw += [_of_code(*misuse) for misuse in observation.notes["registers"]]
        extents.note(self._mine.keep[1][: self._mine.keep[-1]], sites)
        if self._mine.forget is not None:
            assert observation.heap is not None
            observation.heap.listeners.remove(self._mine.forget)
        # A launch that failed may not have come to its `free`.
        if observation.heap is not None and observation.error is None:
            seen.leaks = leaks.leaked(observation.heap, self._mine.before, seen.memory)
        self._mine.keep = self._mine.workers = self._mine.slots = None


def _forget(planes: Sequence[NDArray[np.uint8]], low: int, address: int, nbytes: int) -> None:
    """Clear the records of memory that the heap gives out again.

    `malloc` is ordered after the `free` of the same bytes, so that no access before it races.
    """
    for plane in planes:
        plane[2 * (address - low) : 2 * (-(-(address + nbytes) // 4) * 4 - low)] = 0


def _raw(entry: NDArray[np.int64], sites: Sequence[int]) -> Raw:
    key, times, address, mine, other, block = (int(v) for v in entry[:6])
    here, there = key & Record.SITES, key >> 13 & Record.SITES
    return Raw(
        kind=key >> 28,
        apart=key >> 26 & 3,
        times=times,
        address=address & (1 << 64) - 1,
        index=sites[here - 1] if here else -1,
        mine=mine & (1 << 64) - 1,
        other_index=sites[there - 1] if there else -1,
        other=other & (1 << 64) - 1,
        block=block,
    )


def _stuck(block: int, note: int, sites: Sequence[int]) -> Raw:
    """The finding for a wait of a deadlocked launch that looks wrong."""
    parity = int(note & parities.PARITY != 0)
    return Raw(
        kind=FindingKind.PARITY_BLOCKS,
        apart=0,
        times=1,
        address=parity | (1 - parity) << 1,  # of the phase before
        index=sites[(note & Record.SITES) - 1],
        mine=note,
        other_index=-1,
        other=0,
        block=block,
    )


def _of_code(kind: int, index: int, other: int) -> Raw:
    """A finding about instructions."""
    return Raw(kind, 0, 1, 0, index, 0, other, 0, 0)


def _merged(memory: Sequence[Allocation]) -> list[tuple[int, int]]:
    """The memory of a launch as ranges that do not overlap."""
    out: list[tuple[int, int]] = []
    for a in sorted(memory):
        # Records are of whole words.
        low, high = a.address & ~3, -(-(a.address + a.nbytes) // 4) * 4
        if out and low < out[-1][1]:
            out[-1] = out[-1][0], max(high, out[-1][1])
        elif high > low:
            out.append((low, high))
    return out


def _own(
    observation: Observation, regions: Sequence[tuple[int, int]], sites: int
) -> NDArray[np.int64]:
    """For each site the pointer that its address comes from, if that is only one array."""
    out = np.zeros(sites + 2, np.int64)
    for site, offsets in observation.notes["own"]:
        pointers = [observation.parameter(offset) for offset in offsets]
        arrays = {r: p for p in pointers for r in regions if r[0] <= p < r[1]}
        if len(arrays) == 1:
            out[site] = next(iter(arrays.values()))
    return out


def _tracked(
    observation: Observation, memory: Sequence[Allocation], written: list[int] | None
) -> list[int]:
    """Addresses of arrays that the kernel may write to; the others cannot race."""
    if written is None:
        return [a.address for a in memory]
    pointers = [observation.parameter(offset) for offset in written]
    return [
        a.address for a in memory if any(a.address <= p < a.address + a.nbytes for p in pointers)
    ]
