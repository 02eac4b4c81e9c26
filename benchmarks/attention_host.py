"""Time eager calls of attention, forward and forward plus backward, beside PyTorch's backends.

    PYTHONPATH=src python benchmarks/attention_host.py [seconds] [words of calls ...]

The calls are short: the host takes longer for them than the GPU. The contenders of a call take
turns in a random order; a turn makes some calls one after another. Shown are the medians of two
times of a call: the host's, until the last call of a turn has returned, and that until the GPU has
ended. `formulas` counts how often a backward pass was made in Python: once, when it is traced. A
JSON line for each call goes to $OUT/attention_host.jsonl.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from attention_call import BACKENDS, Shape
from graph_times import Session
from torch.nn.attention import sdpa_kernel

import weft
from weft.ops.core import library
from weft.ops.core.native import build, record
from weft.ops.core.plan import Plan
from weft.ops.core.runner import runner

SESSION = Session("attention_host", 70.0)
CALLS, ROUNDS = 30, 15
F16 = torch.float16
SHAPES = [
    Shape("clip-text 16x77", 16, 12, 12, 77, 77, 64, True),
    Shape("clip-text 64x77", 64, 12, 12, 77, 77, 64, True),
    Shape("bert-base 64x77", 64, 12, 12, 77, 77, 64, dtype=F16),
    Shape("bert-large 1x77", 1, 16, 16, 77, 77, 64),
    Shape("deit-s 1x197", 1, 6, 6, 197, 197, 64),
    Shape("wav2vec2-base 3x499", 3, 12, 12, 499, 499, 64, dtype=F16),
    Shape("sd3-medium 1x1178", 1, 24, 24, 1178, 1178, 64),
]
FORMULAS: list[Any] = []
Call = Callable[[], Any]


class Contender(NamedTuple):
    """A call, and the backend that PyTorch may take; all of them where it is None."""

    call: Call
    backend: Any

    def turn(self, calls: int = CALLS) -> tuple[float, float]:
        """Microseconds of a call for the host, and until the GPU has ended."""
        allowed = contextlib.nullcontext() if self.backend is None else sdpa_kernel(self.backend)
        with allowed:
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(calls):
                self.call()
            host = time.perf_counter() - start
            torch.cuda.synchronize()
            return host / calls * 1e6, (time.perf_counter() - start) / calls * 1e6


def contenders(s: Shape) -> dict[str, Contender]:
    """Forward, and with the gradients of all operands."""
    leaves = [x.requires_grad_() for x in s.operands()]
    dout = s.drawn(s.heads, s.rows)

    def ours() -> Any:
        return weft.ops.attention(*leaves, is_causal=s.causal)

    def theirs() -> Any:
        return F.scaled_dot_product_attention(*leaves, is_causal=s.causal)

    def both(forward: Call) -> Any:
        return torch.autograd.grad(forward(), leaves, dout)

    made = {}
    for name, backend in {"weft": None, "sdpa": None, **BACKENDS}.items():
        forward = ours if name == "weft" else theirs
        made[name] = Contender(forward, backend)
        made[f"{name} backward"] = Contender(functools.partial(both, forward), backend)
    return made


def measure(s: Shape) -> dict[str, Any]:
    made = contenders(s)
    row: dict[str, Any] = {"shape": s.name, "call": str(s), "host_us": {}, "us": {}, "failed": {}}
    FORMULAS.clear()
    for name, one in list(made.items()):
        try:
            one.turn()
        except RuntimeError as e:
            row["failed"][name] = str(e)[:200]
            del made[name]
    names = list(made)
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for _ in range(ROUNDS):
        random.shuffle(names)
        for name in names:
            times[name].append(made[name].turn())
    for name, taken in times.items():
        host, whole = zip(*taken, strict=True)
        row["host_us"][name], row["us"][name] = statistics.median(host), statistics.median(whole)
    return row | {"formulas": len(FORMULAS)}


def show(row: dict[str, Any]) -> None:
    print(f"== {row['call'][6:-1]}; formulas {row['formulas']}")
    for end in ("", " backward"):
        us = {n: t for n, t in row["us"].items() if n.endswith(" backward") == bool(end)}
        peer = min((t for n, t in us.items() if not n.startswith("weft")), default=float("nan"))
        for name, t in sorted(us.items(), key=lambda x: x[1]):
            host = row["host_us"][name]
            print(f"   {peer / t:6.3f} {t:9.2f} us  host {host:9.2f} us  {name}")
    for name, error in row["failed"].items():
        print("   FAILED", name, error[:120])
    sys.stdout.flush()


def plans(s: Shape) -> Iterator[tuple[Any, int]]:
    """The plans of both passes, and how many tensors they take."""
    (q, k, v), dout = s.operands(), s.drawn(s.heads, s.rows)
    lse = torch.empty(s.batch, s.heads, s.rows, device="cuda")
    forward = (q, k, v, None, 0.0, s.causal, None, False, None)
    tensors = (dout, None, q, k, v, torch.empty_like(q), lse, None, None, None, None)
    backward = (*tensors, 0, 0, s.causal, None, False, 0.0, 0, 0, None)
    for name, args, count in (
        ("attention_lse", forward, 4),
        ("attention_backward", backward, len(tensors)),
    ):
        op = library.function(name)
        yield op.choice(op.request(*args)).used.build(), count


def compile_kernels(shapes: list[Shape]) -> None:
    """Compile the kernels of all calls in parallel: their first calls would do it one by one."""
    device, made = torch.device("cuda", torch.cuda.current_device()), {}
    for plan, count in (each for s in shapes for each in plans(s)):
        for step in plan.steps:
            made[step.kernel] = Plan((step,), plan.outputs, plan.scratch), count
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda given: runner(*given, device, 2), made.values()))


def main() -> None:
    built = build.started()
    chosen = [s for s in SHAPES if SESSION.wants(s.name)]
    compile_kernels(chosen)
    print(f"the kernels are there after {SESSION.spent:.0f} s", flush=True)
    if built.wait() is None:
        print("without the C++ code:", built.failure)
    print(f"the C++ code is there after {SESSION.spent:.0f} s", flush=True)
    formula = record._Formula.__call__

    def counted(*args: Any) -> Any:
        FORMULAS.append(args[0])
        return formula(*args)

    record._Formula.__call__ = counted  # type: ignore[assignment, method-assign]
    torch.manual_seed(0)
    for s in chosen:
        if SESSION.has_time(s.name):
            row = measure(s)
            SESSION.note(row)
            show(row)


if __name__ == "__main__":
    main()
