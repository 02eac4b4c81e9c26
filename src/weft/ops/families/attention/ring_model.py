"""Cost model of attention with few queries whose warps each have a ring of keys and values."""

from __future__ import annotations

import math
from typing import NamedTuple

from weft.kernels import cdiv
from weft.ops.core.target import Target
from weft.ops.families.attention import model
from weft.ops.families.attention.problem import Problem


class RingTile(NamedTuple):
    """Warps of a block that have the same queries, and a ring of keys and values each.

    stages     of a ring
    nbytes     of keys of a stage, and of values
    resident   blocks that an SM holds
    clustered  parts of the keys are those of the blocks of a cluster
    """

    warps: int
    stages: int
    nbytes: int
    resident: int
    clustered: bool = False

    @property
    def queries(self) -> int:
        return model.SHARED_QUERIES

    @property
    def name(self) -> str:
        return f"{self.queries} queries, {self.warps} rings of {self.stages} x {self.nbytes >> 10}K"

    @property
    def most_clusters(self) -> int:
        """None: parts that blocks join through memory were as fast."""
        return 0

    def keys(self, head: int) -> int:
        """Keys of a step of a warp."""
        return self.nbytes // 2 // head

    def shared(self, head: int, parts: int) -> int:
        """Bytes of shared memory: rings; at the end results of warps, and the weights of parts."""
        rings = model.SLAB_ALIGNMENT + 2 * self.warps * self.stages * self.nbytes
        results = self.warps + self.clustered
        return max(rings, 4 * self.queries * results * (head + 8 + 2), 4 * self.queries * parts)

    def time(self, p: Problem, tiles: int, parts: int, gpu: Target) -> float:
        """Modelled seconds: those of the memory, or of the SM with the most blocks."""
        blocks = tiles * parts
        rounds, keys = cdiv(blocks, gpu.sms * self.resident), math.ceil(p.keys * p.share / parts)
        steps = cdiv(keys, self.keys(p.head) * self.warps)
        rate = min(gpu.bandwidth, SM_RATE * min(blocks, gpu.sms))
        # Warps without a key in the last step of their block end before the others.
        uneven = steps * self.keys(p.head) * self.warps / keys
        moved = model.traffic(p, gpu) * gpu.bandwidth * p.share / rate * uneven
        score = model.mask_time(p, self.queries * keys, shared=False)
        # Blocks of an SM that start one after another hide the start of each other.
        starts = START * (1 + (rounds - 1) / self.resident)
        busy = starts + max(moved, rounds * steps * STEP, cdiv(blocks, gpu.sms) * score)
        return FIXED + busy + JOINING * model.joining_time(p, self.queries, blocks, parts)


TILES = (
    RingTile(warps=8, stages=3, nbytes=4096, resident=1),
    RingTile(warps=4, stages=2, nbytes=4096, resident=3),
)
"""Tiles that calls take: the fastest of four that were timed."""
HEADS = (64, 128)
"""Head sizes of these kernels: results of larger ones take most registers."""
MOST_ROWS = model.SHARED_QUERIES
"""Queries, with those of packed heads, up to which they are candidates: no others were timed."""
LEAST = 16 << 20
"""Bytes of operands from which on they are candidates: the fewest that were timed."""

# Fitted to 68 times of benchmarks/records/attention_decoding.jsonl (NVIDIA H200), of five calls in
# CUDA graphs: they differ by 6 % from the model.
FIXED = 2.8e-6
"""Seconds of a launch in a graph, and before and after the work of its blocks."""
SM_RATE = 92e9
"""Bytes per second that an SM copies at most."""
START = 2.3e-6
"""Seconds of a block until its first keys are there, and to combine the results of its warps."""
STEP = 0.6e-6
"""Seconds of a step of a warp whose keys are there."""
JOINING = 0.67
"""Part of the modelled time of joining that rings take."""
