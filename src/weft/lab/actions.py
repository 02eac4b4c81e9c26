"""The actions of a worker on a job: inspect, run, check, sanitize, profile.

Each action returns values for JSON, or raises; the worker turns an error into its text and marks.
"""

from __future__ import annotations

import functools
import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from weft.device.selection import select
from weft.errors import ArgumentError, CompileError, CompileWarning, Error
from weft.lab import (
    checks,
    code,
    includes,
    marks,
    origins,
    programs,
    results,
    setup,
    suggest,
    times,
    view,
)
from weft.lab.bind import BoundCuda
from weft.lab.job import Job, read
from weft.learn.grade import grade
from weft.measure.profile.result import Profile
from weft.report.timeline import page as timeline_page
from weft.report.timeline import text as timeline_text
from weft.report.timeline import trace as timeline_trace
from weft.source import headers
from weft.tasks import launches
from weft.values.findings import Finding

EXECUTIONS = 32
"""Executions of each access that a trace keeps for each warp."""

PROGRAM = "A whole program: Profile shows its PTX, Timeline what it asks of the GPU."
Answer = dict[str, Any]


def inspect(job: Job, limit: float) -> Answer:
    """Compile, and run nothing: PTX, SASS, and rows that the form lacks."""
    if job.is_program:
        rows: Answer = {"sizes": [], "arrays": [], "launches": []}
        return {"marks": [], "suggest": rows, "ptx": [], "sass": [], "sass_note": PROGRAM}
    if job.is_python:
        raise ArgumentError("Python is not compiled before it runs", next="Profile shows its PTX")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CompileWarning)
        bound = setup.bound(job)
    assert isinstance(bound, BoundCuda)
    found = [m for one in caught for m in marks.of_warning(str(one.message))]
    kernels = bound.kernels
    return {"marks": found, "suggest": suggest.rows(job, kernels), **code.code(job, kernels)}


def run(job: Job, limit: float) -> Answer:
    """Run the launches once and show the arrays."""
    if job.is_program:
        return programs.ran(job)
    bound, arrays = setup.bound(job), setup.arrays(job)
    before = {name: results.bits(a) for name, a in arrays.items()}
    started = time.monotonic()
    bound.run({**arrays, **job.sizes}, limit)
    seconds = time.monotonic() - started
    return {
        "seconds": seconds,
        "results": [results.shown(job, n, a, before[n]) for n, a in arrays.items()],
    }


def sanitize(job: Job, limit: float) -> Answer:
    """Run under the sanitizer; findings become marks at their lines."""
    programs.refuse(job, "sanitize")
    bound, arrays = setup.bound(job), setup.arrays(job)
    report, failed = launches.sanitized(lambda: bound.run({**arrays, **job.sizes}, limit))
    found = [m for f in report.findings for m in marks.of_finding(f)]
    return {
        "findings": [{**f.to_dict(), "text": str(f)} for f in report.findings],
        "summary": report.summary,
        "stopped": str(failed) if failed else "",
        "marks": found,
        "note": _blank(job, report.findings),
    }


def _blank(job: Job, findings: Sequence[Finding]) -> str:
    """Advice for the form if the kernel reads arrays that the form leaves uninitialised."""
    read_first = " ".join(f.place for f in findings if f.kind == "uninitialised")
    names = [a.name for a in job.arrays if a.fill == "uninitialised" and f"{a.name}[" in read_first]
    if not names:
        return ""
    return (
        f"The form leaves {', '.join(names)} uninitialised. If the kernel updates it, choose data."
    )


def check_(job: Job, limit: float) -> Answer:
    """Check against the exercise, the operation of the ladder, or the form's reference."""
    programs.refuse(job, "check")
    if (exercise := origins.exercise(job.origin)) is not None:
        path = Path(job.file)
        path.write_text(job.source, encoding="utf-8")
        graded = grade(exercise, path)
        if place := includes.outside(graded.words, _readable(job)):
            raise includes.hidden(place, job.file)
        found = marks.of_error(Error(graded.words))["marks"] if not graded.passed else []
        return {"passed": graded.passed, "text": graded.words, "marks": found, "graded": True}
    report = checks.checked(job)
    trials = [[t.trial, f"{t.worst:.2g}", t.deterministic] for t in report.trials]
    return {"passed": True, "text": str(report), "trials": trials}


def profile_(job: Job, limit: float) -> Answer:
    """Profile every launch; traces go beside, because the page asks for them line by line."""
    found = profiles(job, limit)
    if not found:
        raise ArgumentError("nothing was launched", next="does `run` launch a kernel?")
    return {
        "launches": [view.view(p) for p in found],
        "traces": [view.traces(p) for p in found],
        "records": [_record(p) for p in found],
    }


def timeline(job: Job, limit: float) -> Answer:
    """Records the timeline of a whole program, or of the job's launches: a page and a trace."""

    def launch() -> None:
        bound, arrays = setup.bound(job), setup.arrays(job)
        bound.run({**arrays, **job.sizes}, limit)

    found = programs.timeline(job, launch)
    return {
        "says": [times.block(b) for b in timeline_text.view(found)],
        "page": timeline_page.page(found),
        "trace": timeline_trace.trace(found),
    }


def perform(do: str, job: Mapping[str, Any], limit: float, include: Sequence[str]) -> Answer:
    """Perform an action on a job as the page sent it."""
    prepared = setup.prepared(read(job), include)
    return guarded(prepared, lambda: ACTIONS[do](prepared, limit))


def guarded(job: Job, call: Callable[[], Answer]) -> Answer:
    """Calls what compiles a job; refuses includes of other files, and hides what they hold."""
    if job.needs_consent:
        return call()
    includes.refuse(job.source, job.file, job.include)
    try:
        return call()
    except CompileError as error:
        place = includes.outside(f"{error.log}\n{error}", _readable(job))
        raise (includes.hidden(place, job.file) if place else error) from None


def _readable(job: Job) -> list[str]:
    """The folders of headers that the compiler may quote."""
    return [*job.include, *headers.folders(), str(Path.cwd())]


ACTIONS: Mapping[str, Callable[[Job, float], Answer]] = {
    "inspect": inspect,
    "run": run,
    "check": check_,
    "sanitize": sanitize,
    "profile": profile_,
    "timeline": timeline,
}


# ---- profile -------------------------------------------------------------------------------------
def profiles(job: Job, limit: float) -> list[Profile]:
    """The profiles of all launches of a job."""
    if job.is_program:
        return [p for p in programs.profiled(job).profiles if isinstance(p, Profile)]
    bound, arrays = setup.bound(job), setup.arrays(job)
    values = {**arrays, **job.sizes}
    if isinstance(bound, BoundCuda):
        return [
            launches.profile(
                launch,
                *args,
                device=job.device,
                time_limit=limit,
                block=min(job.block, math.prod(launch.config.grid) - 1),  # not all have as many
                executions=EXECUTIONS,
            )
            for launch, args in bound.calls(values)
        ]
    run = functools.partial(bound.run, values, limit)
    return launches.profiled(run, select(job.device), block=job.block, executions=EXECUTIONS)


def model(job: Job) -> str:
    """The key of the GPU that a job runs on."""
    return select(job.device).model.key


def _record(p: Profile) -> dict[str, Any]:
    """The profile for comparisons, without samples."""
    return {**p.to_dict(), "samples": []}
