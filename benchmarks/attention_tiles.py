"""Time the tiles of attention by TMA beside PyTorch's backends, on a GPU of compute capability 9.0.

    PYTHONPATH=src python benchmarks/attention_tiles.py [seconds] [--once] [words of calls ...]

Every contender of a call is captured in a CUDA graph, and the graphs take turns. Errors are those
of two heads against float64. A JSON line for each call goes to $OUT/attention_tiles.jsonl. Kernels
are compiled in parallel, in the order of the calls, and a call is timed when its own are there: a
kernel takes about 10 s. --once calls each contender once, for a profiler.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from graph_times import graph, timed
from torch.nn.attention import SDPBackend, sdpa_kernel

from weft.ops.core import library
from weft.ops.core.runner import runner
from weft.ops.families.attention import forward, tma_model
from weft.ops.families.attention.tma_model import TmaTile

START = time.monotonic()
LIMIT = float(sys.argv[1]) if len(sys.argv) > 1 else 85.0
ONCE = "--once" in sys.argv
OUT = Path(os.environ.get("OUT", "."))
BACKENDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}


class Shape(NamedTuple):
    """A call: [batch, rows, heads, elements] as models have it if `order`.

    mask  "heads": an added one of each head; "keys": a boolean one of each batch, without rows
    """

    name: str
    batch: int
    heads: int
    shared: int
    rows: int
    keys: int
    head: int
    causal: bool = False
    order: bool = True
    dtype: torch.dtype = torch.bfloat16
    mask: str = ""

    @property
    def flops(self) -> float:
        return 4.0 * self.batch * self.heads * self.rows * self.keys * self.head / (1 + self.causal)

    @property
    def bytes(self) -> float:
        rows = self.heads * self.rows + self.shared * self.keys
        return 2 * 2.0 * self.batch * rows * self.head


def tile(w: int, keys: int, stages: int, slots: int, turns: int = 0, held: int = 0) -> TmaTile:
    return TmaTile(w, keys, stages, slots, 1.0, bool(turns), bool(held))


class Contest(NamedTuple):
    """A call, tiles of the kernel by TMA, and how many of the other kernels are timed."""

    shape: Shape
    tiles: list[TmaTile]
    others: int = 0


F16 = torch.float16
MASKED = [tile(3, 128, 2, 2), tile(3, 64, 3, 2)]
GROUPED = [tile(3, 80, 2, 2), tile(2, 128, 2, 1, 0, 1), tile(3, 80, 3, 1), tile(2, 128, 2, 2)]
NARROW = [tile(3, 128, 2, 2), tile(3, 128, 2, 2, 1)]
DECODE = [tile(1, 64, 5, 2)]
CROSS = [tile(3, 80, 2, 2), tile(1, 80, 2, 2)]
CONTESTS = [
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
    Contest(Shape("long d64", 4, 32, 32, 4096, 4096, 64), NARROW, 1),
    Contest(Shape("sd 2x4096x77", 2, 8, 8, 4096, 77, 40, dtype=F16), CROSS, 1),
    Contest(Shape("sd 2x1024x77", 2, 8, 8, 1024, 77, 80, dtype=F16), CROSS, 1),
    Contest(Shape("sd 2x256x77", 2, 8, 8, 256, 77, 160, dtype=F16), [tile(2, 80, 2, 1)], 1),
    Contest(Shape("sd 4096x77", 16, 8, 8, 4096, 77, 40, dtype=F16), CROSS),
    Contest(Shape("decode gpt2-large", 1, 20, 20, 1, 1000, 64, dtype=F16), [], 3),
    Contest(Shape("decode gpt2 16x512", 16, 12, 12, 1, 512, 64, dtype=F16), [], 3),
    Contest(Shape("decode qwen 16x4096", 16, 14, 2, 1, 4096, 64, dtype=F16), DECODE, 3),
    Contest(Shape("decode 16x2048", 16, 32, 8, 1, 2048, 128), DECODE, 3),
    Contest(Shape("decode 100x4096", 100, 32, 8, 1, 4096, 128), DECODE, 1),
    Contest(Shape("decode llama2 2x700", 2, 32, 32, 1, 700, 128), [], 3),
    Contest(Shape("bert", 32, 16, 16, 512, 512, 64, dtype=F16, mask="keys"), MASKED[:1]),
    Contest(Shape("mask d128", 4, 16, 16, 1024, 1024, 128, mask="heads"), GROUPED[1:2]),
    Contest(Shape("vit", 128, 12, 12, 197, 197, 64), [tile(3, 112, 4, 2)]),
    Contest(Shape("long", 4, 16, 16, 4096, 4096, 128, order=False), GROUPED),
    Contest(Shape("long causal", 4, 16, 16, 4096, 4096, 128, True, order=False), GROUPED),
]


def tensors(s: Shape) -> tuple[Any, Any, Any, Any]:
    """Query, key, value, and the mask or None."""

    def one(heads: int, rows: int) -> torch.Tensor:
        if s.order:
            x = torch.randn(s.batch, rows, heads, s.head, device="cuda", dtype=s.dtype)
            return x.transpose(1, 2)
        return torch.randn(s.batch, heads, rows, s.head, device="cuda", dtype=s.dtype)

    mask = None
    if s.mask == "heads":
        mask = torch.randn(1, s.heads, s.rows, s.keys, device="cuda", dtype=s.dtype)
    elif s.mask == "keys":
        mask = torch.rand(s.batch, 1, 1, s.keys, device="cuda") < 0.9
    return one(s.heads, s.rows), one(s.shared, s.keys), one(s.shared, s.keys), mask


class Contender(NamedTuple):
    name: str
    call: Callable[[], Any]


def by_weft(contest: Contest, given: Any) -> list[tuple[str, Any]]:
    """Names and plans: other kernels', and for each tile the best divisions by the model."""
    s, tiles, others = contest
    q, k, v, mask = given
    request = library.function("attention").request(
        q, k, v, mask, 0.0, s.causal, None, s.heads > s.shared
    )
    made: list[tuple[str, Any]] = []
    tma_model.TILES = {}
    forward.LISTED = 10**6
    made += [("old: " + c.name, c) for c in forward.candidates(request, False, False)[:others]]
    for one in tiles:
        head = next(h for h in (32, 48, 64, 80, 96, 128, 192, 256) if h >= s.head)
        if one.shared(head, 1) > tma_model.SHARED:
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
    row: dict[str, Any] = {"shape": s.name, "call": str(s), "us": {}, "error": {}, "failed": {}}
    contenders = []
    for name, plan in zip(one.names, one.plans, strict=True):
        error = compiled[plan.steps[-1].kernel].exception()  # waits
        if error:
            row["failed"][name] = str(error)[:200]
            continue
        launch = runner(plan, 4, given[0].device)
        contenders.append(Contender(name, (lambda f: lambda: f(*given))(launch)))
    gqa = s.heads > s.shared
    for name, backend in BACKENDS.items():

        def call(backend: Any = backend) -> Any:
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(*given, is_causal=s.causal, enable_gqa=gqa)

        contenders.append(Contender(name, call))
    contenders.append(
        Contender(
            "sdpa",
            lambda: F.scaled_dot_product_attention(*given, is_causal=s.causal, enable_gqa=gqa),
        )
    )
    graphs = {}
    floor = max(s.flops / 7e14, s.bytes / 4e12)
    calls = max(1, min(20, int(6e-4 / floor)))
    for c in contenders:
        try:
            out = c.call()
            if ONCE:
                continue
            torch.cuda.synchronize()
            row["error"][c.name] = errors(s, given, out)
            graphs[c.name] = graph(c.call, calls)
        except RuntimeError as e:
            row["failed"][c.name] = str(e)[:200]
    if ONCE:
        torch.cuda.synchronize()
        return row
    timed(graphs, 2, calls)
    row["us"] = timed(graphs, 12, calls)
    row["eager_sdpa"] = eager(contenders[-1].call)
    best = min((n for n in row["us"] if "TMA" in n), key=row["us"].get, default=None)
    if best:
        row["eager_best"] = eager(next(c.call for c in contenders if c.name == best))
    return row


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
    only = [w for w in sys.argv[2:] if not w.startswith("--")]
    chosen = [x for x in CONTESTS if not only or any(w in x.shape.name for w in only)]
    torch.manual_seed(0)
    compiled: dict[Any, Any] = {}
    pool = ThreadPoolExecutor(os.cpu_count())
    with (OUT / "attention_tiles.jsonl").open("a") as file:
        prepared = [prepare(x, pool, compiled) for x in chosen]
        print(f"{len(compiled)} kernels, {time.monotonic() - START:.0f} s", flush=True)
        for one in prepared:
            if time.monotonic() - START > LIMIT:
                print("no time left for", one.shape.name, flush=True)
                continue
            row = run(one, compiled)
            if ONCE:
                continue
            row["gpu"] = torch.cuda.get_device_name()
            row["seconds"] = time.monotonic() - START
            file.write(json.dumps(row) + "\n")
            file.flush()
            show(row)
    pool.shutdown(cancel_futures=True)


if __name__ == "__main__":
    main()
