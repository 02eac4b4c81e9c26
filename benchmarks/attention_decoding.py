"""Time kernels of attention with one query beside PyTorch's backends, on a GPU of capability 9.0.

    PYTHONPATH=src python benchmarks/attention_decoding.py [seconds] [--once] [words of calls ...]

Contenders are the kernels that the model puts first without rings (`old`), and the best divisions
of each tile of rings. Operands rotate through copies that L2 does not hold together, as in a model.
Every contender of a call is captured in a CUDA graph, and the graphs take turns. Errors are those
of two heads against float64; a contender whose calls differ in a bit fails. A JSON line for each
call goes to $OUT/attention_decoding.jsonl. Kernels are compiled in parallel, in the order of the
calls. --once calls each contender once, for a profiler.
"""

from __future__ import annotations

import itertools
import math
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from attention_call import BACKENDS, Shape
from graph_times import Session, race
from torch.nn.attention import sdpa_kernel

from weft.ops.core import library
from weft.ops.core.choose import Candidate
from weft.ops.core.runner import runner
from weft.ops.families.attention import forward, ring_model
from weft.ops.families.attention.ring_model import RingTile

SESSION = Session("attention_decoding", 50.0)
F16 = torch.float16
OLD, EACH, L2, CALLS = 3, 2, 50 << 20, 20
"""Old kernels; divisions of a tile of each kind; bytes that copies exceed twice; calls of a
graph."""


def shape(name: str, batch: int, heads: int, shared: int, keys: int, head: int) -> Shape:
    return Shape(name, batch, heads, shared, 1, keys, head, dtype=F16)


SHAPES = [
    shape("qwen2.5-0.5b 64x2048", 64, 14, 2, 2048, 64),
    shape("qwen2.5-0.5b 100x1024", 100, 14, 2, 1024, 64),
    shape("qwen2.5-7b 4x2048", 4, 28, 4, 2048, 128),
    shape("llama2-7b 1x2048", 1, 32, 32, 2048, 128),
    shape("qwen2.5-7b 1x8192", 1, 28, 4, 8192, 128),
    shape("mistral-7b 32x512", 32, 32, 8, 512, 128),
    shape("mixtral-8x7b 1x2048", 1, 32, 8, 2048, 128),
    shape("llama3.2-1b 32x512", 32, 32, 8, 512, 64),
    shape("opt-1.3b 1x700", 1, 32, 32, 700, 64),
    shape("gpt2 100x1024", 100, 12, 12, 1024, 64),
]


TILES = (
    RingTile(warps=8, stages=3, nbytes=4096, resident=1),
    RingTile(warps=4, stages=3, nbytes=4096, resident=2),
    RingTile(warps=4, stages=3, nbytes=8192, resident=1),
    RingTile(warps=4, stages=2, nbytes=4096, resident=3),
)
"""Tiles of rings, of which calls take some."""
COMPILED: dict[Any, Future[Any]] = {}
"""Compilations by kernel; several candidates may share one."""


class Prepared(NamedTuple):
    """A call, copies of its operands, its candidates and their plans."""

    shape: Shape
    copies: list[tuple[torch.Tensor, ...]]
    candidates: list[tuple[str, Candidate]]
    plans: list[Any]


def copies(s: Shape) -> list[tuple[torch.Tensor, ...]]:
    """Operands as a cache has them: keys and values [batch, heads, keys, elements]."""
    q = s.drawn(s.heads, s.rows)
    k, v = (x.contiguous() for x in (s.drawn(s.shared, s.keys), s.drawn(s.shared, s.keys)))
    count = min(CALLS, max(2, -(-2 * L2 // int(s.bytes))))
    return [(q, k, v), *((q.clone(), k.clone(), v.clone()) for _ in range(count - 1))]


def kind(candidate: Candidate) -> str:
    """The division of the keys."""
    return next((w for w in ("cluster", "keys in") if w in candidate.name), "")


def candidates(s: Shape, given: tuple[torch.Tensor, ...]) -> Iterator[tuple[str, Candidate]]:
    """Names and candidates."""
    options = (None, 0.0, False, None, s.heads > s.shared)
    request = library.function("attention").request(*given, *options)
    forward.LISTED, ring_model.LEAST, ring_model.TILES = 10**6, 0, ()
    old = forward.candidates(request, False, False)
    for c in old[:OLD]:
        yield "old: " + c.name, c
    first = {kind(c) for c in old[:OLD]}
    for c in [next((c for c in old if kind(c) == w), None) for w in ("", "keys in", "cluster")]:
        if c is not None and kind(c) not in first:
            yield "old: " + c.name, c
    for tile in TILES:
        ring_model.TILES = (tile,)
        seen: list[str] = []
        for c in forward.candidates(request, False, False):
            if "rings" in c.name and seen.count(kind(c)) < EACH:
                seen.append(kind(c))
                yield c.name, c


def prepare(s: Shape, pool: ThreadPoolExecutor) -> Prepared:
    """Begin to compile the kernels of a call."""
    given = copies(s)
    found = list(candidates(s, given[0]))
    plans = [c.build() for _, c in found]
    for plan in plans:
        kernel = plan.steps[-1].kernel
        if kernel not in COMPILED:
            COMPILED[kernel] = pool.submit(runner, plan, 4, given[0][0].device)
    return Prepared(s, given, found, plans)


def contender(call: Callable[..., Any], given: list[Any]) -> Callable[[], Any]:
    turns = itertools.cycle(given)
    return lambda: call(*next(turns))


def by_torch(s: Shape, backend: Any = None) -> Callable[..., Any]:
    def call(*given: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(*given, enable_gqa=s.heads > s.shared)

    def restricted(*given: torch.Tensor) -> torch.Tensor:
        with sdpa_kernel(backend):
            return call(*given)

    return call if backend is None else restricted


def error(s: Shape, given: tuple[torch.Tensor, ...], call: Callable[[], Any]) -> float:
    out, again = call(), call()
    if not torch.equal(out, again):
        raise RuntimeError("two calls differ")
    worst = 0.0
    for b, h in ((0, 0), (s.batch - 1, s.heads - 1)):
        of_keys = h * s.shared // s.heads
        q, k, v = given[0][b, h].double(), *(x[b, of_keys].double() for x in given[1:])
        want = (q @ k.mT / math.sqrt(s.head)).softmax(-1) @ v
        worst = max(worst, float((out[b, h].double() - want).norm() / want.norm()))
    return worst


def run(one: Prepared) -> dict[str, Any]:
    s, given, found, plans = one
    made, failed = {}, {}
    for (name, _), plan in zip(found, plans, strict=True):
        why = COMPILED[plan.steps[-1].kernel].exception()  # waits
        if why:
            failed[name] = str(why)[:200]
            continue
        launch = runner(plan, 4, given[0][0].device)
        made[name] = contender(lambda q, k, v, f=launch: f(q, k, v, None), given)
    for name, backend in {"sdpa": None, **BACKENDS}.items():
        made[name] = contender(by_torch(s, backend), given)
    row = race(made, CALLS, lambda call: error(s, given[0], call), once=SESSION.once)
    row["failed"] |= failed
    modelled = {name: round(1e6 * c.cost, 2) for name, c in found}
    return {"shape": s.name, "call": str(s), "copies": len(given), **row, "modelled": modelled}


def show(row: dict[str, Any]) -> None:
    us = row["us"]
    peer = min((t for n, t in us.items() if n in ("sdpa", *BACKENDS)), default=math.nan)
    print(f"== {row['call'][6:-1]}; {row['copies']} copies")
    for name, t in sorted(us.items(), key=lambda x: x[1]):
        modelled = row["modelled"].get(name, math.nan)
        print(
            f"   {peer / t:6.3f} {t:8.2f} us  model {modelled:6.1f}"
            f"  err {row['error'][name]:.5f}  {name}"
        )
    for name, why in row["failed"].items():
        print("   FAILED", name, why[:120])
    sys.stdout.flush()


def main() -> None:
    torch.manual_seed(0)
    pool = ThreadPoolExecutor(os.cpu_count())
    prepared = [prepare(s, pool) for s in SHAPES if SESSION.wants(s.name)]
    print(f"{len(COMPILED)} kernels, {SESSION.spent:.0f} s", flush=True)
    for one in prepared:
        if SESSION.has_time(one.shape.name):
            row = run(one)
            if not SESSION.once:
                SESSION.note(row)
                show(row)
    pool.shutdown(cancel_futures=True)


if __name__ == "__main__":
    main()
