"""Compares training steps with and without `weft.graph`: loss curves, and milliseconds of a step.

    python benchmarks/step_graph.py               # needs a GPU; rows go to $OUT/step_graph.jsonl
    python benchmarks/step_graph.py --device cpu  # two steps on the simulated GPU: a check

Each recipe runs STEPS steps without a graph and STEPS with one, from the same parameters and on the
same batches of two sizes. The curves and the parameters must be equal bit by bit where every kernel
is deterministic. Times are by the host's clock, with the GPU idle at both ends.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from autocast_host import residual, transformer
from torch.nn import functional

import weft
from weft import nn
from weft.ops.core.native import build

STEPS, TIMED = 50, 20
ROWS = [
    ("transformer", "autocast"), ("residual", "autocast"), ("transformer", "plain"),
    ("residual", "plain"), ("transformer", "float16, scaled"), ("transformer", "torch.optim"),
    ("residual", "bfloat16"),
]  # fmt: skip
"""Networks and ways, the most important first."""
Step = Callable[[Any, Any], Any]


class Recipe:
    """A network, its optimiser and a step."""

    def __init__(self, network: str, device: str, way: str) -> None:
        torch.manual_seed(0)
        body = transformer() if network == "transformer" else residual()
        last = 128 if network == "transformer" else 64
        self.shape = (32, 128) if network == "transformer" else (64, 16, 16)
        self.model = nn.convert(torch.nn.Sequential(body, Mean(), torch.nn.Linear(last, 10)))
        for module in self.model.modules():
            if hasattr(module, "attend"):
                module.attend = weft.ops.attention
        self.model.to(device, torch.bfloat16 if way == "bfloat16" else torch.float32)
        self.rate = torch.tensor(1e-3, device=device)
        self.scaler = torch.amp.GradScaler(device, enabled=way == "float16, scaled")
        self.cast = {"autocast": torch.bfloat16, "float16, scaled": torch.float16}.get(way)
        self.device, self.dtype = device, torch.bfloat16 if way == "bfloat16" else torch.float32
        make = weft.optim.AdamW
        options: dict[str, Any] = {"max_grad_norm": 1.0}
        if way == "torch.optim":
            make, options = torch.optim.AdamW, {"capturable": True}
        self.optimiser = make(self.model.parameters(), lr=self.rate, **options)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimiser, STEPS)

    def step(self, x: Any, y: Any) -> Any:
        self.optimiser.zero_grad()
        with torch.autocast(self.device, dtype=self.cast, enabled=self.cast is not None):
            loss = functional.cross_entropy(self.model(x).float(), y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimiser)
        self.scaler.update()
        return loss.detach()

    def batches(self, count: int) -> list[Any]:
        generator = torch.Generator().manual_seed(1)
        made = []
        for i in range(count):
            rows = 4 if i % 10 == 9 else 8
            x = torch.rand(rows, *self.shape, generator=generator).to(self.device, self.dtype)
            made.append((x, torch.randint(0, 10, (rows,), generator=generator).to(self.device)))
        return made


class Mean(torch.nn.Module):  # type: ignore[misc]
    """The mean of tokens, or of the elements of an image."""

    def forward(self, x: Any) -> Any:
        return x.mean(1) if x.dim() == 3 else x.flatten(2).mean(2)


def run(recipe: Recipe, step: Step, steps: int, timed: int) -> dict[str, Any]:
    losses = []
    for x, y in recipe.batches(steps):
        losses.append(step(x, y))
        recipe.schedule.step()
    ends = [p.detach().clone() for p in recipe.model.parameters()]
    x, y = recipe.batches(1)[0]
    times = []
    for _ in range(timed):
        torch.cuda.synchronize()
        start = time.perf_counter()
        step(x, y)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    host = 0.0
    if timed:
        start = time.perf_counter()
        for _ in range(timed):
            step(x, y)
        host = (time.perf_counter() - start) / timed
        torch.cuda.synchronize()
    median = sorted(times)[len(times) // 2] if times else 0.0
    return {"losses": torch.stack(losses).tolist(), "ends": ends, "ms": 1e3 * median,
            "loop_ms": 1e3 * host}  # fmt: skip


def compared(network: str, device: str, way: str, steps: int, timed: int) -> dict[str, Any]:
    plain, graphed = Recipe(network, device, way), Recipe(network, device, way)
    step = weft.graph(graphed.step)
    a = run(plain, plain.step, steps, timed)
    b = run(graphed, step, steps, timed)
    pairs = list(zip(a["losses"], b["losses"], strict=True))
    same = all(torch.equal(p, q) for p, q in zip(a.pop("ends"), b.pop("ends"), strict=True))
    return {
        "network": network, "way": way, "captures": step.captures,
        "losses equal": a["losses"] == b["losses"],
        "parameters equal": same, "largest difference": max(abs(p - q) for p, q in pairs),
        "first, last": [a["losses"][0], a["losses"][-1]], "plain": a, "graph": b,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--once", nargs=2, help="a network and a way: compile their kernels alone")
    parser.add_argument("--seconds", type=float, default=600, help="begin no row after these")
    given, first = parser.parse_args(), time.perf_counter()
    on_gpu = given.device == "cuda"
    steps, timed = (STEPS, TIMED) if on_gpu else (2, 0)
    if given.once:
        recipe = Recipe(given.once[0], given.device, given.once[1])
        run(recipe, recipe.step, 10, 0)
        return
    if on_gpu:
        begin, command = time.perf_counter(), [sys.executable, __file__, "--once"]
        started = [subprocess.Popen([*command, *pair]) for pair in ROWS if pair[1] != "torch.optim"]
        print("compiled:", [p.wait(150) for p in started], f"{time.perf_counter() - begin:.0f} s")
        build.started().wait()
    rows = []
    for network, way in ROWS:
        if way == "torch.optim" and not on_gpu:
            continue
        if time.perf_counter() - first > given.seconds:
            print(f"{network:12}{way:16} left out: {given.seconds:.0f} s are over")
            continue
        begin = time.perf_counter()
        row = compared(network, given.device, way, steps, timed)
        rows.append(row)
        print(
            f"{network:12}{way:16} equal {row['losses equal']!s:6}"
            f" {row['parameters equal']!s:6}"
            f" max {row['largest difference']:.1e}  loss {row['first, last'][0]:.3f} ->"
            f" {row['first, last'][1]:.3f}  graphs {row['captures']}  ms"
            f" {row['plain']['ms']:.3f} -> {row['graph']['ms']:.3f}, in a row"
            f" {row['plain']['loop_ms']:.3f} -> {row['graph']['loop_ms']:.3f}"
            f"  ({time.perf_counter() - begin:.0f} s)",
            flush=True,
        )
    if os.environ.get("OUT"):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (Path(os.environ["OUT"]) / "step_graph.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
