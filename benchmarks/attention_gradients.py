"""Time the gradients of attention by TMA beside PyTorch's backends, on a GPU of capability 9.0.

    PYTHONPATH=src python benchmarks/attention_gradients.py [seconds] [--once] [words of calls ...]

A first process compares gradients with float64 and runs with one another. A second one captures
every contender of a call in a CUDA graph, and the graphs take turns. A JSON line for each call goes
to $OUT/attention_gradients.jsonl. --once calls each contender once, for a profiler.
"""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from attention_call import BACKENDS, Shape
from graph_times import Session, graph, timed
from torch.nn.attention import sdpa_kernel

from weft import ops
from weft.ops.core import library
from weft.ops.core.runner import runner
from weft.ops.families.attention.backward import plans as backward
from weft.ops.families.attention.backward import tma, tma_model
from weft.ops.families.attention.backward.tma_model import StreamedTile

SESSION = Session("attention_gradients", 80.0)


class Choice(NamedTuple):
    """A tile, and the heads at a time as a multiple of those that the model takes."""

    tile: StreamedTile
    heads: float = 1.0

    @property
    def name(self) -> str:
        t = self.tile
        words = f"TMA {t.queries} q{t.ring}d{t.douts}b{t.blocks}p{t.scores}s{t.sums}"
        return words + (f" heads x {self.heads:g}" if self.heads != 1 else "")


def tile(*numbers: int) -> StreamedTile:
    return StreamedTile(*numbers, reach=1.0)


TWO, NARROW_TWO = tile(64, 3, 2, 1, 1, 2), tile(96, 3, 2, 1, 2, 2)
LONG = [Choice(TWO), Choice(tile(64, 4, 2, 1, 2, 1)), Choice(TWO, 0.5), Choice(TWO, 4)]
NARROW = [
    Choice(NARROW_TWO),
    Choice(tile(96, 3, 2, 1, 1, 3)),
    Choice(tile(96, 3, 2, 2, 1, 2)),
    Choice(NARROW_TWO, 4),
]
SHAPES: list[tuple[Shape, list[Choice]]] = [
    (Shape("long", 4, 16, 16, 4096, 4096, 128, order=False), LONG),
    (Shape("long causal", 4, 16, 16, 4096, 4096, 128, True, order=False), LONG),
    (Shape("llama3-8b", 4, 32, 8, 4096, 4096, 128, True), LONG),
    (Shape("long d64", 4, 32, 32, 4096, 4096, 64), NARROW),
    (Shape("long d64 causal", 4, 32, 32, 4096, 4096, 64, True), NARROW),
    (Shape("vit-b16", 100, 12, 12, 577, 577, 64), NARROW),
    (Shape("sd3 32", 32, 24, 24, 1178, 1178, 64), NARROW),
    (Shape("sd3 3", 3, 24, 24, 1178, 1178, 64), NARROW),
    (Shape("opt-1.3b", 64, 32, 32, 700, 700, 64, True), NARROW),
    (Shape("clip-text", 100, 12, 12, 77, 77, 64, True), NARROW),
    (Shape("gpt2-large", 100, 20, 20, 77, 77, 64, True), NARROW),
    (Shape("few", 1, 16, 16, 1024, 1024, 64), NARROW[:1]),
    (Shape("few d128", 1, 8, 8, 2048, 2048, 128, True), LONG[:1]),
    (Shape("d96", 4, 16, 16, 2048, 2048, 96), LONG[:1]),
    (Shape("d80", 4, 16, 16, 2048, 2048, 80), LONG[:1]),
    (Shape("cross", 16, 16, 16, 2048, 77, 64), NARROW[:1]),
]
CHECKED: list[tuple[Shape, list[Choice]]] = [
    (Shape("d128 causal", 2, 4, 2, 1000, 1000, 128, True), LONG[:2]),
    (Shape("d64", 2, 4, 4, 1000, 1100, 64), NARROW[:3]),
    (Shape("d64 short", 40, 8, 8, 77, 77, 64, True), NARROW[:3]),
]


def by_weft(s: Shape, given: Any, choices: list[Choice]) -> list[tuple[str, Any]]:
    """Names and plans: the old kernels', and those of each tile."""
    request = library.function("attention_backward").request(
        *given, 0, 0, s.causal, None, s.heads > s.shared, 0.0, 0, 0
    )
    tma_model.TILES = {}
    old = next(c for c in backward.candidates(request) if "warpgroups" in c.name)
    made = [("old: " + old.name, old.build())]
    at_once = tma.heads_at_once
    for choice in choices:
        tma_model.TILES = {s.head: (choice.tile,)}
        tma.heads_at_once = lambda *a, n=choice.heads: max(1, int(at_once(*a) * n))
        one = next(c for c in backward.candidates(request) if "TMA" in c.name)
        made.append((choice.name, one.build()))
    tma.heads_at_once = at_once
    return made


def contenders(s: Shape, choices: list[Choice], pool: ThreadPoolExecutor, stream: Any) -> Any:
    """Calls by name; their operands; why others failed."""
    torch.manual_seed(0)
    dout, (q, k, v) = s.drawn(s.heads, s.rows), s.operands()
    made: dict[str, Callable[[], Any]] = {}
    failed: dict[str, str] = {}
    gqa = s.heads > s.shared
    out, lse = ops.attention_lse(q, k, v, is_causal=s.causal, enable_gqa=gqa)
    given = (dout, None, q, k, v, out, lse, None, None, None, None)
    plans = by_weft(s, given, choices)

    def built(plan: Any) -> Any:
        return runner(plan, len(given), q.device, 2)

    for (name, _), one in zip(plans, pool.map(built, [p for _, p in plans]), strict=True):
        made[name] = lambda f=one: f(*given, 0, 0)
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    with torch.cuda.stream(stream):
        for name, backend in BACKENDS.items():
            try:
                with sdpa_kernel(backend):
                    result = F.scaled_dot_product_attention(
                        *leaves, is_causal=s.causal, enable_gqa=gqa
                    )
                made[name] = lambda r=result: torch.autograd.grad(
                    r, leaves, dout, retain_graph=True
                )
            except RuntimeError as e:
                failed[name] = str(e)[:200]
    torch.cuda.synchronize()
    return made, (dout, q, k, v), failed


def exact(s: Shape, given: Any) -> list[torch.Tensor]:
    dout, *leaves = (x.double() for x in given)
    leaves = [x.requires_grad_() for x in leaves]
    q, k, v = (x.repeat_interleave(s.heads // x.shape[1], 1) for x in leaves)
    scores = q @ k.mT / math.sqrt(s.head)
    if s.causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device="cuda").triu(1)
        scores = scores.masked_fill(hidden, -torch.inf)
    return list(torch.autograd.grad(scores.softmax(-1) @ v, leaves, dout))


def check(pool: ThreadPoolExecutor, stream: Any) -> list[dict[str, Any]]:
    rows = []
    for s, choices in CHECKED:
        made, given, failed = contenders(s, choices, pool, stream)
        want = exact(s, given)
        row: dict[str, Any] = {"checked": s.name, "error": {}, "same": {}, "failed": failed}
        for name, call in made.items():
            with torch.cuda.stream(stream):
                got = [x.clone() for x in call()]
                runs = [[x.clone() for x in call()] for _ in range(5)]
            torch.cuda.synchronize()
            row["error"][name] = [
                round(float((a.double() - b).norm() / b.norm()), 6)
                for a, b in zip(got, want, strict=True)
            ]
            row["same"][name] = all(
                torch.equal(a, b) for r in runs for a, b in zip(got, r, strict=True)
            )
        rows.append(row)
        print(f"== {s.name}: errors of dq, dk, dv; runs have the same bits", *failed.items())
        for name, error in row["error"].items():
            print("  ", error, row["same"][name], name, flush=True)
    return rows


def measure(s: Shape, choices: list[Choice], pool: Any, stream: Any) -> dict[str, Any]:
    made, _, failed = contenders(s, choices, pool, stream)
    row: dict[str, Any] = {"shape": s.name, "call": str(s), "us": {}, "failed": failed}
    graphs, flops = {}, 2.5 * s.flops
    calls = max(1, min(20, int(1e-3 / (flops / 5e14))))
    for name, call in made.items():
        try:
            with torch.cuda.stream(stream):
                call()
            torch.cuda.synchronize()
            if not SESSION.once:
                graphs[name] = graph(call, calls, stream)
        except RuntimeError as e:
            row["failed"][name] = str(e)[:200]
    if SESSION.once:
        return row
    timed(graphs, 2, calls)
    row["us"] = timed(graphs, 12, calls)
    peers = {n: t for n, t in row["us"].items() if n in BACKENDS}
    peer = min(peers, key=lambda n: peers[n])
    print(f"== {s.name}: {peer} {peers[peer]:.1f} us, {flops / peers[peer] / 1e6:.0f} TFLOP/s")
    for n, t in sorted(row["us"].items(), key=lambda x: x[1]):
        print(f"   {peers[peer] / t:6.3f} {t:9.2f} us  {n}")
    for n, e in row["failed"].items():
        print("   FAILED", n, e[:120])
    sys.stdout.flush()
    return row


def work(part: str) -> None:
    stream = torch.cuda.Stream()
    with ThreadPoolExecutor(14) as pool:
        if part == "check":
            for row in check(pool, stream):
                SESSION.note(row)
            return
        for s, choices in SHAPES:
            if (SESSION.only and s.name not in SESSION.only) or not SESSION.has_time(s.name):
                continue
            row = measure(s, choices[:1] if SESSION.once else choices, pool, stream)
            if not SESSION.once:
                SESSION.note(row)


def main() -> None:
    for part in ("check", "time"):
        if f"--{part}" in sys.argv or (part == "time" and SESSION.once):
            work(part)
            return
    for part in ("check", "time"):
        left = SESSION.limit + 20 - SESSION.spent
        command = [sys.executable, __file__, f"{left - 15:.0f}", *SESSION.only, f"--{part}"]
        try:
            done = subprocess.run(command, timeout=left, check=False)
        except subprocess.TimeoutExpired:
            print(f"{part}: no end after {left:.0f} s")
            return
        if done.returncode:
            print(f"{part}: exit status {done.returncode}")
            return


if __name__ == "__main__":
    main()
