"""Contenders of calls, timed in CUDA graphs: short_kernels.py and short_calls.py share them."""

from __future__ import annotations

import json
import os
import sys
import time as clock
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from weft.ops.core import library
from weft.ops.core.plan import Plan
from weft.ops.core.runner import runner
from weft.ops.sweep import time as timing

START = clock.monotonic()
BUILD = "--build" in sys.argv
NUMBERS = [float(w) for w in sys.argv[1:] if w.replace(".", "").isdigit()]
LIMIT = NUMBERS[0] if NUMBERS else 80.0
WORDS = [w for w in sys.argv[1:] if not w.startswith("--") and not w.replace(".", "").isdigit()]
OUT = Path(os.environ.get("OUT", "."))
DEVICE = "cpu" if BUILD else "cuda"
PEERS = ("torch", "compile")
BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32


class Contender(NamedTuple):
    """A strategy of a call: its plan, or the call itself."""

    name: str
    plan: Callable[[], Plan] | None = None
    call: Callable[[], Any] | None = None


class Subject(NamedTuple):
    """A call, its tensors, and its contenders."""

    name: str
    tensors: tuple[Any, ...]
    contenders: list[Contender]


def drawn(*shape: int, dtype: torch.dtype = F32) -> torch.Tensor:
    return torch.randn(*shape, device=DEVICE).to(dtype)


def late(plan: Callable[[], Plan]) -> Callable[[], Plan]:
    """The plan with launches that wait for each other's end."""

    def made() -> Plan:
        found = plan()
        return replace(found, steps=tuple(replace(s, early=False) for s in found.steps))

    return made


def chosen(op: str, *args: Any, **options: Any) -> tuple[tuple[Any, ...], Any]:
    """The tensors of a call and the choice of its plan."""
    function = library.function(op)
    values = function.bound(args, options)
    pairs = zip(values, function.arguments, strict=True)
    tensors = tuple(v for v, a in pairs if "Tensor" in str(a.type))
    return tensors, function.choice(function.request(*values))


def run(subject: Subject, runs: list[Any]) -> dict[str, Any]:
    """The times of a subject's contenders, and how far their results are from the first one's."""
    calls = [
        c.call if c.call is not None else (lambda f=f: f(*subject.tensors))
        for c, f in zip(subject.contenders, runs, strict=True)
    ]
    first, apart = None, {}
    for contender, call in zip(subject.contenders, calls, strict=True):
        made = call()
        made = [t.float() for t in (made if isinstance(made, tuple) else (made,))]
        if first is None:
            first = made
        pairs = zip(made, first, strict=True)
        apart[contender.name] = max(
            float((a - b).abs().max() / b.abs().max().clamp(min=1e-9)) for a, b in pairs
        )
    seconds = timing.in_graphs(calls)
    names = [c.name for c in subject.contenders]
    return {
        "call": subject.name,
        "us": {n: round(1e6 * s, 3) for n, s in zip(names, seconds, strict=True)},
        "apart": apart,
    }


def compiled(pool: ThreadPoolExecutor, subject: Subject) -> list[Any]:
    device = subject.tensors[0].device

    def one(plan: Plan | None) -> Any:  # compiles the kernels
        return None if plan is None else runner(plan, len(subject.tensors), device)

    plans = [None if c.plan is None else c.plan() for c in subject.contenders]
    return [pool.submit(one, plan) for plan in plans]


def time_all(subjects: Iterable[Subject], name: str) -> None:
    """Time subjects, or build their plans; a line of each goes to $OUT/`name`."""
    chosen_ones = [s for s in subjects if not WORDS or any(w in s.name for w in WORDS)]
    with ThreadPoolExecutor(1 if BUILD else 15) as pool:
        made = [compiled(pool, s) for s in chosen_ones]
        for subject, futures in zip(chosen_ones, made, strict=True):
            runs = [f.result() for f in futures]
            if BUILD or clock.monotonic() - START > LIMIT:
                print("built" if BUILD else "no time left for", subject.name, len(runs), flush=True)
                continue
            row = run(subject, runs)
            row |= {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
            row["seconds"] = round(clock.monotonic() - START, 1)
            with (OUT / name).open("a") as file:
                file.write(json.dumps(row) + "\n")
            ranked = sorted(row["us"].items(), key=lambda x: x[1])
            keep = [x for x in ranked if x in ranked[:4] or "chosen" in x[0] or "CHOSEN" in x[0]
                    or x[0] in ("rows", "rows, late", "sorted", *PEERS)]  # fmt: skip
            bad = {n: a for n, a in row["apart"].items() if a > 0.02}
            print(
                row["call"], "|", "; ".join(f"{t:.2f} {n}" for n, t in keep), bad or "", flush=True
            )
