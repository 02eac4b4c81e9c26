"""Makes the timeline of a program that ran on a simulated GPU."""

from __future__ import annotations

from collections.abc import Sequence

from weft.device.models import GpuModel
from weft.measure.timeline import operations, schedule
from weft.measure.timeline.analysis import analysed
from weft.measure.timeline.duration import LEAST, duration
from weft.values.model import Call
from weft.values.profile import Profile
from weft.values.time.timeline import Activity, Timeline


def modelled(
    program: str,
    gpu: GpuModel,
    activities: Sequence[Activity],
    profiles: Sequence[Profile],
    calls: Sequence[Call] = (),
) -> Timeline:
    """The timeline of activities.

    profiles  those of the kernels, by their numbers
    calls     the operations of PyTorch, by their numbers
    """
    kernels = [duration(p, gpu) for p in profiles]

    def seconds(one: Activity) -> float:
        if one.facts.get("operation"):
            return max(LEAST, calls[one.number].seconds)
        return kernels[one.number]

    events = schedule.events(activities, gpu, seconds)
    return analysed(program, gpu.name, "modelled", operations.described(events, calls))
