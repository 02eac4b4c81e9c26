"""Cost model of weight-only products: tiles and modelled seconds.

Constants of `SKINNY` were fitted to times of an H200 (benchmarks/quantised.py). Others come from
its rates and from those of kernels like these (`matmul`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch

from weft.kernels import cdiv
from weft.ops.core.target import Target
from weft.ops.families.quantised.job import Format, QuantisedJob, QuantisedWeight

MEMORY_TIME = 1.1
"""Time relative to the bandwidth."""
OVERHEAD = 1.5e-6
"""Seconds of a kernel beside its launch and its bytes."""
LATENCY = 0.9e-6
"""Seconds from a load of weights to their arrival, where memory is busy."""
DOTS_RATE = 1.2e12
"""Products per second of `dots` for eights of weights; one by one they take eight times as long."""


def dots_time(job: QuantisedJob, gpu: Target, tokens: int, each: int) -> float:
    """Seconds of `dots`: the weight is read for every block of tokens."""
    passes = cdiv(job.m, tokens)
    products = passes * tokens * job.weight.n * job.weight.k
    memory = MEMORY_TIME * passes * job.weight.size / gpu.bandwidth
    # Reading and converting a weight costs as much as its products with two tokens.
    work = (products + 2 * passes * job.weight.n * job.weight.k) / DOTS_RATE * (8 / each)
    return gpu.launch + OVERHEAD + max(memory, work)


def dequantise_time(weight: QuantisedWeight, dtype: torch.dtype, gpu: Target) -> float:
    """Seconds of the conversion of a weight to a matrix."""
    moved = weight.size + weight.n * weight.k * int(dtype.itemsize)
    slow = 1.0 if weight.each == 8 else 4.0
    return gpu.launch + MEMORY_TIME * slow * moved / gpu.bandwidth


class Skinny(NamedTuple):
    """Times of `skinny`.

    resident  blocks that an SM holds whose lanes have one pair of rows, and two; by the bits of a
              weight, and whether there are more than eight tokens
    weight    seconds of an SM for a weight, by its bits: the conversion and the product
    x         seconds of an SM for eight tokens of a weight, by its bits, divided by the rows of a
              lane
    memory    share of the bandwidth that all SMs reach
    latency   seconds from a load of weights to the next one of the lane
    second    share of the bytes of a second pair of rows that are under way
    round     seconds of a block beside its weights: its first ones, its sums
    """

    resident: dict[tuple[int, bool], tuple[int, int]]
    weight: dict[int, float]
    x: dict[int, float]
    memory: float
    latency: float
    second: float
    round: float

    def time(
        self, job: QuantisedJob, gpu: Target, blocks: int, weights: int, tokens: int, pairs: int
    ) -> float:
        """Modelled seconds of so many blocks, which read so many weights each, zeros included."""
        bits, eights = job.weight.format.bits, cdiv(tokens, 8)
        most = cdiv(blocks, gpu.sms)  # of an SM
        at_once = min(most, self.resident[bits, eights > 1][pairs - 1])
        under_way = at_once * 8 * 4 * 512 * (1 + (pairs - 1) * self.second)
        rate = min(self.memory * gpu.bandwidth / gpu.sms, under_way / self.latency)
        memory = weights * bits / 8 / rate
        work = weights * (self.weight[bits] + self.x[bits] * eights / (2 * pairs))
        return gpu.launch + OVERHEAD + most * max(memory, work) + cdiv(most, at_once) * self.round


SKINNY = Skinny(
    resident={(8, False): (4, 2), (8, True): (3, 2), (4, False): (3, 2), (4, True): (2, 1)},
    weight={4: 13e-12, 8: 9.4e-12}, x={4: 36e-12, 8: 14.6e-12}, memory=0.97, latency=1.65e-6,
    second=0.57, round=0.9e-6,
)  # fmt: skip
"""Fitted to benchmarks/records/quantised.jsonl."""


class QuantisedTile(NamedTuple):
    """A tile of `tiled`: rows of the weight and tokens.

    fragments  of 16 rows that a warp computes
    stages     of the ring
    resident   blocks that an SM holds
    reach      share of the tensor cores' dense rate
    """

    rows: int
    tokens: int
    fragments: int
    stages: int
    resident: int
    reach: float

    @property
    def threads(self) -> int:
        return self.rows // self.fragments * 2

    def depth(self, form: Format) -> int:
        """K of a stage: 64 bytes of a row."""
        return 64 * 8 // form.bits

    def shared(self, form: Format) -> int:
        """Bytes of the ring; see Stage of tiled.cu."""
        pitch = 80 if form.bits == 4 else 96
        return self.stages * (self.rows * pitch + self.tokens * (2 * self.depth(form) + 64))

    def tiles(self, job: QuantisedJob) -> int:
        return cdiv(job.weight.n, self.rows) * cdiv(job.m, self.tokens)

    def suits(self, job: QuantisedJob) -> bool:
        """True unless more than half of the tokens of the tile would be empty."""
        return self.tokens == TOKENS[0] or 2 * job.m > self.tokens

    def splits(self, job: QuantisedJob, gpu: Target, most: int) -> Iterator[tuple[int, int]]:
        """Yield numbers of parts of K and the K of each, while there is room on the SMs."""
        tiles, depth = self.tiles(job), self.depth(job.weight.format)
        for splits in SPLITS:
            each = cdiv(cdiv(job.weight.k, splits), depth) * depth
            room = tiles <= most and tiles * splits <= 2 * self.resident * gpu.sms
            if splits == 1 or (room and cdiv(job.weight.k, each) == splits):
                yield splits, each

    def time(self, job: QuantisedJob, gpu: Target, splits: int, each: int) -> float:
        """Modelled seconds: those of the SM with the most blocks, at least the memory traffic."""
        weight, blocks = job.weight, self.tiles(job) * splits
        most = cdiv(blocks, gpu.sms)
        zero = 1 + 1 / self.fragments if weight.has_zero else 1.0
        # A warp of each scheduler does not cover its waits.
        busy = min(1.0, 0.4 + 0.3 * min(most, self.resident) * self.threads / 128)
        rate = 2 * gpu.tf32 / gpu.sms * self.reach * busy
        work = most * 2 * self.rows * self.tokens * each * zero / rate
        moved = weight.size + int(job.dtype.itemsize) * job.m * (weight.k + weight.n)
        under_way = min(most, self.resident) * (self.stages - 1) * self.rows * 64
        reach = min(gpu.bandwidth, min(blocks, gpu.sms) * under_way / LATENCY)
        time = gpu.launch + OVERHEAD + max(work, MEMORY_TIME * moved / reach)
        if splits > 1:
            time += JOIN + splits * 4 * self.rows * self.tokens * JOIN_BYTE
        return time


TILES = (
    QuantisedTile(rows=64, tokens=16, fragments=1, stages=4, resident=4, reach=0.065),
    QuantisedTile(rows=64, tokens=32, fragments=1, stages=4, resident=3, reach=0.16),
    QuantisedTile(rows=128, tokens=32, fragments=2, stages=4, resident=2, reach=0.20),
    QuantisedTile(rows=64, tokens=64, fragments=1, stages=3, resident=3, reach=0.22),
    QuantisedTile(rows=128, tokens=64, fragments=2, stages=3, resident=2, reach=0.28),
)
TOKENS = (16, 32, 64)
SPLITS = (1, 2, 3, 4, 6, 8, 12, 16)
JOIN = 2e-6
"""Seconds by which parts of K make the last block of a tile wait, beside their bytes."""
JOIN_BYTE = 2.5e-11
"""Seconds per byte of a tile, by which each part of K makes the last block wait."""
