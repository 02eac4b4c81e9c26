"""Tunes an op on the GPUs of a Ray cluster; the winners are stored on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.ops.core.bind import with_torch
from weft.tasks.climb import Steps
from weft.tasks.cluster.gpus import ClusterOptions, gpus
from weft.values.sweep import Tuned


def tune(
    op: str, calls: Sequence[Any], job: Any, about: Any, cluster: ClusterOptions, steps: Steps
) -> list[Tuned]:
    """Measure the candidates of each call on each kind of GPU, and store the fastest here.

    job    a TuneJob
    about  describes the GPU of a worker
    """
    tuning, choose, source = (
        with_torch(f"weft.ops.{name}") for name in ("sweep.tune_job", "core.choose", "core.source")
    )
    depends = ["tune", op, str(job.seed), source.digest(), *map(str, calls)]
    found: dict[int, Tuned] = {}
    with gpus(cluster, about, depends, _same, _same) as hired:
        kinds = [kind for kind in hired.staff.kinds for _ in calls]
        tasks = [tuning.TuneTask(call) for _ in hired.staff.kinds for call in calls]
        with steps(len(tasks), op) as notify:
            for number, answer in hired.pool(kinds)(tasks, start=job.start):
                notify(f"{tasks[number].call}")
                value: dict[str, Any] = {"failure": ""} if answer is None else answer.value
                if "tuned" in value:
                    stored = choose.remember(value["key"], value["tuned"]["chosen"])
                    found[number] = Tuned.from_dict({**value["tuned"], "stored": stored})
                elif value["failure"]:
                    cluster.tell(f"{tasks[number]}: {value['failure']}")
    # Plans that this process chose before the measurement must not be used again.
    with_torch("weft.ops.core.library").function(op).forget()
    return [found[number] for number in sorted(found)]


def _same(value: Any) -> Any:
    """The value itself: results of workers are JSON values already."""
    return value
