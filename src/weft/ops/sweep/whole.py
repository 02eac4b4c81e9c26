"""Sweeps ops: draws their calls, has them measured in several processes, and keeps a record."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from weft.cluster.processes import Pool
from weft.ops.sweep import gpu, run
from weft.ops.sweep.case import Case
from weft.ops.sweep.draw import Call
from weft.ops.sweep.worker import SweepJob, Task
from weft.values.sweep import DrawnCalls, HostTime, Swept, SweptCall

LOST = "the process ended, or took too long"


@dataclass(frozen=True)
class Batch(DrawnCalls):
    """Such calls before they are measured."""

    calls: tuple[Call, ...]


# ---- what is swept -----------------------------------------------------------------------------
def drawn(case: Case, seed: int, count: int, most: int) -> Batch:
    """The calls that a seed stands for."""
    return Batch(case.name, seed, most, tuple(run.calls(case, seed, count, most)))


def slow(record: Path, cases: Sequence[Case], below: float) -> list[Batch]:
    """The calls in the newest records of ops whose ratio is below a limit, or that were wrong."""
    lines = record.read_text("utf-8").splitlines()
    newest = {
        line["op"]: line for line in map(json.loads, lines) if "op" in line and "again" not in line
    }
    batches = []
    for case in cases:
        line = newest.get(case.name, {"results": [], "seed": 0, "most": 1})
        texts = {row["call"] for row in line["results"] if _is_slow(row, below)}
        # More than are recorded, because a limit of time may have left some out.
        every = drawn(case, line["seed"], max(60, len(line["results"])), line["most"])
        calls = tuple(call for call in every.calls if str(call) in texts)
        if calls:
            batches.append(replace(every, calls=calls, again=True))
    return batches


def _is_slow(row: dict[str, Any], below: float) -> bool:
    us = dict(row["us"])
    weft = us.pop("weft", None)
    return not row["right"] or (weft is not None and bool(us) and min(us.values()) / weft < below)


def sweep(
    batches: Sequence[Batch],
    job: SweepJob,
    pool: Pool,
    limit: float = math.inf,
    report: Callable[[str], None] = lambda text: None,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[Swept]:
    """Measure the calls of batches by a pool; each batch is there as soon as it is finished.

    A batch that is not finished after `limit` seconds, or once `stop` returns True, has the results
    that there are.
    """
    numbered = [(i, call) for i, batch in enumerate(batches) for call in batch.calls]
    tasks = [Task(batches[i].op, call, batches[i].seed) for i, call in numbered]
    left = [len(batch.calls) for batch in batches]
    results: dict[int, SweptCall] = {}

    def swept(number: int) -> Swept:
        batch = batches[number]
        found = tuple(results[n] for n in sorted(results) if numbered[n][0] == number)
        return Swept(batch.op, batch.seed, batch.most, found, again=batch.again, gpu=batch.gpu)

    for n, result in measured(tasks, job, pool, limit, report, stop):
        number = numbered[n][0]
        results[n] = result
        left[number] -= 1
        if not left[number]:
            yield swept(number)
    for number, batch in enumerate(batches):
        if 0 < left[number] < len(batch.calls):
            yield swept(number)


def measured(
    tasks: Sequence[Task], job: SweepJob, pool: Pool, limit: float,
    report: Callable[[str], None], stop: Callable[[], bool],
) -> Iterator[tuple[int, SweptCall]]:  # fmt: skip
    """The number of each task with its result, as they are finished."""
    for number, answer in pool(tasks, start=job.start, limit=limit, stop=stop):
        task = tasks[number]
        report(str(task))
        yield number, answer.value if answer is not None else _lost(task)


def _lost(task: Task) -> SweptCall:
    return SweptCall(task.case, str(task.call), "", math.nan, False, failed={"weft": LOST})


# ---- records -----------------------------------------------------------------------------------
def append(
    path: Path,
    swept: Sequence[Swept],
    host: Sequence[HostTime],
    machine: Mapping[str, str] | None = None,
) -> None:
    """Append a line for each op and one for the host's times; `machine` is this one by default."""
    machine = gpu.about() if machine is None else machine
    lines = [{**s.to_dict(), **machine} for s in swept]
    if host:
        lines.append({"host": [h.to_dict() for h in host], **machine})
    append_lines(path, lines)


def append_lines(path: Path, lines: Sequence[dict[str, Any]]) -> None:
    """Append records to a file, a line each."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
