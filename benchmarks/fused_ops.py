"""Time fused ops of networks beside their parts, PyTorch and torch.compile, on a GPU.

    PYTHONPATH=src python benchmarks/fused_ops.py [seconds] [--plain] [words of calls ...]

linear_cross_entropy and batch_norm_relu, forward and backward: each contender is captured in a CUDA
graph, and the graphs take turns. Peak memory is that of one eager step beside its inputs. Errors of
gradients are against float64. Candidates of the ops behind batch_norm_relu, and the launches of a
chunk of linear_cross_entropy, are timed by themselves. --plain leaves out torch.compile. A JSON
line for each call goes to $OUT/fused_ops.jsonl.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from graph_times import graph, timed

import weft
from weft.ops.core import library
from weft.ops.core.plan import Plan
from weft.ops.core.runner import runner

START = time.monotonic()
LIMIT = float(sys.argv[1]) if len(sys.argv) > 1 else 90.0
PLAIN = "--plain" in sys.argv
WORDS = [word for word in sys.argv[2:] if word != "--plain"]
OUT = Path(os.environ.get("OUT", "."))
LOSSES = [(8192, 768, 50257), (4096, 2048, 128256)]
CHUNKS = (512, 768, 1024, 2048, 4096)
NORMS = [(64, 112), (256, 56), (512, 28), (1024, 14), (2048, 7)]
BATCH = 64
Step = Callable[[], Sequence[torch.Tensor]]


def left() -> float:
    return LIMIT - (time.monotonic() - START)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    torch._dynamo.reset()
    made: Callable[..., Any] = torch.compile(function)
    return made


def peak(step: Step) -> float:
    """Megabytes of a step beside its inputs."""
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 1e6


def kernels(made: torch.cuda.CUDAGraph) -> dict[str, float]:
    """Microseconds of each kernel of a graph."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as found:
        made.replay()
        torch.cuda.synchronize()
    rows = sorted(found.key_averages(), key=lambda e: -e.self_device_time_total)
    return {f"{e.count} x {e.key[:110]}": round(e.self_device_time_total, 1) for e in rows[:12]}


def compare(name: str, steps: dict[str, Step], want: Sequence[torch.Tensor]) -> dict[str, Any]:
    row: dict[str, Any] = {"call": name, "us": {}, "mb": {}, "error": {}, "failed": {}}
    graphs = {}
    for who, step in steps.items():
        try:
            for _ in range(2):
                got = step()
            row["error"][who] = [
                float((g.double() - w).norm() / w.norm()) for g, w in zip(got, want, strict=True)
            ]
            del got
            row["mb"][who] = round(peak(step), 1)
            graphs[who] = graph(step, 1)
        except RuntimeError as e:
            row["failed"][who] = str(e)[:300]
    timed(graphs, 2, 1)
    row["us"] = timed(graphs, 10, 1)
    if "weft" in graphs:
        row["kernels"] = kernels(graphs["weft"])
    return row


# ---- the loss of a linear layer ----------------------------------------------------------------
def loss_call(rows: int, hidden: int, classes: int) -> dict[str, Any]:
    torch.manual_seed(0)
    bf16 = {"device": "cuda", "dtype": torch.bfloat16}
    x = torch.randn(rows, hidden, **bf16).requires_grad_()
    w = (torch.randn(classes, hidden, **bf16) / hidden**0.5).requires_grad_()
    labels = torch.randint(0, classes, (rows,), device="cuda")

    def step(loss: Callable[..., Any]) -> Step:
        return lambda: torch.autograd.grad(loss(x, w, labels), [x, w])

    def separate(x: Any, w: Any, labels: Any) -> Any:
        return F.cross_entropy(F.linear(x, w), labels)

    def parts(x: Any, w: Any, labels: Any) -> Any:
        return weft.ops.cross_entropy(weft.ops.linear(x, w), labels)

    def fused(chunk: int | None) -> Step:
        return step(lambda *tensors: weft.ops.linear_cross_entropy(*tensors, chunk=chunk))

    wide = [t.detach().double().requires_grad_() for t in (x, w)]
    want = torch.autograd.grad(separate(*wide, labels), wide)
    steps = {"weft": fused(None), **{f"chunk {c}": fused(c) for c in CHUNKS}}
    steps |= {"parts": step(parts), "torch": step(separate)}
    if left() > 25 and not PLAIN:
        steps["compile"] = step(compiled(separate))
    row = compare(f"linear_cross_entropy {rows}x{hidden}x{classes}", steps, want)
    row["candidates"] = _launches(x.detach(), w.detach(), labels)
    return row


def _given(chunk: int | None) -> tuple[Any, ...]:
    """The options of the op that also computes gradients."""
    return None, -100, "mean", 0.0, chunk, True, True, False


def _launches(x: Any, w: Any, labels: Any) -> dict[str, float]:
    """Microseconds of each launch of the second chunk."""
    function = library.function("linear_cross_entropy_with_gradient")
    plan = function.choice(function.request(x, w, labels, *_given(None))).used.build()
    graphs = {}
    for i, step in enumerate(plan.steps[5:9]):
        run = runner(Plan((step,), plan.outputs, plan.scratch), 4, x.device)
        run(x, w, labels, None)
        label = f"{i} {step.kernel.entry[:60]} {step.grid} {step.block}"
        graphs[label] = graph((lambda f: lambda: f(x, w, labels, None))(run), 1)
    timed(graphs, 2, 1)
    return timed(graphs, 10, 1)


def build_losses(rows: int, hidden: int, classes: int) -> None:
    """Compile the kernels of all chunks, at the same time."""
    function = library.function("linear_cross_entropy_with_gradient")
    x, w = (torch.empty(n, hidden, device="cuda", dtype=torch.bfloat16) for n in (rows, classes))
    labels = torch.zeros(rows, device="cuda", dtype=torch.int64)
    with ThreadPoolExecutor(16) as pool:
        for chunk in (None, *CHUNKS):
            request = function.request(x, w, labels, *_given(chunk))
            pool.submit(lambda r: function.choice(r).used.build(), request)


# ---- batch norm --------------------------------------------------------------------------------
def norm_call(channels: int, side: int, residual: bool) -> dict[str, Any]:
    torch.manual_seed(0)
    shape = (BATCH, channels, side, side)

    def made() -> torch.Tensor:
        found = torch.randn(shape, device="cuda", dtype=torch.float16)
        return found.contiguous(memory_format=torch.channels_last)

    x, dy = made().requires_grad_(), made()
    r = made().requires_grad_() if residual else None
    weights = [torch.rand(channels, device="cuda").requires_grad_() for _ in range(2)]
    running = [torch.zeros(channels, device="cuda"), torch.ones(channels, device="cuda")]
    points = [t for t in (x, r, *weights) if t is not None]

    def torch_norm(x: Any, r: Any, w: Any, b: Any, mean: Any, var: Any) -> Any:
        y = F.batch_norm(x, mean, var, w, b, True)
        return F.relu(y if r is None else y + r)

    def parts(x: Any, r: Any, w: Any, b: Any, mean: Any, var: Any) -> Any:
        y = weft.ops.batch_norm(x, mean, var, w, b, True)
        return weft.ops.relu(y if r is None else y + r)

    def fused(x: Any, r: Any, w: Any, b: Any, mean: Any, var: Any) -> Any:
        return weft.ops.batch_norm_relu(x, mean, var, w, b, r, True)

    def step(norm: Callable[..., Any]) -> Step:
        def run() -> Sequence[torch.Tensor]:
            y = norm(x, r, *weights, *running)
            return (y.detach(), *torch.autograd.grad(y, points, dy))

        return run

    wide = [None if t is None else t.detach().double().requires_grad_() for t in (x, r, *weights)]
    y = torch_norm(*wide, None, None)
    given = [t for t in wide if t is not None]
    want = [y.detach(), *torch.autograd.grad(y, given, dy.double())]
    steps = {"weft": step(fused), "parts": step(parts), "torch": step(torch_norm)}
    if left() > 12 and not PLAIN:
        steps["compile"] = step(compiled(torch_norm))
    row = compare(f"batch_norm_relu {channels}@{side}{' residual' * residual}", steps, want)
    row["candidates"] = _candidates(x.detach(), dy, r, [w.detach() for w in weights])
    return row


def _candidates(x: Any, dy: Any, r: Any, weights: Any) -> dict[str, float]:
    """Microseconds of each candidate, forward and backward; a star marks the chosen one."""
    train = library.function("batch_norm_relu_training")
    given = (x, None if r is None else r.detach(), *weights, 1e-5)
    _, mean, var, mask = train.call(*given)
    back = (dy, x, mask, mean, var, *weights, 1e-5, True, r is not None)
    graphs = {}
    for name, args in (("training", given), ("backward", back)):
        function = library.function(f"batch_norm_relu_{name}")
        choice = function.choice(function.request(*args))
        inputs = [
            a for a, s in zip(args, function.arguments, strict=True) if s.name in function.tensors
        ]
        for candidate in (choice.used, *choice.others):
            run = runner(candidate.build(), len(inputs), x.device)
            run(*inputs)
            label = f"{name}, {candidate.name}{'*' * (candidate is choice.used)}"
            label += f" {candidate.cost * 1e6:.1f} modelled"
            graphs[label] = graph((lambda f, i: lambda: f(*i))(run, inputs), 1)
    timed(graphs, 2, 1)
    return timed(graphs, 10, 1)


def main() -> None:
    calls: list[tuple[str, Callable[[], dict[str, Any]]]] = [
        *((f"loss {s}", lambda s=s: loss_call(*s)) for s in LOSSES),
        *(
            (f"norm {c}@{s} {res}", lambda c=c, s=s, r=res: norm_call(c, s, r))
            for res in (True, False)
            for c, s in NORMS
        ),
    ]
    wanted = [(n, c) for n, c in calls if not WORDS or any(w in n for w in WORDS)]
    for shape in LOSSES:
        if any(n == f"loss {shape}" for n, _ in wanted):
            build_losses(*shape)
            torch.cuda.empty_cache()
    print(f"compiled after {time.monotonic() - START:.1f} s", flush=True)
    with (OUT / "fused_ops.jsonl").open("a") as file:
        for name, call in wanted:
            if left() < 3:
                print(f"no time for {name}")
                continue
            row = call()
            row["gpu"], row["torch"] = torch.cuda.get_device_name(), torch.__version__
            print(json.dumps(row), file=file, flush=True)
            print(f"\n{row['call']}  ({time.monotonic() - START:.0f} s)")
            for who, us in row["us"].items():
                errors = " ".join(f"{e:.1e}" for e in row["error"][who])
                print(f"  {who:12} {us:9.1f} us {row['mb'][who]:8.1f} MB  {errors}")
            for what in ("failed", "candidates", "kernels"):
                for who, value in row.get(what, {}).items():
                    print(f"    {what[:4]} {who}: {value}")
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
