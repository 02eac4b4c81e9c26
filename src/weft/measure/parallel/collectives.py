"""Times of collectives by closed formulas.

A message takes its latency and its bytes divided by the bandwidth. Each GPU sends one message and
receives one at a time. `n` GPUs are in a node, and `m` nodes work at the same time on parts of the
data. `docs/predict_parallel.md` has the formulas.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from weft.values.time.parallel import Fabric, Link


class Taken(NamedTuple):
    """The time of a collective, and the mean time in which a GPU sends."""

    seconds: float
    sending: float

    def __add__(self, other: object) -> Taken:
        assert isinstance(other, Taken)
        return Taken(self.seconds + other.seconds, self.sending + other.sending)

    def times(self, n: float) -> Taken:
        """`n` such collectives, one after the other."""
        return Taken(n * self.seconds, n * self.sending)


def _ring(gpus: int, link: Link, part: float) -> Taken:
    """A turn around the ring but for one step; each step sends `part` bytes."""
    seconds = (gpus - 1) * link.seconds(part) if gpus > 1 else 0.0
    return Taken(seconds, seconds)


def all_gather(fabric: Fabric, size: float) -> Taken:
    """Every GPU has a part of `size` bytes and gets all of them: between nodes, then inside."""
    n, m = fabric.local, fabric.nodes
    return _ring(m, fabric.between, size / fabric.gpus) + _ring(n, fabric.inside, size / n)


def reduce_scatter(fabric: Fabric, size: float) -> Taken:
    """Every GPU has `size` bytes and gets the sum of its part: an all-gather backwards."""
    return all_gather(fabric, size)


def all_reduce(fabric: Fabric, size: float) -> Taken:
    """Every GPU has `size` bytes and gets their sum: by rings or by a tree, whichever is faster."""
    ring = all_gather(fabric, size).times(2)
    return min(ring, _tree(fabric, size))


def _tree(fabric: Fabric, size: float) -> Taken:
    """A binomial tree in each node and one of the nodes: sums go up, then the result goes down."""
    seconds = sending = 0.0
    for count, link, trees in (
        (fabric.local, fabric.inside, fabric.nodes),
        (fabric.nodes, fabric.between, 1),
    ):
        if count > 1:
            seconds += 2 * math.ceil(math.log2(count)) * link.seconds(size)
            sending += 2 * trees * (count - 1) / fabric.gpus * link.seconds(size)
    return Taken(seconds, sending)


def all_to_all(fabric: Fabric, size: float) -> Taken:
    """Every GPU has `size` bytes, one part of them for each GPU, and sends part after part."""
    part = size / fabric.gpus
    inner = (fabric.local - 1) * fabric.inside.seconds(part)
    outer = (fabric.gpus - fabric.local) * fabric.between.seconds(part)
    return Taken(inner + outer, inner + outer)
