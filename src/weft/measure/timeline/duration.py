"""Models the time of each piece of work of a timeline on a simulated GPU.

Kernels take the time that is predicted for them, without that of the launch, which the timeline
has beside it. All other times are those of data sheets or assumed, as each constant says.
"""

from __future__ import annotations

import re

from weft.device.models import GpuModel
from weft.measure.profile.prediction import duration as prediction
from weft.measure.profile.prediction.constants import FITTED
from weft.values.profile import Profile
from weft.values.time import timeline
from weft.values.time.timeline import Activity

CALL = 2e-6
"""Seconds of the host in one call of CUDA; assumed."""
QUESTION = 1e-7
"""The same in a call that only asks, e.g. cudaGetLastError; assumed."""
OPERATION = 5e-6
"""Seconds of the host in one operation of PyTorch; assumed."""
LATENCY = 3e-6
"""Seconds from a call to the begin of its work on an idle GPU; assumed."""
LEAST = 1e-6
"""Seconds of the shortest kernel: its begin and its end; assumed."""
_PCI_EXPRESS = ((9, 63e9), (8, 31.5e9), (0, 15.75e9))
"""From this compute capability on: bytes a second of 16 lanes of PCI Express, by its standard."""
_STAGED = 0.5
"""The part of that rate for pageable memory, which is copied twice; assumed."""


_QUESTIONS = re.compile(r"Get|Query|Peek|SetDevice|Push|Pop")


def duration(profile: Profile, gpu: GpuModel) -> float:
    """The modelled seconds of one launch, on average over those that the profile sums."""
    return max(LEAST, prediction.duration(profile, gpu.key) - FITTED.launch)


def work(one: Activity, gpu: GpuModel) -> float:
    """The modelled seconds of a copy, a fill, a library's work or a host function.

    Work of a library is known by its bytes at most; without them it takes the least time.
    """
    nbytes, memory = one.facts.get("bytes", 0), gpu.memory_gb_per_s * 1e9
    if one.what in (timeline.FILL, timeline.COMPUTE):
        return max(LEAST, float(nbytes / memory))
    if one.what == timeline.COPY and one.name == timeline.ON_DEVICE:
        return float(2 * nbytes / memory)  # read and written
    if one.what == timeline.COPY:
        rate = next(r for major, r in _PCI_EXPRESS if gpu.compute_capability[0] >= major)
        return float(nbytes / (rate * (_STAGED if one.facts.get("pageable") else 1.0)))
    return 0.0


def host(name: str) -> float:
    """The seconds of the host in a call."""
    if "::" in name:
        return OPERATION
    return QUESTION if _QUESTIONS.search(name) else CALL
