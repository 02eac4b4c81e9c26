"""Whole CUDA programs in the lab: a source with `main` runs as `weft run` and `weft profile` do.

Its host code has the user's rights, so the server asks first, as for Python.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from weft import progress
from weft.device.selection import select
from weft.errors import ArgumentError
from weft.lab.job import Job
from weft.tasks import launches, profile, run
from weft.tasks.profile import Profiled, ProfileOptions
from weft.tasks.program import Build
from weft.tasks.run import RunOptions
from weft.values.time.timeline import Timeline


def ran(job: Job) -> dict[str, Any]:
    """Run the program once; what it prints is all that it shows."""
    started = time.monotonic()
    options = RunOptions(_file(job), (), select(job.device), _build(job), race_hint=False)
    try:
        code = run.run(options)
    finally:
        progress.enabled = False  # it is for terminals
    if code:
        raise ArgumentError("the program ended with an error", got=f"exit code {code}")
    return {"seconds": time.monotonic() - started, "results": []}


def profiled(job: Job, *, timeline: bool = False) -> Profiled:
    """The profiles of all kernels of the program, and its timeline."""
    device = select(job.device)
    return profile.profile(
        ProfileOptions(_file(job), device, build=_build(job), quiet=True, timeline=timeline)
    )


def timeline(job: Job, launch: Any) -> Timeline:
    """The timeline of the program, or of what `launch` runs for a job without host code."""
    if not job.is_program:
        return launches.timeline(launch, select(job.device), job.file)
    found = profiled(job, timeline=True).timeline
    assert found is not None  # it was asked for
    return found


def refuse(job: Job, action: str) -> None:
    """Raise for an action that a whole program does not take."""
    if job.is_program:
        raise ArgumentError(
            f"{action} takes kernels, not a whole program",
            got="a source with main",
            allowed="Run, Profile, Timeline",
            next=f"weft {action} {job.file} in the terminal takes it",
        )


def _file(job: Job) -> Path:
    path = Path(job.file).absolute()
    path.write_text(job.source, encoding="utf-8")
    return path


def _build(job: Job) -> Build:
    return Build(include=job.include)
