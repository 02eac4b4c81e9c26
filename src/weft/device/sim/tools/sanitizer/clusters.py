"""Clusters: shared memory that other blocks access has records like those of global memory.

Such a record names its block, and accesses of two blocks are ordered by what one has published and
the other has acquired (`clocks`). When the barrier of the cluster opens, it publishes what warps
have done before they arrived; a warp acquires where it goes on. The memory of each slot is a region
of the launch; it is new whenever a block starts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.device.sim.layout import SlotFields, Space
from weft.device.sim.run.observation import Observation, zeroed
from weft.device.sim.tools.sanitizer.layout import BlockState, LaunchState
from weft.device.sim.tools.sanitizer.order.words import put, word
from weft.ir import Builder, Val

_P = ("ptr", 0)
SPACES = {
    space: ("global",) for space in (Space.GLOBAL, Space.SHARED, Space.CLUSTER, Space.GENERIC)
}
"""The records of an access, by its state space."""


def regions(observation: Observation) -> tuple[NDArray[np.int64], list[NDArray[np.uint8]]]:
    """A row for the shared memory of each slot, and the memory of its records."""
    nbytes = -(-(observation.code.shared_bytes + observation.config.shared_bytes) // 4) * 4
    starts = observation.shared_memory() if nbytes else []
    rows = np.zeros((len(starts), LaunchState.ROW // 8), np.int64)
    keep = []
    for row, start in zip(rows, starts, strict=True):
        planes = [zeroed(2 * nbytes), zeroed(2 * nbytes), zeroed(nbytes // 4 + 8)]
        row[:5] = start, nbytes, *(plane.ctypes.data for plane in planes)
        keep += planes
    return rows, keep


def started(b: Builder, slot: Val) -> None:
    """Forget the accesses of the blocks that had a slot before."""

    def body(x: Builder, args: list[Val]) -> None:
        slot = args[0]
        p = x.load("ptr", 0, x.at(slot, SlotFields.OBSERVER))
        launch = x.load("ptr", 0, x.at(p, BlockState.LAUNCH))
        rows = x.load("ptr", 0, x.at(launch, LaunchState.REGIONS))
        with x.loop(word(x, launch, LaunchState.COUNT).trunc("i32")) as i:
            row = x.at(rows, i.zext("i64") * LaunchState.ROW)
            with x.when(word(x, row, LaunchState.LOW).eq(word(x, slot, SlotFields.SHARED))):
                words = (word(x, row, LaunchState.BYTES) >> 2).trunc("i32")
                for at, count in (
                    (LaunchState.WRITERS, words),
                    (LaunchState.READERS, words),
                    (LaunchState.FILLED, (words >> 3) + 1),
                ):
                    plane = x.load("ptr", 0, x.at(row, at))
                    with x.loop(count) as k:
                        put(x, x.integer("i64", 0), x.at(plane, k.zext("i64") << 3))

    b.helper("sanitizer_cluster_started", [_P], None, body)(slot)
