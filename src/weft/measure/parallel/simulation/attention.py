"""The schedules of attention on several GPUs, step by step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.measure.parallel.simulation.messages import Network, all_to_all
from weft.values.time.parallel import Attention

Positions = NDArray[np.int64]


def positions(layout: str, length: int, gpus: int) -> list[Positions]:
    """The positions of the tokens of each GPU."""
    tokens = np.arange(length)
    if layout == "striped":
        return [tokens[gpu::gpus] for gpu in range(gpus)]
    if layout == "zigzag":
        chunks = np.split(tokens, 2 * gpus)
        return [np.concatenate((chunks[i], chunks[-1 - i])) for i in range(gpus)]
    return np.split(tokens, gpus)


def _pairs(queries: Positions, keys: Positions, causal: bool) -> int:
    """Count the pairs of a query and a key that are computed."""
    if not causal:
        return len(queries) * len(keys)
    return int(np.searchsorted(keys, queries, side="right").sum())  # keys are in order


def ring(layout: str, net: Network, work: Attention) -> None:
    """Each GPU computes with the keys it has while it sends them on and receives the next."""
    gpus = net.fabric.gpus
    own = positions(layout, work.length, gpus)
    pair = work.seconds / _pairs(np.arange(work.length), np.arange(work.length), work.causal)
    size = 2 * work.batch * work.key_heads * work.length / gpus * work.head * work.element
    begun = net.start()
    for step in range(gpus):
        done = [
            net.compute(r, pair * _pairs(own[r], own[(r - step) % gpus], work.causal), begun[r])
            for r in range(gpus)
        ]
        if step == gpus - 1:
            return
        # The receiver's second buffer is free once it has begun this step.
        sent = [
            net.send(r, (r + 1) % gpus, size, begun[r], begun[(r + 1) % gpus]) for r in range(gpus)
        ]
        begun = [net.meet(done[r], sent[r], sent[r - 1]) for r in range(gpus)]


def ulysses(net: Network, work: Attention) -> None:
    """Exchange queries, keys and values; attend; exchange the result."""
    gpus = net.fabric.gpus
    each = work.batch * work.length / gpus * work.head * work.element
    ends = net.start()
    for heads in (work.heads, work.key_heads, work.key_heads):
        ends = all_to_all(net, each * heads, ends)
    ends = [net.compute(r, work.seconds / gpus, ends[r]) for r in range(gpus)]
    all_to_all(net, each * work.heads, ends)
