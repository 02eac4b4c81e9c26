"""Tensor parallelism: each GPU has a part of every weight, and sums of activations are exchanged.

Credits: Megatron-LM by Shoeybi et al. (2019), and its sequence parallelism by Korthikanti et al.
(2022).
"""

from __future__ import annotations

from weft.measure.parallel.collectives import all_gather, all_reduce, reduce_scatter
from weft.measure.parallel.layouts.layout import Divided, Layout
from weft.values.time.parallel import Fabric, Schedule, Step, Timed

PER_LAYER = 4
"""Exchanges: after attention and after the feed-forward part, forward and backward."""


def _all_reduced(work: Step, fabric: Fabric, _: Schedule) -> Timed:
    each = all_reduce(fabric, work.tokens * work.width * work.activation)
    sent = each.times(PER_LAYER * work.layers)
    compute = work.seconds / fabric.gpus
    return Timed(compute + sent.seconds, compute, sent.sending)


def _scattered(work: Step, fabric: Fabric, _: Schedule) -> Timed:
    size = work.tokens * work.width * work.activation
    each = reduce_scatter(fabric, size) + all_gather(fabric, size)
    sent = each.times(PER_LAYER * work.layers)
    compute = work.seconds / fabric.gpus
    return Timed(compute + sent.seconds, compute, sent.sending)


def _heads(work: Step) -> tuple[Divided, ...]:
    return (Divided(work.heads, "heads"),)


def _heads_and_tokens(work: Step) -> tuple[Divided, ...]:
    return (*_heads(work), Divided(work.tokens, "tokens"))


LAYOUTS = {
    "tensor": Layout(Step, _all_reduced, _heads),
    "tensor-sequence": Layout(Step, _scattered, _heads_and_tokens),
}
