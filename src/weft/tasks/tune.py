"""Measures the kernels that an op of the library can use, and stores the fastest."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.device.selection import Selection
from weft.errors import ArgumentError
from weft.ops.core.bind import with_torch
from weft.tasks.climb import Steps
from weft.tasks.cluster import tune as cluster_tune
from weft.tasks.cluster.gpus import ClusterOptions
from weft.values.sweep import Tuned

LISTS = "shows the candidates and modelled times"


@dataclass(frozen=True)
class TuneOptions:
    """Calls of an op.

    shapes   calls as "64x4096,4096x4096;8x512,512x512"; without them `calls` random ones
    dtype    of the tensors of `shapes`
    options  of the op, with `shapes`: "dim=0"
    device   the one that the user chose, if any
    listed   list the candidates and measure nothing
    record   append the results to this file
    cluster  measure on the GPUs of a cluster
    """

    op: str
    shapes: str = ""
    dtype: str = "float32"
    options: Sequence[str] = ()
    calls: int = 20
    seed: int = 1
    device: Selection | None = None
    listed: bool = False
    record: Path | None = None
    cluster: ClusterOptions | None = None


def names() -> list[str]:
    """The ops that can be tuned."""
    found: list[str] = with_torch("weft.ops.core.library").names()
    return found


def tune(options: TuneOptions, steps: Steps) -> list[Tuned]:
    """Measure the candidates of each call on the GPU and store the fastest, or list them."""
    if not options.op:
        raise ArgumentError("weft tune needs an op", next="`weft tune --list` lists the ops")
    if options.device is not None and not options.listed:
        _require_gpu(options.device)
    tuning, gpu = (with_torch(f"weft.ops.sweep.{name}") for name in ("tune", "gpu"))
    wanted: Any = (
        tuning.written(
            options.op, options.shapes, options.dtype, dict(map(_option, options.options))
        )
        if options.shapes
        else tuning.drawn(options.op, options.calls, options.seed)
    )
    if options.listed and options.cluster is not None:
        raise ArgumentError(
            "--list measures nothing", got="--list and --ray", allowed="one of them"
        )
    if options.listed:
        word = None if options.device is None else options.device.word
        return [tuning.listed(call, gpu.present(), word) for call in wanted]
    results = _measured(options, wanted, steps)
    if options.record is not None:
        whole = with_torch("weft.ops.sweep.whole")
        whole.append_lines(options.record, [one.to_dict() for one in results])
    return results


def _measured(options: TuneOptions, wanted: Sequence[Any], steps: Steps) -> list[Tuned]:
    tuning, gpu, job = (with_torch(f"weft.ops.sweep.{n}") for n in ("tune", "gpu", "tune_job"))
    clock = with_torch("weft.ops.sweep.time").as_called
    if options.cluster is not None:
        return cluster_tune.tune(
            options.op, wanted, job.TuneJob(options.seed), gpu.about, options.cluster, steps
        )
    gpu.need("weft tune", f"`weft tune {options.op} --list` {LISTS}")
    results = []
    with steps(len(wanted), "") as notify:
        for call in wanted:
            notify(f"{call.op} {call}")
            results.append(tuning.tune(call, "cuda", clock, options.seed))
    return results


def _require_gpu(device: Selection) -> None:
    """Raise for a simulated GPU, which has no times, and for any but the first real one."""
    device.first("weft tune measures on the first GPU")
    if not device.real:
        raise ArgumentError(
            "weft tune measures times, and the simulated GPU has none",
            got=f"--device {device.word}",
            allowed="--device gpu, or --list",
        )


def _option(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ArgumentError("--set cannot be read", got=text, allowed="NAME=VALUE")
    try:
        return name, ast.literal_eval(value)
    except (SyntaxError, ValueError):
        return name, value  # a string, as in activation=relu
