"""Times the phases of a first call of torch.compile(backend="weft"), and of a second process.

    python benchmarks/backend_start.py [--only gpt2] [--record]
    python benchmarks/backend_start.py --process gpt2        # one process, with the present caches

A forward and a backward pass of GPT-2 with 12 layers and of a Llama with 32, which are narrow: the
time depends on the number of operations. Kernels are planned and compiled to PTX, and do not run,
so that no time of the simulated GPU is measured. Figures are seconds of processor time, each
without those of the phases inside it. The caches of the first process are empty.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from simspeed.machine import describe

RECORDS = Path(__file__).with_name("records") / "backend_start.jsonl"
NETWORKS = {"gpt2": (32, 12, 2), "llama": (32, 32, 4, 2, 64)}
"""The first sizes of each network: width, depth, heads, …"""
BATCH, LENGTH, VOCABULARY = 2, 16, 61
PHASES = (
    ("key", "weft.torch_backend.disk.keys", "key_of"),
    ("read", "weft.torch_backend.disk.entries", "read"),
    ("rewrite", "weft.torch_backend.graphs", "rewrite"),
    ("AOT", "weft.torch_backend.graphs", "by_passes"),
    ("partition", "weft.torch_backend.graphs", "partition"),
    ("canonical", "weft.torch_backend.program", "canonical"),
    ("norms", "weft.torch_backend.norms", "write_out"),
    ("delay", "weft.torch_backend.program", "delay"),
    ("lower", "weft.torch_backend.program", "lower"),
    ("write", "weft.torch_backend.disk.entries", "write"),
    ("fused kernels", "weft.torch_backend.steps", "launch"),
    ("NVRTC", "weft.source.nvrtc", "_compile"),
)
"""Phases, and the functions that they are; "Dynamo" and "steps" are what is left over."""


class Clock:
    """Processor time by phases: that of an inner phase is not part of the outer one."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._stack: list[str] = []
        self._last = time.process_time()

    def _turn(self) -> None:
        now = time.process_time()
        if self._stack:
            self.seconds[self._stack[-1]] += now - self._last
        self._last = now

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self._turn()
        self._stack.append(name)
        try:
            yield
        finally:
            self._turn()
            self._stack.pop()

    def watch(self, name: str, module: str, function: str) -> None:
        """Count the time of a function of a module."""
        home = importlib.import_module(module)
        inner: Callable[..., Any] = getattr(home, function)

        @functools.wraps(inner)
        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.phase(name):
                return inner(*args, **kwargs)

        setattr(home, function, timed)


def one_process(name: str) -> dict[str, float]:
    """Make the first step of a network; return the seconds of each phase."""
    clock = Clock()
    with clock.phase("imports"):
        import torch

        from weft.ops.core import runner
        from weft.ops.core.function import Function
        from weft.torch_backend import compile_graph, graphs

        kind = importlib.import_module(f"weft.networks.{name}")
    runner._simulated = _without_launches
    for phase in PHASES:
        clock.watch(*phase)
    find = Function.entry

    def entry(self: Any, *args: Any) -> Any:
        with clock.phase("plans"):
            return find(self, *args)

    Function.entry = entry  # type: ignore[method-assign]
    clock.watch("backend", graphs.__name__, "compile_graph")
    torch.manual_seed(0)
    config = type(kind.SIZES["tiny"])(*NETWORKS[name], vocabulary=VOCABULARY, length=LENGTH)
    network = kind.MODULE(config)
    tokens = torch.zeros(BATCH, LENGTH, dtype=torch.int64)
    compiled = torch.compile(lambda x: kind.loss(network(x), x), backend=compile_graph)
    with clock.phase("Dynamo and steps, forward"):
        loss = compiled(tokens)
    with clock.phase("steps, backward"):
        loss.backward()
    return {phase: round(seconds, 3) for phase, seconds in clock.seconds.items()}


def _without_launches(plan: Any, count: int) -> Callable[..., Any]:
    """The runner of a plan that allocates results and launches nothing."""
    from weft.ops.core.runner import _allocate, result

    return lambda *values: result([_allocate(buffer).zero_() for buffer in plan.outputs])


def measure(name: str) -> dict[str, dict[str, float]]:
    """The phases of a first process, whose caches are empty, and of a second one."""
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        caches = {"WEFT_CACHE_DIR": f"{folder}/weft", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/torch"}
        for which in ("first", "second"):
            command = [sys.executable, __file__, "--process", name]
            done = subprocess.run(
                command, env=os.environ | caches, capture_output=True, text=True, encoding="utf-8"
            )
            if done.returncode:
                sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
            rows[which] = json.loads(done.stdout.splitlines()[-1])
    return rows


def show(name: str, rows: dict[str, dict[str, float]]) -> None:
    """Print a table of the phases."""
    phases = list(dict.fromkeys(p for row in rows.values() for p in row))
    print(f"{name:28}" + "".join(f"{which:>10}" for which in rows))
    for phase in phases:
        print(f"  {phase:26}" + "".join(f"{row.get(phase, 0):10.2f}" for row in rows.values()))
    print(f"  {'sum':26}" + "".join(f"{sum(row.values()):10.2f}" for row in rows.values()))


def main() -> None:
    """Print the phases of each network."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", choices=NETWORKS)
    parser.add_argument("--process", choices=NETWORKS, help="measure in this process")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # users keep bytecode
    if options.process:
        print(json.dumps(one_process(options.process)))
        return
    for name in [options.only] if options.only else NETWORKS:
        rows = measure(name)
        show(name, rows)
        if options.record:
            when = datetime.now(UTC).isoformat(timespec="seconds")
            row = {"when": when, "machine": describe(), "network": name, "seconds": rows}
            with RECORDS.open("a") as file:
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
