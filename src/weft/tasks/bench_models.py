"""Times layer calls of public models, with PyTorch, its backends and torch.compile."""

from __future__ import annotations

import functools
import json
import math
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.cluster import processes
from weft.cluster.pools import cpus
from weft.cluster.processes import Answer
from weft.errors import ArgumentError
from weft.ops.core import bind
from weft.tasks.climb import Steps
from weft.tasks.cluster import bench as cluster_bench
from weft.tasks.cluster.gpus import ClusterOptions
from weft.tasks.cluster.signals import terminated
from weft.values.models import LayerCall, LayerTime, ModelTimes
from weft.values.sweep import SweptCall

if TYPE_CHECKING:
    from weft.ops.models.draw import Drawn

_INSTEAD = "`--list` shows the calls, and `--device sim` checks small ones"
ROTATED = 160 * 2**20
"""Bytes of the sets of arguments together: more than twice the L2 cache of an H200."""
MAX_AUTOTUNE = "max-autotune-no-cudagraphs"
COMPILED = ("norm", "activation", "residual", "softmax", "embedding", "loss", "pool")
"""Kinds whose kernels torch.compile makes itself; for others it calls the libraries, too."""
FUSED = "linear act"
"""A product with an activation, of which torch.compile makes a kernel."""
CHECK = 1800.0
"""Seconds that the check of a call on the simulated GPU may take."""
LOST = "two workers of the cluster ended at this call"
SMALL_REFERENCE = 1e10
"""FLOPs of a convolution above which its reference is float32: float64 would take seconds."""


@dataclass(frozen=True)
class ModelOptions:
    """Calls of models.

    models, kinds  only these, separated by commas
    only           calls by their words, separated by semicolons, or "@FILE" with a call per line
    again, below   the calls of a record that are slower than this ratio to the best peer
    compile        time torch.compile for the kinds of layers that it compiles itself
    max_autotune   time torch.compile for all layers, with its mode "max-autotune-no-cudagraphs"
    budget, limit  seconds after which torch.compile is not timed, and after which no call is
    cudnn          let cuDNN time its algorithms for each convolution, and take the fastest
    record         append the results to this file
    cluster        use the GPUs of a cluster, or its CPUs to check
    """

    seed: int
    count: int
    models: str = ""
    kinds: str = ""
    only: str = ""
    again: Path | None = None
    below: float = 0.9
    compile: bool = True
    max_autotune: bool = False
    budget: float = 1800.0
    limit: float = float("inf")
    jobs: int = 1
    cudnn: bool = False
    record: Path | None = None
    cluster: ClusterOptions | None = None


def listed(options: ModelOptions) -> list[LayerCall]:
    """The calls, without making them."""
    return [one.described() for one in _chosen(options)]


def bench(options: ModelOptions, steps: Steps) -> ModelTimes:
    """Check and time the calls on a GPU."""
    calls = _chosen(options)
    gpu = bind.with_torch("weft.ops.sweep.gpu")
    gpu.need("weft bench models", _INSTEAD)
    bind.with_torch("weft.ops.core.native.build").started().wait()  # before processes need it
    whole = bind.with_torch("weft.ops.sweep.whole")
    tasks = [_task(one, options) for one in calls]
    found: dict[int, LayerTime] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        steps(len(tasks), "") as notify,
        terminated() as ended,
    ):
        job = _job(options, Path(folder))
        pool = functools.partial(processes.run, jobs=options.jobs)
        for number, result in whole.measured(
            tasks, job, pool, options.limit, notify, lambda: bool(ended)
        ):
            found[number] = LayerTime(calls[number].described(), result)
    times = ModelTimes(options.seed, len(calls), tuple(found[i] for i in sorted(found)))
    _append(options, [times], [gpu.about()])
    return times


def bench_on_cluster(
    options: ModelOptions, cluster: ClusterOptions, steps: Steps
) -> list[ModelTimes]:
    """Check and time the calls on the GPUs of a cluster; one result for each kind of GPU."""
    calls = _chosen(options)
    tasks = [_task(one, options) for one in calls]
    job = _job(options, None)
    measured = cluster_bench.models(tasks, job, cluster, steps, limit=options.limit)
    times = []
    for machine, found in measured:
        layers = tuple(LayerTime(calls[i].described(), found[i]) for i in sorted(found))
        times.append(ModelTimes(options.seed, len(calls), layers, machine["gpu"]))
    _append(options, times, [machine for machine, _ in measured])
    return times


def _append(
    options: ModelOptions, times: Sequence[ModelTimes], machines: Sequence[Mapping[str, str]]
) -> None:
    """Append the results to the record, if there is one."""
    if options.record is None:
        return
    about = {"cudnn_benchmark": options.cudnn, "max_autotune": options.max_autotune}
    pairs = zip(times, machines, strict=True)
    lines = [{**one.to_dict(), **about, **machine} for one, machine in pairs]
    bind.with_torch("weft.ops.sweep.whole").append_lines(options.record, lines)


def check(options: ModelOptions, steps: Steps) -> ModelTimes:
    """Check small versions of the calls on the simulated GPU; nothing is timed."""
    small = bind.with_torch("weft.ops.models.small")
    calls = [small.smaller(one) for one in _chosen(options)]
    found: dict[int, LayerTime] = {}
    with steps(len(calls), "") as notify:
        if options.cluster is None:
            for number, one in enumerate(calls):
                notify(one.described().words)
                found[number] = LayerTime(one.described(), _checked(one, options.seed))
        else:
            where = options.cluster
            start = functools.partial(_checker, options.seed)
            with cpus(where.address, where.workers, where.tell) as (pool, _):
                for number, answer in pool(calls, start=start, patience=CHECK):
                    about = calls[number].described()
                    notify(about.words)
                    result = _failed(calls[number], {"weft": LOST})
                    result = result if answer is None else answer.value
                    found[number] = LayerTime(about, result)
    return ModelTimes(options.seed, len(calls), tuple(found[i] for i in sorted(found)))


def _checker(seed: int) -> Callable[[Drawn], Answer]:
    """Return the function that checks a call in a worker, which has one CPU."""
    os.environ["WEFT_THREADS"] = "1"
    return lambda one: Answer(_checked(one, seed))


def _checked(one: Drawn, seed: int) -> SweptCall:
    """The result of a small call, not timed."""
    case = bind.with_torch("weft.ops.models.cases").case(one.case)
    run = bind.with_torch("weft.ops.sweep.run")
    try:
        result: SweptCall = run.check(case, one.work.call, "cpu", seed, compare=True)[0]
    except run.Failed as failure:
        return _failed(one, {failure.who: failure.reason})
    return result


def _failed(one: Drawn, reasons: dict[str, str]) -> SweptCall:
    return SweptCall(one.case, one.described().call, "", math.nan, False, failed=reasons)


# ---- which calls -------------------------------------------------------------------------------
def _chosen(options: ModelOptions) -> list[Drawn]:
    """The calls that the options name, or those that the seed stands for."""
    config, draw, layers, named = (
        bind.with_torch(f"weft.ops.models.{name}") for name in ("config", "draw", "layers", "named")
    )
    every = config.models()
    if lines := _lines(options):
        calls: list[Drawn] = named.named(every, lines)
        return calls
    models = _names(options.models, list(every), "model")
    kinds = _names(options.kinds, layers.KINDS, "kind of layer")
    drawn: list[Drawn] = draw.drawn(
        list(every.values()), options.seed, options.count, models, kinds
    )
    return drawn


def _lines(options: ModelOptions) -> list[str]:
    """The words of calls, a line each, that were given or that a record has as slow."""
    if options.again is not None:
        records = map(json.loads, options.again.read_text("utf-8").splitlines())
        newest = {r["seed"]: r for r in records if "models" in r}
        times = [ModelTimes.from_dict(r) for r in newest.values()]
        slow = [t.layer.words for one in times for t in one.slow(options.below)]
        if not slow:
            got = f"no call of {options.again} is slower than {options.below} x the best peer"
            raise ArgumentError("there is nothing to time again", got=got, next="--below NUMBER")
        return slow
    text = options.only
    if text.startswith("@"):
        lines = Path(text[1:]).read_text("utf-8").splitlines()
        return [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    return [line.strip() for line in text.split(";") if line.strip()]


def _names(given: str, every: Sequence[str], what: str) -> list[str]:
    wanted = [name.strip() for name in given.split(",") if name.strip()]
    for name in wanted:
        if name not in every:
            raise ArgumentError(f"there is no such {what}", got=name, allowed=", ".join(every))
    return wanted


# ---- how they are measured -----------------------------------------------------------------------
def _task(one: Drawn, options: ModelOptions) -> Any:
    measure, worker = (bind.with_torch(f"weft.ops.sweep.{n}") for n in ("measure", "worker"))
    large = one.layer.kind == "conv" and one.work.flops > SMALL_REFERENCE
    half = one.setting.dtype != "float32"
    wide = "float32" if large and half else "float64"
    method = measure.Method(graph=True, rotated=ROTATED, compare=True, wide=wide)
    compile = options.max_autotune or one.layer.kind in COMPILED or one.work.case == FUSED
    return worker.Task(
        one.case, one.work.call, options.seed, method=method, compile=options.compile and compile
    )


def _job(options: ModelOptions, folder: Path | None) -> Any:
    """The settings of the workers; `folder` is where they take turns on one GPU."""
    return bind.with_torch("weft.ops.sweep.worker").SweepJob(
        folder,
        compile=_compiler(options),
        until=time.time() + options.budget,
        always=True,
        cases=bind.with_torch("weft.ops.models.cases").case,
        cudnn_benchmark=options.cudnn,
    )


def _compiler(options: ModelOptions) -> Any:
    if not options.compile:
        return None
    torch_compile = bind.with_torch("torch").compile
    return (
        functools.partial(torch_compile, mode=MAX_AUTOTUNE)
        if options.max_autotune
        else torch_compile
    )
