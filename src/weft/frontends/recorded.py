"""Connects a recording of profiles with the activities of a process, for a timeline."""

from __future__ import annotations

import contextlib
import struct
from bisect import bisect_right

from weft.device.sim.run.settings import LaunchRequest
from weft.frontends import activity
from weft.measure.profile.session import Recording
from weft.values.profile import Profile


def follow(recording: Recording, call: str = "cuLaunchKernel") -> None:
    """Record the activities of this process from now on, and its profiled kernels among them.

    call  the host's call that a launch is shown with; "": the process reports its calls itself
    """
    activity.current = activities = activity.Activities()
    recording.activities = activities.rows

    def on_kernel(number: int, profile: Profile, request: LaunchRequest) -> None:
        shape = profile.launch
        with activity.call(call) if call else contextlib.nullcontext():
            activity.launched(number, shape.kernel, shape, _reached(request))

    recording.on_kernel = on_kernel


def cease() -> None:
    """Record no more activities of this process."""
    activity.current = None


def _reached(request: LaunchRequest) -> list[tuple[int, int]]:
    """The allocations whose addresses are among the parameters of a launch: start and bytes."""
    spans = sorted((a.address, a.nbytes) for a in request.memory)
    starts = [start for start, _ in spans]
    params = request.params
    found: set[tuple[int, int]] = set()
    for (word,) in struct.iter_unpack("<Q", params[: len(params) // 8 * 8]):
        i = bisect_right(starts, word) - 1
        if i >= 0 and word < starts[i] + spans[i][1]:
            found.add(spans[i])
    return sorted(found)
