"""Time kernels of attention with one query and pages, on a GPU of compute capability 9.0.

    PYTHONPATH=src python benchmarks/attention_paged.py [seconds] [--once] [words of calls ...]

Contenders are the kernels that the model puts first without rings (`old`), and the best divisions
of each tile of rings. PyTorch has no attention over pages: `contiguous sdpa` attends to the same
keys without pages. Operands rotate through copies that L2 does not hold together, as in a model.
Every contender of a call is captured in a CUDA graph, and the graphs take turns. Errors are those
of the first and the last text against float64. A JSON line for each call goes to
$OUT/attention_paged.jsonl. --once calls each contender once, for a profiler.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from attention_decoding import CALLS, EACH, L2, OLD, TILES, kind
from graph_times import Session, race

from weft.ops.core import library
from weft.ops.core.choose import Candidate
from weft.ops.core.runner import runner
from weft.ops.families.attention import forward, paged, ring_model

SESSION = Session("attention_paged", 50.0)
INPUTS = 7
RATE = 4.3e6
"""Bytes that the memory gives in a microsecond."""


class Shape(NamedTuple):
    """A call of decoding: pages of `size` keys, tokens of every text, and the room for each."""

    name: str
    batch: int
    heads: int
    shared: int
    tokens: int
    room: int
    size: int
    head: int = 128
    dtype: torch.dtype = torch.bfloat16

    @property
    def most(self) -> int:
        """Pages of a text."""
        return -(-self.room // self.size)

    @property
    def bytes(self) -> int:
        """Bytes of keys and values that the queries see."""
        return 2 * 2 * self.batch * self.shared * self.tokens * self.head


SHAPES = [
    Shape("llama3-8b 16x1500", 16, 32, 8, 1500, 2048, 16),
    Shape("llama3-8b static 16x1500", 16, 32, 8, 1500, 1628, 1628),
    Shape("llama3-8b 4x1500", 4, 32, 8, 1500, 2048, 16),
    Shape("llama3.2-1b 32x1000", 32, 32, 8, 1000, 1024, 32, 64),
]


def operands(s: Shape) -> tuple[torch.Tensor, ...]:
    """Query, pools of keys and values, table and lengths: pages lie in a random order."""
    given = {"device": "cuda", "dtype": s.dtype}
    q = torch.randn(s.batch, s.heads, 1, s.head, **given)
    pools = [torch.randn(s.batch * s.most, s.size, s.shared, s.head, **given) for _ in "kv"]
    table = torch.randperm(s.batch * s.most, device="cuda").view(s.batch, s.most).int()
    return q, *pools, table, torch.full((s.batch,), s.tokens, device="cuda", dtype=torch.int32)


def text(s: Shape, given: tuple[torch.Tensor, ...], number: int) -> list[torch.Tensor]:
    """Keys and values of a text, [heads, keys, elements]."""
    pages = given[3][number].long()
    return [x[pages].flatten(0, 1)[: s.tokens].transpose(0, 1) for x in given[1:3]]


def contiguous(s: Shape, given: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    """Query, and keys and values without pages."""
    texts = [text(s, given, i) for i in range(s.batch)]
    return given[0], *(torch.stack(x) for x in zip(*texts, strict=True))


def candidates(given: tuple[torch.Tensor, ...]) -> Iterator[tuple[str, Candidate]]:
    """Names and candidates."""
    request = library.function("attention_paged").request(*given)
    forward.LISTED, ring_model.LEAST, ring_model.PAGES = 10**6, 0, True
    ring_model.TILES = ()
    for c in paged.candidates(request)[:OLD]:
        yield "old: " + c.name, c
    for tile in TILES:
        ring_model.TILES = (tile,)
        seen: list[str] = []
        for c in paged.candidates(request):
            if "rings" in c.name and seen.count(kind(c)) < EACH:
                seen.append(kind(c))
                yield c.name, c


def contender(call: Callable[..., Any], given: list[Any]) -> Callable[[], Any]:
    turns = itertools.cycle(given)
    return lambda: call(*next(turns))


def run(s: Shape, pool: ThreadPoolExecutor) -> dict[str, Any]:
    first = operands(s)
    count = max(2, -(-2 * L2 // s.bytes))
    copies = [first, *(tuple(x.clone() for x in first) for _ in range(count - 1))]
    found = list(candidates(first))
    plans = [c.build() for _, c in found]
    kernels = {plan.steps[-1].kernel: plan for plan in plans}
    list(pool.map(lambda plan: runner(plan, INPUTS, first[0].device), kernels.values()))
    made = {}
    for (name, _), plan in zip(found, plans, strict=True):
        launch = runner(plan, INPUTS, first[0].device)
        made[name] = contender(lambda *given, f=launch: f(*given, None, None), copies)
    dense = [contiguous(s, x) for x in copies]
    made["contiguous sdpa"] = contender(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True), dense
    )

    def error(call: Callable[[], Any]) -> float:
        out, worst = call(), 0.0
        for b in (0, s.batch - 1):
            k, v = (x.double() for x in text(s, first, b))
            want = F.scaled_dot_product_attention(first[0][b].double(), k, v, enable_gqa=True)
            worst = max(worst, float((out[b].double() - want).norm() / want.norm()))
        return worst

    row = race(made, CALLS, error, once=SESSION.once)
    modelled = {name: round(1e6 * c.cost, 2) for name, c in found}
    memory = {"memory_us": s.bytes / RATE}
    return {"shape": s.name, "call": str(s), **memory, **row, "modelled": modelled}


def show(row: dict[str, Any]) -> None:
    print(f"== {row['call'][6:-1]}: memory {row['memory_us']:.1f} us")
    for name, t in sorted(row["us"].items(), key=lambda x: x[1]):
        modelled = row["modelled"].get(name, float("nan"))
        print(f"   {t:8.2f} us  model {modelled:6.1f}  err {row['error'][name]:.5f}  {name}")
    for name, why in row["failed"].items():
        print("   FAILED", name, why[:120])
    sys.stdout.flush()


def main() -> None:
    torch.manual_seed(0)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for s in SHAPES:
            if SESSION.wants(s.name) and SESSION.has_time(s.name):
                row = run(s, pool)
                if not SESSION.once:
                    SESSION.note(row)
                    show(row)


if __name__ == "__main__":
    main()
