"""Run programs of a seed in a worker process: batches of them, and the reduction of one finding."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from weft.cluster.processes import Answer
from weft.fuzz import findings
from weft.fuzz.batch import PACK, batch, pack
from weft.fuzz.execute import execute
from weft.fuzz.minimise import minimise

TASKS = 8
"""Tasks of a process before another takes its place: compiled code of either side stays loaded."""


@dataclass(frozen=True)
class Batch:
    """Programs `first` and on of a seed; whole packs."""

    seed: int
    first: int
    count: int

    def __str__(self) -> str:
        return f"seed {self.seed}, programs {self.first} to {self.first + self.count - 1}"


@dataclass(frozen=True)
class Reduction:
    """A program of a seed that goes wrong, to be made smaller."""

    seed: int
    program: int

    def __str__(self) -> str:
        return f"seed {self.seed}, reduction of program {self.program}"


@dataclass(frozen=True)
class Judge:
    """The settings of all worker processes: temporary files go to `folder` where it exists."""

    folder: Path

    def start(self) -> Callable[[Batch | Reduction], Answer]:
        """Prepare this process, and return the function that does a task in it."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers after Ctrl-C
        os.environ["WEFT_THREADS"] = "1"  # the cores belong to other workers
        if self.folder.is_dir():  # not on another machine of a cluster
            tempfile.tempdir = str(self.folder)
            os.environ.update(TMPDIR=tempfile.tempdir)
        done = 0

        def work(task: Batch | Reduction) -> Answer:
            nonlocal done
            done += 1
            judged = _judged(task) if isinstance(task, Batch) else _reduced(task)
            return Answer(judged, broken=done == TASKS)

        return work


def _judged(task: Batch) -> list[findings.Record]:
    found = batch(task.seed, task.count, task.first)
    return [findings.record(finding, finding) for finding in found]


def _reduced(task: Reduction) -> list[findings.Record]:
    """The finding with its smallest program; none if the program does not go wrong any more."""
    whole = pack(task.seed, task.program // PACK)
    name = f"{task.seed}:{task.program}"
    found = [finding for finding in execute([whole]) if finding.program.name == name]
    return [findings.record(finding, minimise(finding)) for finding in found]
