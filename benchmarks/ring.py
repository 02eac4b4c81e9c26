"""Time attention on ranks that share one GPU, and check its results.

    PYTHONPATH=src python benchmarks/ring.py [seconds] [--once] [words of calls ...]

"one rank": ring_attention on a group of one process beside weft.ops.attention, in CUDA graphs that
take turns, and the host's microseconds of both. "merge": the launch that merges partial results
beside a copy of as many bytes. "two ranks": two processes on the same GPU over gloo, whose results
and gradients are compared with float64; they are not timed, because they share the GPU and send
through the host. A JSON line for each call goes to $OUT/ring.jsonl; benchmarks/records/ring.jsonl
keeps them.
"""

from __future__ import annotations

import functools
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from attention_call import Shape
from graph_times import Session, race

import weft
from weft.distributed.blocks import LAYOUTS
from weft.ops.core import library

SHAPES = (
    Shape("one rank, 4,096 rows", 4, 16, 16, 4096, 4096, 128, causal=True, order=False),
    Shape("one rank, 16,384 rows", 1, 32, 8, 16384, 16384, 128, causal=True, order=False),
    Shape("one rank, 1,024 rows", 8, 16, 16, 1024, 1024, 64, order=False),
)
MERGED = ((1, 32, 16384, 128), (4, 16, 4096, 128), (8, 16, 1024, 64))
"""[batch, heads, rows, elements] of partial results in bfloat16."""
HOST_CALLS = 200
TWO = Shape("two ranks", 1, 8, 2, 512, 512, 64, order=False)
LIMIT = timedelta(seconds=120)


def difference(found: Any, want: Any) -> float:
    return float((found.double() - want.double()).norm() / want.double().norm())


def host_us(call: Callable[[], Any]) -> float:
    """Microseconds of the host for a call whose kernels are not waited for."""
    for _ in range(20):
        call()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(HOST_CALLS):
        call()
    spent = time.perf_counter() - start
    torch.cuda.synchronize()
    return spent / HOST_CALLS * 1e6


def one_rank(session: Session, shape: Shape) -> None:
    q, k, v = shape.operands()
    shared = shape.heads != shape.shared
    plain = functools.partial(
        weft.ops.attention, q, k, v, is_causal=shape.causal, enable_gqa=shared
    )
    ring = functools.partial(weft.distributed.ring_attention, q, k, v, causal=shape.causal)
    want = plain()
    contenders = {"attention": plain, "ring": ring}
    row = race(contenders, 4, lambda call: difference(call(), want), once=session.once)
    small = [x[:1, :, :16].contiguous() for x in (q, k, v)]
    row["host_us"] = {
        "attention": host_us(lambda: weft.ops.attention(*small, enable_gqa=shared)),
        "ring": host_us(lambda: weft.distributed.ring_attention(*small)),
    }
    session.note({"name": shape.name, "asked": "ring / attention at most 1.02", **row})


def merged(session: Session, shape: tuple[int, ...]) -> None:
    out = torch.randn(shape, device="cuda")
    part = torch.randn(shape, device="cuda").bfloat16()
    lse, more = (torch.randn(shape[:-1], device="cuda") for _ in range(2))
    moved = out.numel() * (4 + 4 + 2) + lse.numel() * 4 * 3
    source, target = (torch.zeros(moved // 8, device="cuda") for _ in range(2))
    total = torch.logaddexp(lse.double(), more.double())
    weights = ((x.double() - total).exp()[..., None] for x in (lse, more))
    want = sum(w * x.double() for w, x in zip(weights, (out, part), strict=True))

    def judge(call: Callable[[], Any]) -> float:
        if call is not merge:
            return 0.0
        mine, sums = out.clone(), lse.clone()
        library.call("attention_merge")(mine, sums, part, more)
        return difference(mine, want)

    def merge() -> Any:
        return library.call("attention_merge")(out, lse, part, more)

    contenders = {"merge": merge, "copy": lambda: target.copy_(source)}
    row = race(contenders, 20, judge, once=session.once)
    name = "merge " + " x ".join(map(str, shape))
    session.note({"name": name, "bytes": moved, "asked": "copy / merge at least 0.9", **row})


def rank_of_two(rank: int, folder: str, causal: bool, layout: str) -> None:
    """One process: its part of the result and of the gradients, saved for the first one."""
    torch.manual_seed(0)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2, timeout=LIMIT
    )
    q, k, v = TWO.operands()
    dout = torch.randn_like(q)
    given = [weft.distributed.shard(x, layout).requires_grad_() for x in (q, k, v)]
    out = weft.distributed.ring_attention(*given, causal=causal, layout=layout)
    made = torch.autograd.grad(out, given, weft.distributed.shard(dout, layout))
    found = [weft.distributed.gather(x.detach(), layout) for x in (out, *made)]
    if rank == 0:
        torch.save(([q, k, v, dout], found), Path(folder) / "found.pt")
    dist.barrier()
    dist.destroy_process_group()


def two_ranks(session: Session, layout: str, causal: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(rank_of_two, (folder, causal, layout), nprocs=2)
        (*given, dout), found = torch.load(Path(folder) / "found.pt")
    exact = [x.double().requires_grad_() for x in given]
    out = torch.nn.functional.scaled_dot_product_attention(
        *exact, is_causal=causal, enable_gqa=True
    )
    want = [out, *torch.autograd.grad(out, exact, dout.double())]
    names = ("out", "dq", "dk", "dv")
    errors = {
        name: difference(a, b.detach()) for name, a, b in zip(names, found, want, strict=True)
    }
    session.note({"name": f"two ranks {layout}", "causal": causal, "error": errors})


def main() -> None:
    session = Session("ring", 300)
    store = dist.HashStore()
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    for shape in SHAPES:
        if session.wants(shape.name) and session.has_time(shape.name):
            one_rank(session, shape)
    for sizes in MERGED:
        if session.wants("merge") and session.has_time("merge"):
            merged(session, sizes)
    dist.destroy_process_group()
    for layout in LAYOUTS:
        for causal in (False, True):
            if session.wants("two ranks") and session.has_time("two ranks"):
                two_ranks(session, layout, causal)


if __name__ == "__main__":
    main()
