"""Times the op library on random calls, with PyTorch and torch.compile."""

from __future__ import annotations

import dataclasses
import functools
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.cluster import processes
from weft.device.selection import Selection
from weft.errors import ArgumentError
from weft.ops.core import bind
from weft.tasks.climb import Steps
from weft.tasks.cluster import bench as cluster_bench
from weft.tasks.cluster.gpus import ClusterOptions
from weft.tasks.cluster.signals import terminated
from weft.values.sweep import HostTime, Swept

if TYPE_CHECKING:
    from weft.ops.sweep.case import Case
    from weft.ops.sweep.whole import Batch


_INSTEAD = "`weft tune OP --list` shows candidates and modelled times without a GPU"
HOST = 15.0
"""Seconds that are kept of the limit for the host's times, which are taken last."""


@dataclass(frozen=True)
class SweepOptions:
    """A sweep.

    most          the largest number of elements
    ops           only these ops, separated by commas
    budget        seconds after which torch.compile is not timed
    limit         seconds after which the sweep ends
    jobs          processes that compile
    again, below  time the calls of a record again that are slower than this ratio to the best peer
    host          time only the host's part of calls of small tensors
    record        append the results to this file
    cluster       measure on the GPUs of a cluster
    """

    seed: int
    count: int
    most: int
    ops: str
    compile: bool
    budget: float
    limit: float
    jobs: int
    again: Path | None
    below: float
    host: bool
    record: Path | None
    cluster: ClusterOptions | None = None


@dataclass(frozen=True)
class OpTimes:
    """The results of a sweep: of ops, and of the host's part of calls."""

    swept: list[Swept]
    host: list[HostTime]

    @property
    def right(self) -> bool:
        """True if no result was wrong."""
        return not any(one.wrong for one in self.swept)

    def to_dict(self) -> dict[str, Any]:
        """The results as a dict, for JSON."""
        return {"ops": [s.to_dict() for s in self.swept], "host": [t.to_dict() for t in self.host]}


def bench(options: SweepOptions, device: Selection | None, steps: Steps) -> OpTimes:
    """Time the ops on random calls; `device` is the one that the user chose, if any."""
    if device is not None and not device.real:
        raise ArgumentError(
            "`weft bench ops` measures times, and the simulated GPU has none",
            got=f"--device {device.word}",
            allowed="--device gpu",
            next=_INSTEAD,
        )
    gpu, host = (bind.with_torch(f"weft.ops.sweep.{name}") for name in ("gpu", "host"))
    names = _names(options.ops, host.names() if options.host else _every())
    batches = [] if options.host else _batches([_every()[name] for name in names], options)
    if options.cluster is not None:
        return _on_cluster(options, options.cluster, batches, steps)
    gpu.need("weft bench ops", _INSTEAD)
    bind.with_torch("weft.ops.core.native.build").started().wait()  # once, before processes need it
    begin = time.monotonic()
    swept, ended = _swept(batches, options, steps)
    late = ended or time.monotonic() - begin > options.limit - HOST / 2
    times: list[HostTime] = [] if late else host.times(names)
    if options.record is not None and times:
        bind.with_torch("weft.ops.sweep.whole").append(options.record, [], times)
    return OpTimes(swept, times)


def _on_cluster(
    options: SweepOptions, cluster: ClusterOptions, batches: Sequence[Batch], steps: Steps
) -> OpTimes:
    """The results of a cluster's GPUs; the host's times are those of one machine, and left out."""
    if options.host:
        raise ArgumentError(
            "the host's times are those of one machine", got="--host and --ray", allowed="one"
        )
    job = _job(options, None)
    swept = cluster_bench.ops(
        batches, job, cluster, steps, limit=options.limit, record=options.record
    )
    return OpTimes(swept, [])


def _job(options: SweepOptions, folder: Path | None) -> Any:
    """The settings of the workers; `folder` is where they take turns on one GPU."""
    worker = bind.with_torch("weft.ops.sweep.worker")
    job = worker.SweepJob(folder, until=time.time() + options.budget)
    return job if options.compile else dataclasses.replace(job, compile=None)


def _every() -> dict[str, Case]:
    """The cases of the sweep by name."""
    return {case.name: case for case in bind.with_torch("weft.ops.sweep.cases").CASES}


def _names(given: str, every: Iterable[str]) -> list[str]:
    """The names that were given, in this order, or all; raises for an unknown one."""
    allowed = list(every)
    wanted = [name.strip() for name in given.split(",") if name.strip()]
    for name in wanted:
        if name not in allowed:
            known = ", ".join(allowed)
            raise ArgumentError("`weft bench ops` has no such op", got=name, allowed=known)
    return wanted or allowed


def _batches(cases: Sequence[Case], options: SweepOptions) -> list[Batch]:
    """The calls to make: drawn ones, or the slow ones of a record."""
    whole = bind.with_torch("weft.ops.sweep.whole")
    if options.again is None:
        return [whole.drawn(case, options.seed, options.count, options.most) for case in cases]
    batches: list[Batch] = whole.slow(options.again, cases, options.below)
    if not batches:
        got = f"no call of {options.again} is slower than {options.below} x the best peer"
        raise ArgumentError("there is nothing to time again", got=got, next="--below NUMBER")
    return batches


def _swept(
    batches: Sequence[Batch], options: SweepOptions, steps: Steps
) -> tuple[list[Swept], bool]:
    """The results, and whether a signal ended the sweep."""
    whole = bind.with_torch("weft.ops.sweep.whole")
    swept: list[Swept] = []
    total = sum(len(batch.calls) for batch in batches)
    with terminated() as ended, tempfile.TemporaryDirectory() as folder, steps(total, "") as notify:
        job = _job(options, Path(folder))
        limit = max(0.0, options.limit - HOST)
        pool = functools.partial(processes.run, jobs=options.jobs)
        for one in whole.sweep(batches, job, pool, limit, notify, lambda: bool(ended)):
            swept.append(one)
            if options.record is not None:  # now, because a later op may fail
                whole.append(options.record, [one], [])
    return swept, bool(ended)
