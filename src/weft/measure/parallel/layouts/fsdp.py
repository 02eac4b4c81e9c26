"""Fully sharded data parallelism: weights of a layer are gathered when it runs.

Credits: ZeRO by Rajbhandari et al. (2020), PyTorch's FSDP by Zhao et al. (2023).
"""

from __future__ import annotations

from weft.measure.parallel.collectives import all_gather, reduce_scatter
from weft.measure.parallel.layouts.layout import Layout
from weft.values.time.parallel import Fabric, Schedule, Step, Timed


def _timed(work: Step, fabric: Fabric, _: Schedule) -> Timed:
    """A layer's weights are gathered while the layer before computes; gradients are added while
    the layer after computes. Gathers and sums share the links."""
    layers = work.layers
    size = work.parameters * work.gradient / layers
    gather, scatter = all_gather(fabric, size), reduce_scatter(fabric, size)
    a, r = gather.seconds, scatter.seconds
    f, b = work.forward / layers, (work.seconds - work.forward) / layers
    forward = a + (layers - 1) * max(f, a) + f
    if layers == 1:
        backward = a + b + r
    else:
        by_links = max(2 * a, a + b) + (layers - 2) * (a + r) + max(b, r) + r
        backward = max(a + layers * b + r, by_links)
    sent = (gather.times(2) + scatter).times(layers)
    return Timed(forward + backward, work.seconds, sent.sending)


LAYOUTS = {"fsdp": Layout(Step, _timed, work=lambda gpus, _: float(gpus))}
