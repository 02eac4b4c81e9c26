"""Checks, profiles and sanitizes launches of this process, for doors that have no file to run.

`check`, `profile` and `sanitize` are the public functions of the same names.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.device.selection import Selection
from weft.device.sim.tools.sanitizer.session import Report, sanitize
from weft.errors import DeviceError
from weft.measure.check.check import check
from weft.measure.profile.profile import profile
from weft.measure.profile.result import Profile
from weft.measure.profile.session import Recording, recording

__all__ = ["check", "profile", "profiled", "sanitize", "sanitized"]


def profiled(
    run: Callable[[], object], device: Selection, *, block: int | None = None, executions: int = 0
) -> list[Profile]:
    """Profile the launches of a function; `block` and `executions` are those of `profile`."""
    with recording(Recording(device.model.key, block=block, executions=executions)) as recorder:
        run()
    return recorder.profiles


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
