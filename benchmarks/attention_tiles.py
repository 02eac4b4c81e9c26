"""Time the tiles of attention by TMA beside PyTorch's backends, on a GPU of compute capability 9.0.

    PYTHONPATH=src python benchmarks/attention_tiles.py [seconds] [--once] [words of calls ...]

Every contender of a call is captured in a CUDA graph, and the graphs take turns. Errors are those
of two heads against float64. A JSON line for each call goes to $OUT/attention_tiles.jsonl. Kernels
are compiled in parallel, in the order of the calls, and a call is timed when its own are there: a
kernel takes about 10 s. --once calls each contender once, for a profiler.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from attention_call import BACKENDS, Shape
from graph_times import Session, race
from torch.nn.attention import sdpa_kernel

from weft.ops.core import library
from weft.ops.core.runner import runner
from weft.ops.families.attention import forward, tma_model
from weft.ops.families.attention.tma_model import TmaTile

SESSION = Session("attention_tiles", 85.0)


def tile(
    w: int, keys: int, stages: int, slots: int, turns: int = 0, held: int = 0, blocks: int = 1
) -> TmaTile:
    return TmaTile(w, keys, stages, slots, 1.0, bool(turns), bool(held), blocks=blocks)


DIRECT = 8
"""Tiles of few queries that take keys straight to registers, the fastest by the model."""


class Contest(NamedTuple):
    """A call, tiles of the kernel by TMA, and how many of the other kernels are timed.

    names  of tiles of few queries, which are timed too
    """

    shape: Shape
    tiles: list[TmaTile]
    others: int = 0
    names: tuple[str, ...] = ()


F16 = torch.float16
FEW = (
    ", keys in 8", ", 3 stages, keys in 8", ", 4 stages, keys in 8", ", 3 stages, keys in 4",
    ", 4 stages, keys in 4", ", keys in 16", ", 3 stages, keys in 16", ", cluster of 4",
    ", 4 stages, cluster of 8",
)  # fmt: skip
SOME = (
    "", ", 3 stages", ", 4 stages", ", keys in 2", ", 3 stages, keys in 2", ", keys in 4",
    ", cluster of 2", ", 3 stages, cluster of 2", ", cluster of 4",
)  # fmt: skip
MASKED = [tile(3, 128, 2, 2), tile(3, 64, 3, 2)]
GROUPED = [tile(3, 80, 2, 2), tile(2, 128, 2, 1, 0, 1), tile(3, 80, 3, 1), tile(2, 128, 2, 2)]
THREE = [tile(1, 80, 2, 2, blocks=3), tile(1, 64, 3, 2, blocks=3)]
NARROW = [tile(3, 128, 2, 2), tile(2, 128, 3, 2), tile(3, 112, 4, 2), *THREE]
SHORT = [tile(3, 112, 4, 2), tile(2, 112, 4, 2), tile(1, 112, 2, 2, blocks=2), *THREE]
DECODE = [tile(1, 64, 5, 2)]
CROSS = [tile(3, 80, 2, 2), tile(1, 80, 2, 2, blocks=2), tile(1, 80, 1, 2, blocks=3)]
CONTESTS = [
    Contest(Shape("short vit 16x197", 16, 12, 12, 197, 197, 64), SHORT, 2),
    Contest(Shape("short vit 64x197", 64, 12, 12, 197, 197, 64), SHORT, 1),
    Contest(Shape("short deit 16x197", 16, 6, 6, 197, 197, 64), SHORT, 2),
    Contest(Shape("short bert 3x512", 3, 16, 16, 512, 512, 64), NARROW, 2),
    Contest(Shape("short gpt2 8x1024", 8, 12, 12, 1024, 1024, 64, True), NARROW, 1),
    Contest(Shape("short gpt2-large 100x1000", 100, 20, 20, 1000, 1000, 64, True), NARROW, 1),
    Contest(Shape("short t5 cross", 8, 12, 12, 1000, 512, 64), NARROW, 1),
    Contest(Shape("short vit 64x577", 64, 12, 12, 577, 577, 64), NARROW, 1),
    Contest(Shape("short sd 2x4096x77", 2, 8, 8, 4096, 77, 40), CROSS, 1),
    Contest(Shape("short sd 2x1024x77", 2, 8, 8, 1024, 77, 80), CROSS, 1),
    Contest(Shape("t5", 100, 12, 12, 512, 512, 64, dtype=F16, mask="heads"), MASKED),
    Contest(Shape("mask odd", 16, 12, 12, 197, 197, 64, dtype=F16, mask="heads"), MASKED),
    Contest(Shape("bloom", 8, 16, 16, 1000, 1000, 64, mask="heads"), MASKED),
    Contest(Shape("llama 16x512", 16, 32, 8, 512, 512, 128, True), GROUPED),
    Contest(Shape("llama 4x2048", 4, 32, 8, 2048, 2048, 128, True), GROUPED),
    Contest(
        Shape("opt 64x197", 64, 32, 32, 197, 197, 128, True),
        [tile(2, 112, 2, 2), tile(2, 112, 3, 1), tile(2, 80, 3, 1)],
    ),
    Contest(Shape("gpt2", 8, 12, 12, 1024, 1024, 64), NARROW, 1),
    Contest(Shape("gpt2 causal", 8, 12, 12, 1024, 1024, 64, True), NARROW, 1),
    Contest(Shape("llama3.2 8x1000", 8, 32, 8, 1000, 1000, 64, True), NARROW[:2], 1),
    Contest(Shape("long d40", 4, 8, 8, 4096, 4096, 40), [tile(3, 128, 2, 2)], 1),
    Contest(Shape("long d80", 4, 8, 8, 2048, 2048, 80), [tile(2, 128, 2, 2)], 1),
    Contest(Shape("long d32", 4, 16, 16, 2048, 2048, 32), [tile(3, 128, 2, 2)], 1),
    Contest(Shape("long d64", 4, 32, 32, 4096, 4096, 64), NARROW, 1),
    Contest(Shape("sd 2x4096x77", 2, 8, 8, 4096, 77, 40, dtype=F16), CROSS, 1),
    Contest(Shape("sd 2x1024x77", 2, 8, 8, 1024, 77, 80, dtype=F16), CROSS, 1),
    Contest(Shape("sd 2x256x77", 2, 8, 8, 256, 77, 160, dtype=F16), [tile(2, 80, 2, 1)], 1),
    Contest(Shape("sd 4096x77", 16, 8, 8, 4096, 77, 40, dtype=F16), CROSS),
    Contest(Shape("decode mixtral", 1, 32, 8, 1, 2048, 128), [], 0, FEW),
    Contest(Shape("decode mistral", 4, 32, 8, 1, 2048, 128), [], 0, FEW),
    Contest(Shape("decode qwen 16x4096", 16, 14, 2, 1, 4096, 64, dtype=F16), [], 0, FEW),
    Contest(Shape("decode gpt2-large", 1, 20, 20, 1, 1000, 64, dtype=F16), [], 0, FEW),
    Contest(Shape("decode llama2 2x700", 2, 32, 32, 1, 700, 128), [], 0, SOME),
    Contest(Shape("decode gpt2 16x512", 16, 12, 12, 1, 512, 64, dtype=F16), [], 0, SOME),
    Contest(Shape("decode llama3 16x2048", 16, 32, 8, 1, 2048, 128), DECODE, 0, SOME),
    Contest(Shape("decode gemma2 32x2048", 32, 8, 4, 1, 2048, 256), [tile(1, 64, 3, 1)], 0, SOME),
    Contest(Shape("decode 100x4096", 100, 32, 8, 1, 4096, 128), DECODE, 0, SOME),
    Contest(Shape("bert", 32, 16, 16, 512, 512, 64, dtype=F16, mask="keys"), MASKED[:1]),
    Contest(Shape("mask d128", 4, 16, 16, 1024, 1024, 128, mask="heads"), GROUPED[1:2]),
    Contest(Shape("vit", 128, 12, 12, 197, 197, 64), [tile(3, 112, 4, 2)]),
    Contest(Shape("long", 4, 16, 16, 4096, 4096, 128, order=False), GROUPED[1:3]),
    Contest(Shape("long causal", 4, 16, 16, 4096, 4096, 128, True, order=False), GROUPED[1:3]),
]


def tensors(s: Shape) -> tuple[Any, Any, Any, Any]:
    """Query, key, value, and the mask or None."""
    mask = None
    if s.mask == "heads":
        mask = torch.randn(1, s.heads, s.rows, s.keys, device="cuda", dtype=s.dtype)
    elif s.mask == "keys":
        mask = torch.rand(s.batch, 1, 1, s.keys, device="cuda") < 0.9
    return *s.operands(), mask


def by_weft(contest: Contest, given: Any) -> list[tuple[str, Any]]:
    """Names and plans: other kernels', and for each tile the best divisions by the model."""
    s, tiles, others, names = contest
    q, k, v, mask = given
    request = library.function("attention").request(
        q, k, v, mask, 0.0, s.causal, None, s.heads > s.shared
    )
    made: list[tuple[str, Any]] = []
    tma_model.TILES = {}
    forward.LISTED = 10**6
    old = forward.candidates(request, False, False)
    wanted = {f"16 x 64, warps share queries{name}" for name in names}
    made += [("old: " + c.name, c) for c in old[:others]]
    made += [(c.name, c) for c in old[others:] if c.name in wanted]
    made += [(c.name, c) for c in old if names and ", direct" in c.name][:DIRECT]
    for one in tiles:
        head = next(h for h in (32, 48, 64, 80, 96, 128, 192, 256) if h >= s.head)
        if one.shared(head, 1) * one.blocks > tma_model.SHARED:
            continue
        tma_model.TILES = {head: (one,)}
        listed = [c for c in forward.candidates(request, False, False) if "TMA" in c.name]
        seen = []
        for c in listed:
            kind = ("units" in c.name, "keys in" in c.name, "packed" in c.name)
            if seen.count(kind) < (3 if "units" in c.name else 2):
                seen.append(kind)
                word = (
                    f"{c.name} s{one.stages}q{one.slots}" + "t" * one.in_turns + "r" * one.registers
                )
                made.append((word, c))
    return made


def errors(s: Shape, given: Any, out: torch.Tensor) -> float:
    worst = 0.0
    for b, h in ((0, 0), (s.batch - 1, s.heads - 1)):
        q, k, v = (
            x.double()
            for x in (given[0][b, h], *(x[b, h * s.shared // s.heads] for x in given[1:3]))
        )
        scores = q @ k.mT / math.sqrt(s.head)
        if s.causal:
            scores.masked_fill_(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
        if given[3] is not None:
            mask = given[3].expand(s.batch, s.heads, s.rows, s.keys)[b, h]
            scores += mask.double() if mask.dtype is not torch.bool else mask.double().log()
        want = scores.softmax(-1) @ v
        worst = max(worst, float((out[b, h].double() - want).norm() / want.norm()))
    return worst


def eager(call: Callable[[], Any], calls: int = 20) -> float:
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / calls * 1e6


class Prepared(NamedTuple):
    """A call, its tensors, its candidates' names and plans."""

    shape: Shape
    given: Any
    names: list[str]
    plans: list[Any]


def prepare(contest: Contest, pool: ThreadPoolExecutor, compiled: dict[Any, Any]) -> Prepared:
    """Begin to compile the kernels of a call that are not `compiled` yet."""
    given = tensors(contest.shape)
    found = by_weft(contest, given)
    plans = [c.build() for _, c in found]
    for plan in plans:
        kernel = plan.steps[-1].kernel
        if kernel not in compiled:
            compiled[kernel] = pool.submit(runner, plan, 4, given[0].device)
    return Prepared(contest.shape, given, [name for name, _ in found], plans)


def run(one: Prepared, compiled: dict[Any, Any]) -> dict[str, Any]:
    s, given = one.shape, one.given
    failed = {}
    contenders: dict[str, Callable[[], Any]] = {}
    for name, plan in zip(one.names, one.plans, strict=True):
        error = compiled[plan.steps[-1].kernel].exception()  # waits
        if error:
            failed[name] = str(error)[:200]
            continue
        launch = runner(plan, 4, given[0].device)
        contenders[name] = (lambda f: lambda: f(*given))(launch)
    gqa = s.heads > s.shared

    def sdpa() -> Any:
        return F.scaled_dot_product_attention(*given, is_causal=s.causal, enable_gqa=gqa)

    for name, backend in BACKENDS.items():

        def call(backend: Any = backend) -> Any:
            with sdpa_kernel(backend):
                return sdpa()

        contenders[name] = call
    contenders["sdpa"] = sdpa
    floor = max(s.flops / 7e14, s.bytes / 4e12)
    calls = max(1, min(20, int(6e-4 / floor)))
    if SESSION.once:
        race(contenders, calls, lambda call: float(call() is None), once=True)
        return {}
    row = race(contenders, calls, lambda call: errors(s, given, call()), once=False)
    row["failed"] |= failed
    us = row["us"]
    best = min((n for n in us if "TMA" in n), key=us.__getitem__, default=None)
    eagerly = {"eager_sdpa": eager(sdpa)}
    if best:
        eagerly["eager_best"] = eager(contenders[best])
    return {"shape": s.name, "call": str(s), **row, **eagerly}


def show(row: dict[str, Any]) -> None:
    peers = [n for n in row["us"] if n in ("cudnn", "flash", "sdpa")]
    if not peers:
        print(row["shape"], "no peer", row["failed"], flush=True)
        return
    peer = min(peers, key=row["us"].get)
    print(
        f"== {row['call'][6:-1]}: {peer} {row['us'][peer]:.1f} us"
        f" (err {row['error'][peer]:.5f});"
        f" eager {row.get('eager_best', 0):.1f} beside {row['eager_sdpa']:.1f}"
    )
    for n, t in sorted(row["us"].items(), key=lambda x: x[1]):
        print(f"   {row['us'][peer] / t:6.3f} {t:9.2f} us  err {row['error'][n]:.5f}  {n}")
    for n, e in row["failed"].items():
        print("   FAILED", n, e[:120])
    sys.stdout.flush()


def main() -> None:
    chosen = [x for x in CONTESTS if SESSION.wants(x.shape.name)]
    torch.manual_seed(0)
    compiled: dict[Any, Any] = {}
    pool = ThreadPoolExecutor(os.cpu_count())
    prepared = [prepare(x, pool, compiled) for x in chosen]
    print(f"{len(compiled)} kernels, {SESSION.spent:.0f} s", flush=True)
    for one in prepared:
        if not SESSION.has_time(one.shape.name):
            continue
        row = run(one, compiled)
        if not SESSION.once:
            SESSION.note(row)
            show(row)
    pool.shutdown(cancel_futures=True)


if __name__ == "__main__":
    main()
