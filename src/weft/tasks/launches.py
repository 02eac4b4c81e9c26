"""Checks, profiles and sanitizes launches of this process, for doors that have no file to run.

`check`, `profile` and `sanitize` are the public functions of the same names.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.device.selection import Selection
from weft.device.sim.tools.sanitizer.session import Report, sanitize
from weft.errors import DeviceError, Error
from weft.frontends import recorded as activities
from weft.measure.check.check import check
from weft.measure.profile.profile import profile
from weft.measure.profile.result import Profile
from weft.measure.profile.session import Recording, recording
from weft.measure.timeline.timeline import modelled
from weft.values.time.timeline import Timeline

__all__ = ["check", "profile", "profiled", "sanitize", "sanitized", "timeline"]


def profiled(
    run: Callable[[], object], device: Selection, *, block: int | None = None, executions: int = 0
) -> list[Profile]:
    """Profile the launches of a function; `block` and `executions` are those of `profile`."""
    with recording(Recording(device.model.key, block=block, executions=executions)) as recorder:
        run()
    return recorder.profiles


def timeline(run: Callable[[], object], device: Selection, program: str) -> Timeline:
    """Record the launches of a function as a timeline of `program`."""
    wanted = Recording(device.model.key, timeline=True)
    activities.follow(wanted)
    try:
        with recording(wanted) as recorded:
            run()
    finally:
        activities.cease()
    if not recorded.activities:
        raise Error("nothing was launched", where=program, next="launch a kernel")
    return modelled(program, device.model, recorded.activities, recorded.profiles, ())


def sanitized(run: Callable[[], object]) -> tuple[Report, DeviceError | None]:
    """Run a function under the sanitizer; return the report, and a fault that is a finding."""
    with sanitize(raises=False) as report:
        try:
            run()
        except DeviceError as error:
            if not report.findings:
                raise
            return report, error
    return report, None
