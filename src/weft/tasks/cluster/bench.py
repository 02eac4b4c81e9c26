"""Times calls of the op library on the GPUs of a Ray cluster."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from weft.ops.core.bind import with_torch
from weft.tasks.climb import Steps
from weft.tasks.cluster.gpus import ClusterOptions, gpus
from weft.tasks.cluster.signals import terminated
from weft.values.sweep import Swept, SweptCall


def ops(
    batches: Sequence[Any],
    job: Any,
    cluster: ClusterOptions,
    steps: Steps,
    *,
    limit: float = math.inf,
    record: Path | None = None,
    about: Any = None,
) -> list[Swept]:
    """Measure batches on each kind of GPU; each result is appended to the record as it comes.

    job    a SweepJob without a folder: each worker has a GPU of its own
    about  describes the GPU of a worker; by default as records have it
    """
    whole = with_torch("weft.ops.sweep.whole")
    calls = [f"{batch.op} {batch.seed} {call}" for batch in batches for call in batch.calls]
    swept: list[Swept] = []
    with gpus(cluster, about or _about(), _job("bench ops", job, calls), _dump, _load) as hired:
        every = [replace(b, gpu=kind) for kind in hired.staff.kinds for b in batches]
        kinds = [batch.gpu for batch in every for _ in batch.calls]
        machines = {kind: hired.staff.machine(kind) for kind in hired.staff.kinds}
        with terminated() as ended, steps(len(kinds), "") as notify:
            pool = hired.pool(kinds)
            for one in whole.sweep(every, job, pool, limit, notify, lambda: bool(ended)):
                swept.append(one)
                if record is not None:
                    whole.append(record, [one], [], machines[one.gpu])
        if ended:
            hired.keep()
    return swept


def models(
    tasks: Sequence[Any],
    job: Any,
    cluster: ClusterOptions,
    steps: Steps,
    *,
    limit: float = math.inf,
    about: Any = None,
) -> list[tuple[Mapping[str, str], dict[int, SweptCall]]]:
    """The description of each kind of GPU, and its results by the number of the task."""
    whole = with_torch("weft.ops.sweep.whole")
    titles = [f"{task.seed} {task}" for task in tasks]
    with gpus(cluster, about or _about(), _job("bench models", job, titles), _dump, _load) as hired:
        names = hired.staff.kinds
        found: list[dict[int, SweptCall]] = [{} for _ in names]
        machines = [hired.staff.machine(name) for name in names]
        every = [task for _ in names for task in tasks]
        pool = hired.pool([name for name in names for _ in tasks])
        with terminated() as ended, steps(len(every), "") as notify:
            for number, result in whole.measured(
                every, job, pool, limit, notify, lambda: bool(ended)
            ):
                kind, task = divmod(number, len(tasks))
                found[kind][task] = result
        if ended:
            hired.keep()
    return list(zip(machines, found, strict=True))


def _about() -> Any:
    return with_torch("weft.ops.sweep.gpu").about


def _job(name: str, job: Any, calls: Sequence[str]) -> list[str]:
    """The command, and everything that its results depend on."""
    compiled = str(job.compile is not None)
    digest = with_torch("weft.ops.core.source").digest()
    return [name, digest, compiled, str(job.always), str(job.cudnn_benchmark), *calls]


def _dump(result: SweptCall) -> dict[str, Any]:
    return {"op": result.op, **result.to_dict()}


def _load(row: Mapping[str, Any]) -> SweptCall:
    return SweptCall.from_dict(row["op"], row)
