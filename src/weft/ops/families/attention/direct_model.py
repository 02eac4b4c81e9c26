"""Cost model of attention whose keys and values go straight to registers.

Its constants follow from times of decoding in benchmarks/records/attention_tiles.jsonl.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from weft.kernels import cdiv
from weft.ops.core.target import Target
from weft.ops.families.attention import model
from weft.ops.families.attention.problem import Problem


class DirectTile(NamedTuple):
    """Warps of a block that have the same queries, and take their keys straight to registers.

    resident   blocks that an SM holds
    clustered  parts of the keys are those of the blocks of a cluster
    """

    warps: int
    resident: int
    clustered: bool = False

    @property
    def queries(self) -> int:
        return model.SHARED_QUERIES

    @property
    def name(self) -> str:
        return f"{self.queries} queries, {self.warps} warps, direct"

    @property
    def most_clusters(self) -> int:
        """Clusters of a launch, at most."""
        return model.MOST_CLUSTERS

    @staticmethod
    def keys(head: int) -> int:
        """Keys of a step of a warp: 4 KiB."""
        return 2048 // head

    def shared(self, head: int, parts: int) -> int:
        """Bytes of shared memory: the results of warps, and the weights of parts."""
        results = self.warps + self.clustered
        return max(4 * self.queries * results * (head + 8 + 2), 4 * self.queries * parts)

    def time(self, p: Problem, tiles: int, parts: int, gpu: Target) -> float:
        """Modelled seconds: those of the SM with the most blocks."""
        blocks = tiles * parts
        most = cdiv(blocks, gpu.sms)
        at_once = min(most, self.resident)
        keys = self.keys(p.head)
        steps = cdiv(math.ceil(p.keys * p.share / parts), keys * self.warps)
        rate = min(RATE * gpu.bandwidth / min(blocks, gpu.sms), SM_RATE)
        score = model.mask_time(p, self.queries * keys * self.warps, shared=False)
        least = STEP if model.traffic(p, gpu) * gpu.bandwidth < gpu.l2 else COLD_STEP
        each = max(least, at_once * max(4 * keys * self.warps * p.head / rate, score))
        busy = cdiv(most, at_once) * (model.SHARED_BLOCK_OVERHEAD + steps * each)
        joining = model.joining_time(p, self.queries, blocks, parts)
        if self.clustered:
            joining = model.CLUSTER_JOINING
        return gpu.launch + model.SHARED_FIXED + busy + joining


TILES = (DirectTile(warps=4, resident=2), DirectTile(warps=8, resident=1))
HEADS = (64, 128)
"""Head sizes whose rows are whole vectors of all lanes, and fit in registers."""
STEP = 0.6e-6
"""Seconds of a step of a warp, at least: from the loads of its keys to those of the next ones."""
COLD_STEP = 1.5e-6
"""The same where L2 does not hold all keys and values."""
RATE = 0.85
"""Share of the memory's bandwidth that direct loads reach."""
SM_RATE = 60e9
"""Bytes per second that an SM reads at most."""
