"""Makes random calls of `weft.ops` that reach as many kernels as possible, for a tool to look at.

    ops_calls.py select --shard 0/4 --turns 20 --out calls.json     chooses calls and kernels
    ops_calls.py make calls.json --shard 0/4 --seconds 60 --out made.json

Selecting compiles and launches nothing. Inputs are drawn on the host and copied, so that a tool
sees few kernels but weft's.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from more_calls import MORE
from steering import Steering, kernel_of

from weft.ops.core import function, source, target
from weft.ops.core.plan import Plan
from weft.ops.core.runner import Run, runner
from weft.ops.sweep import run
from weft.ops.sweep.case import Case, arguments
from weft.ops.sweep.cases import CASES

PASSES = 30
"""The most times that one call is made in a selection, each with other kernels."""
MOST = (2_000, 20_000, 100_000)
"""Elements of a tensor at the most, in turn."""
FATAL = ("CUDA error", "cudaError", "CUDA_ERROR")
"""After an error with one of these words, no call of the process can succeed."""


# ---- calls -------------------------------------------------------------------------------------
def all_cases() -> list[Case]:
    """The cases of the sweep, forward and backward."""
    both = [c for c in CASES if not c.backward] + [
        c.with_backward() for c in CASES if not c.backward
    ]
    return [c for c in both if not (c.backward and c.judge)]


def make(item: dict[str, Any], device: str) -> None:
    """Make the call that an item stands for."""
    if item["case"] in MORE:
        MORE[item["case"]](device)
        return
    case = next(c for c in all_cases() if c.name == item["case"])
    (call,) = run.calls(case, item["seed"], 1, item["most"])
    generator = torch.Generator().manual_seed(item["seed"])
    given = arguments(case, call, device, generator)
    if given.gradients == ():  # indices have none
        given = dataclasses.replace(given, gradients=None)
    given.of(case.call)


def _items(
    shard: int, shards: int, seed: int, turns: int, only: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Calls of the ops of a shard, which knows what is left to be used of them."""
    cases = [c for c in all_cases() if not only or c.name in only]
    ops = sorted({c.op for c in cases})
    for number, name in enumerate(MORE):
        if number % shards == shard and (not only or name in only):
            yield {"case": name}
    for turn in range(turns):
        for case in cases:
            if ops.index(case.op) % shards == shard:
                yield {"case": case.name, "seed": seed + turn, "most": MOST[turn % len(MOST)]}


# ---- selecting ---------------------------------------------------------------------------------
def select(items: Iterable[dict[str, Any]], each: int, end: float) -> dict[str, Any]:
    """The calls that reach kernels, up to `each` instances of one, and the kernels of each call."""
    steering, kept = Steering(), list[dict[str, Any]]()
    seen: set[tuple[str, str]] = set()
    count: Counter[str] = Counter()
    refused: dict[str, str] = {}
    with steering.active():
        for item in items:
            if time.monotonic() > end:
                break
            for _ in range(PASSES):
                steering.forget()
                try:
                    make(item, "cpu")
                except Exception as error:  # torch has no gradient, or refuses the call
                    refused.setdefault(item["case"], str(error).partition("\n")[0][:200])
                    break
                new = {k for k in steering.kernels - seen if count[kernel_of(*k)] < each}
                if new:
                    seen |= new
                    first = sum(not count[kernel_of(*k)] for k in new)
                    count.update(kernel_of(*k) for k in new)
                    kernels = sorted(steering.kernels)
                    kept.append(
                        {**item, "chosen": steering.chosen, "kernels": kernels, "first": first}
                    )
                if not steering.fresh:
                    break
    return {"calls": kept, "refused": refused}


def _without_launches(plan: Plan, count: int, device: torch.device, words: int = 0) -> Run:
    return runner(Plan((), plan.outputs), count, device, words)


def _as_on_a_gpu(device: torch.device) -> target.Target:
    """The GPU that there is, or the simulated one with the kernels that only a real one has."""
    if torch.cuda.is_available():
        return target.named("gpu")
    return dataclasses.replace(target.target(device), real=True)


# ---- making ------------------------------------------------------------------------------------
def made(calls: Sequence[dict[str, Any]], device: str, end: float) -> Iterator[dict[str, Any]]:
    """Make calls until a time; after each, yield the launched kernels and the failures."""
    steering, failed = Steering(), dict[str, str]()
    done, strayed = 0, 0
    reached: set[tuple[str, str]] = set()
    with steering.active():
        for item in calls:
            if time.monotonic() > end:
                return
            steering.forget(item["chosen"])
            try:
                make(item, device)
                if device == "cuda":
                    torch.cuda.synchronize()
            except Exception as error:  # the other calls are made all the same
                name = " ".join(str(item[k]) for k in ("case", "seed", "most") if k in item)
                failed[name] = f"{type(error).__name__}: {error}"[:500]
            else:
                done += 1
                strayed += steering.kernels != {(file, name) for file, name in item["kernels"]}
                reached |= steering.kernels
            yield {
                "calls": done, "left": len(calls) - done - len(failed), "strayed": strayed,
                "kernels": sorted(reached), "failed": failed,
            }  # fmt: skip
            if any(word in reason for reason in failed.values() for word in FATAL):
                return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("select", "make"))
    parser.add_argument("calls", nargs="?", type=Path, help="the calls to make")
    parser.add_argument("--shard", default="0/1", help="this process's number / the number of all")
    parser.add_argument("--device", default="cuda", help="cpu: the simulated GPU")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--turns", type=int, default=20, help="calls of each case")
    parser.add_argument("--each", type=int, default=3, help="instances of a kernel")
    parser.add_argument("--ops", default="", help="names of cases, by commas; by default all")
    parser.add_argument("--seconds", type=float, default=60, help="after which no call is made")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    shard, shards = map(int, given.shard.split("/"))
    end = time.monotonic() + given.seconds
    if given.what == "make":
        calls = json.loads(given.calls.read_text(encoding="utf-8"))[shard::shards]
        for answer in made(calls, given.device, end):
            _write(given.out, answer)  # each time: the process may be ended
    else:
        with ExitStack() as stack:
            for home, name, other in (
                (function, "runner", _without_launches),
                (function, "target", _as_on_a_gpu),
                (source, "kernel", mock.MagicMock()),
            ):
                stack.enter_context(mock.patch.object(home, name, other))
            only = [name for name in given.ops.split(",") if name]
            items = _items(shard, shards, given.seed, given.turns, only)
            _write(given.out, select(items, given.each, end))


def _write(path: Path, answer: dict[str, Any]) -> None:
    part = path.with_suffix(".part")
    part.write_text(json.dumps(answer), encoding="utf-8")
    part.replace(path)


if __name__ == "__main__":
    main()
