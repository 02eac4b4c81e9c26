"""Pipelines: each GPU has some layers, and micro-batches flow through all of them.

Credits: GPipe by Huang et al. (2019), the order 1F1B by Narayanan et al. (2019).
"""

from __future__ import annotations

from collections.abc import Callable

from weft.measure.parallel.layouts.layout import Divided, Layout
from weft.values.time.parallel import Fabric, Schedule, Step, Timed


def _parts(work: Step, fabric: Fabric) -> tuple[float, float, list[float]]:
    """Seconds of a stage forward and backward, and of each hop to the next stage."""
    stages = fabric.gpus
    size = work.tokens * work.width * work.activation
    hops = [fabric.link(s, s + 1).seconds(size) for s in range(stages - 1)]
    return work.forward / stages, (work.seconds - work.forward) / stages, hops


def _gpipe(work: Step, fabric: Fabric, schedule: Schedule) -> Timed:
    """All micro-batches go forward, then all go backward."""
    f, b, hops = _parts(work, fabric)
    stages, batches = fabric.gpus, schedule.micro_batches
    seconds = sum(stages * each + sum(hops) + (batches - 1) * max(each, *hops) for each in (f, b))
    return Timed(seconds, batches * (f + b), 2 * batches * sum(hops) / stages)


def _one_forward_one_backward(work: Step, fabric: Fabric, schedule: Schedule) -> Timed:
    """Each stage has as many micro-batches under way as stages follow, itself included."""
    f, b, hops = _parts(work, fabric)
    stages, batches = fabric.gpus, schedule.micro_batches
    waits = 2 * sum(hops) + max(_turns(hops[s:], batches) for s in range(stages - 1))
    seconds = (batches + stages - 1) * (f + b) + waits
    return Timed(seconds, batches * (f + b), 2 * batches * sum(hops) / stages)


def _turns(hops: list[float], batches: int) -> float:
    """Seconds that a stage waits for the stages after it, over `hops`, after the first result.

    Every window of as many micro-batches as stages waits for the way to the last one and back. Of a
    window that is not full, each micro-batch after the second waits for one hop there and back.
    """
    windows, rest = divmod(batches - 1, len(hops) + 1)
    longest = sorted(hops, reverse=True)[: max(0, rest - 1)]
    return 2 * windows * sum(hops) + 2 * sum(longest)


def _layout(timed: Callable[[Step, Fabric, Schedule], Timed]) -> Layout[Step]:
    return Layout(
        Step,
        timed,
        lambda work: (Divided(work.layers, "layers"),),
        lambda _, schedule: float(schedule.micro_batches),
    )


LAYOUTS = {"gpipe": _layout(_gpipe), "1f1b": _layout(_one_forward_one_backward)}
