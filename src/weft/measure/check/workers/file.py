"""Checks every solution of a file; the solutions run in worker processes."""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from weft import user_paths
from weft.device.selection import select
from weft.errors import ArgumentError, Error, MissingDependency
from weft.measure.check import input_data, scheduled, sizes, subjects, user_file
from weft.measure.check.check import chosen_seed, generator, judged
from weft.measure.check.judge import repeat
from weft.measure.check.subjects import Trial
from weft.measure.check.workers.process import CheckWorker, ForkServer
from weft.measure.check.workers.remote import RemoteFile, RemoteSolution
from weft.values.check import Outcome

LIMIT = 120.0
CALLS, CALLS_S = (100, 400), 1.0
"""Calls in a row at the end: a number that no solution can know, and the seconds for them."""
_PR_GET_DUMPABLE, _PR_SET_DUMPABLE = 3, 4


def check_file(
    path: Path,
    *,
    trusted: Path | None = None,
    only: str = "",
    seed: int | None = None,
    device: str = "sim",
    limit: float = LIMIT,
    schedules: int | Sequence[str] = 0,
    progress: Callable[[str], None] = lambda words: None,
) -> Iterator[Outcome]:
    """Check the solutions of a file, one after the other.

    trusted    the file that defines references, cases and data; those of the solutions' file are
               ignored
    limit      seconds of CPU time per answer, and seconds of waiting for an idle worker
    schedules  as in `weft.check`
    progress   called with a description of each step
    """
    for file_path in (path, trusted or path):
        user_paths.must_exist(file_path)
    if not limit > 0:
        raise ArgumentError("a time limit must be above 0", got=f"{limit:g}", allowed="seconds")
    # Sealed memory files exist on Linux only.
    if not hasattr(os, "memfd_create"):
        raise MissingDependency(
            "files are judged on Linux only", next="weft.check(op, solution) judges in this process"
        )
    # Before any process starts: an unknown word is refused.
    names = scheduled.chosen(schedules, select(device))
    used = chosen_seed(seed)
    # Closed in reverse order: the fork server outlives its workers.
    with (
        _unreadable(),
        contextlib.closing(ForkServer()) as forkserver,
        contextlib.closing(CheckWorker(forkserver, limit)) as reference,
    ):
        progress(f"import {path.name}")
        file = RemoteFile(path, reference, trusted)
        with contextlib.closing(CheckWorker(forkserver, limit)) as importer:
            solutions = user_file.chosen(path, file.names(importer), only)
        for number, solution in solutions:
            # A new worker per solution: no state of one can reach another.
            with contextlib.closing(CheckWorker(forkserver, limit)) as worker:
                yield _judged(file, worker, number, solution, used, device, progress, names)


def _judged(
    file: RemoteFile,
    worker: CheckWorker,
    number: int,
    solution: str,
    seed: int,
    device: str,
    progress: Callable[[str], None],
    schedules: Sequence[str],
) -> Outcome:
    op, started = file.ops[number][0], time.monotonic()
    name = f"{op.name}/{solution}"
    rng = generator(seed, solution)
    report, error = None, None
    subject = RemoteSolution(file, worker, number, solution, name, device, rng)
    beside = sizes.beside(op, rng)
    trials = subjects.op_trials(op, name, subject, input_data.SPECIALS, beside)

    def told(trial: str) -> None:
        progress(f"{name}: {trial}")

    def finish(done: Sequence[Trial]) -> None:
        told("many calls")
        smallest = min((t for t in done if t.repeated), key=lambda t: t.harness.subject.elements)
        # As long as the trials took: a slow solution is judged on fewer calls.
        seconds = max(CALLS_S, time.monotonic() - started)
        runs = int(rng.integers(*CALLS))
        repeat(smallest.harness, smallest.draw, smallest.label, rng, runs, seconds)
        told("the end")
        subject.rest()

    try:
        subject.load()
        report = judged(name, trials, seed, rng, told, schedules, finish)
    except Error as failure:
        error = failure
    return Outcome(name, time.monotonic() - started, report, error, worker.close())


@contextlib.contextmanager
def _unreadable() -> Iterator[None]:
    """Keep other processes of the same user from tracing this one or reading its memory."""
    prctl = ctypes.CDLL(None).prctl
    before = prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0)
    prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    try:
        yield
    finally:
        prctl(_PR_SET_DUMPABLE, before, 0, 0, 0)
