"""Simulates a layout by its name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from weft.measure.parallel.simulation import attention, training
from weft.measure.parallel.simulation.engine import run
from weft.measure.parallel.simulation.messages import Network
from weft.values.time.parallel import Attention, Fabric, Schedule, Step, Timed, Work

_ATTENTION: dict[str, Callable[[Network, Attention], None]] = {
    **{name: partial(attention.ring, name) for name in ("ring", "striped", "zigzag")},
    "ulysses": attention.ulysses,
}
_TRAINING: dict[str, Callable[[Network, Step, Schedule], None]] = {
    "tensor": lambda net, work, _: training.tensor(net, work, scattered=False),
    "tensor-sequence": lambda net, work, _: training.tensor(net, work, scattered=True),
    "data": training.data,
    "fsdp": lambda net, work, _: training.fsdp(net, work),
    "gpipe": partial(training.pipeline, alternate=False),
    "1f1b": partial(training.pipeline, alternate=True),
}


def simulate(layout: str, work: Work, fabric: Fabric, schedule: Schedule) -> Timed:
    """Run the schedule of a layout message by message."""
    net = Network(fabric)
    if isinstance(work, Attention):
        _ATTENTION[layout](net, work)
    else:
        _TRAINING[layout](net, work, schedule)
    done = run(net.graph)
    compute, sending = (
        sum(seconds for (kind, _), seconds in done.held.items() if kind == wanted) / fabric.gpus
        for wanted in ("computes", "sends")
    )
    return Timed(done.seconds, compute, sending)
