"""Ulysses: GPUs exchange tokens for heads, attend, and exchange back.

Credit: DeepSpeed Ulysses by Jacobs et al. (2023).
"""

from __future__ import annotations

from weft.measure.parallel.collectives import all_to_all
from weft.measure.parallel.layouts.layout import Divided, Layout
from weft.values.time.parallel import Attention, Fabric, Schedule, Timed


def _timed(work: Attention, fabric: Fabric, _: Schedule) -> Timed:
    """Queries, keys, values and results are exchanged; nothing overlaps."""
    each = work.batch * work.length / fabric.gpus * work.head * work.element
    queries, keys = (all_to_all(fabric, each * n) for n in (work.heads, work.key_heads))
    sent = queries.times(2) + keys.times(2)
    compute = work.seconds / fabric.gpus
    return Timed(compute + sent.seconds, compute, sent.sending)


def _divided(work: Attention) -> tuple[Divided, ...]:
    numbers = (("heads", work.heads), ("key heads", work.key_heads), ("tokens", work.length))
    return tuple(Divided(number, name) for name, number in numbers)


LAYOUTS = {"ulysses": Layout(Attention, _timed, _divided)}
