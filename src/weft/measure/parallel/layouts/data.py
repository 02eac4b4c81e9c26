"""Data parallelism: each GPU has a batch and all weights; gradients are added in buckets.

Credit: PyTorch's DistributedDataParallel by Li et al. (2020).
"""

from __future__ import annotations

import math
from itertools import accumulate

from weft.measure.parallel.collectives import Taken, all_reduce
from weft.measure.parallel.layouts.layout import Layout
from weft.values.time.parallel import Fabric, Schedule, Step, Timed


def _timed(work: Step, fabric: Fabric, schedule: Schedule) -> Timed:
    """A bucket waits for its layers; then it and all later buckets are added one by one."""
    size = work.parameters * work.gradient
    whole = math.ceil(size / schedule.bucket) - 1  # all buckets but the last are full
    full, rest = (all_reduce(fabric, n) for n in (schedule.bucket, size - whole * schedule.bucket))
    taken: list[Taken] = [full] * whole + [rest]
    layer = (work.seconds - work.forward) / work.layers
    ready = [
        work.forward + layer * math.ceil(min(size, n * schedule.bucket) / (size / work.layers))
        for n in range(1, whole + 2)
    ]
    later = list(accumulate(t.seconds for t in reversed(taken)))[::-1]
    seconds = max(begin + rest for begin, rest in zip(ready, later, strict=True))
    return Timed(seconds, work.seconds, sum(t.sending for t in taken))


LAYOUTS = {"data": Layout(Step, _timed, work=lambda gpus, _: float(gpus))}
