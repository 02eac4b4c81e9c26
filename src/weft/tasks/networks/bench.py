"""Times steps of whole networks, by PyTorch, its compiler and weft."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from weft.ops.core import bind
from weft.tasks.climb import Steps
from weft.tasks.cluster.signals import terminated
from weft.values.networks import NetworkCase, NetworkTime, NetworkTimes, StepTimes, own

_INSTEAD = "`--list` shows the cases, and `--device sim` compares the losses of tiny networks"
SIMULATED = ("eager", "weft", "weft compile")
"""Contenders whose losses the simulated GPU compares."""
TINY = "tiny"
SMALL = 2
"""The batch of a tiny network."""


@dataclass(frozen=True)
class NetworkOptions:
    """Cases to time.

    only          cases by their words, separated by semicolons; all by default
    contenders    only these, separated by commas
    max_autotune  also torch.compile's mode "max-autotune", which takes minutes
    rounds        turns of each contender
    losses        steps whose losses are compared
    graphs        capture steps as CUDA graphs, too
    kernels       list the kernels of each step
    second        time the first call of a second process, too
    jobs          processes that make their first steps at the same time
    limit         seconds after which the run ends with what was measured
    record        append the results to this file
    """

    only: str = ""
    contenders: str = ""
    max_autotune: bool = False
    rounds: int = 5
    losses: int = 10
    graphs: bool = True
    kernels: bool = False
    second: bool = False
    jobs: int = 1
    limit: float = math.inf
    record: Path | None = None


def listed(options: NetworkOptions) -> list[NetworkCase]:
    """The cases, without running them."""
    found: list[NetworkCase] = _module("cases").chosen(options.only)
    return found


def bench(options: NetworkOptions, steps: Steps) -> NetworkTimes:
    """Time the cases on a GPU, each contender in a process of its own."""
    cases = listed(options)
    names = _module("contenders").chosen(options.contenders, options.max_autotune)
    gpu = bind.with_torch("weft.ops.sweep.gpu")
    gpu.need("weft bench networks", _INSTEAD)
    if any(own(name) for name in names):
        # Once, before processes need it.
        bind.with_torch("weft.ops.core.native.build").started().wait()
    session = _module("session")
    method = session.Method(
        options.rounds, options.losses, options.graphs, options.kernels, options.second,
        options.jobs, options.limit,
    )  # fmt: skip
    found: list[NetworkTime] = []
    about = {"jobs": options.jobs, "rounds": options.rounds, **gpu.about()}
    with terminated() as ended, steps(len(cases), "") as notify:
        for one in session.measured(cases, names, method, notify, lambda: bool(ended)):
            found.append(one)
            if options.record is not None:  # now, because a later case may take too long
                _append(options.record, {**one.to_dict(), **about})
    return NetworkTimes(len(cases), tuple(found))


def check(options: NetworkOptions, steps: Steps) -> NetworkTimes:
    """Compare the losses of tiny networks on the simulated GPU; nothing is timed."""
    contenders, worker = _module("contenders"), _module("worker")
    names = [n for n in contenders.chosen(options.contenders, False) if n in SIMULATED]
    tiny = dict.fromkeys(
        replace(case, size=TINY, batch=SMALL, length=0) for case in listed(options)
    )
    found = []
    with steps(len(tiny), "") as notify:
        for case in tiny:
            notify(case.words)
            results = {}
            for name in names:
                one = worker.Worker(case, name, "cpu")
                right, value = worker.answer(one, "prepare", (options.losses,))
                results[name] = StepTimes(losses=tuple(value[1])) if right else _failed(value)
            found.append(NetworkTime(case, results))
    return NetworkTimes(len(tiny), tuple(found))


def default_jobs() -> int:
    """Half of the cores: a compiler has threads of its own."""
    return max(1, (os.cpu_count() or 1) // 2)


def _failed(reason: str) -> StepTimes:
    return StepTimes(failed=reason)


def _append(path: Path, line: dict[str, Any]) -> None:
    bind.with_torch("weft.ops.sweep.whole").append_lines(path, [line])


def _module(name: str) -> Any:
    return bind.with_torch(f"weft.networks.bench.{name}")
