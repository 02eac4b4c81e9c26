"""Time short calls of models in CUDA graphs: candidates beside PyTorch and torch.compile.

    PYTHONPATH=src python benchmarks/short_calls.py [seconds] [words of calls ...] [--compile]

Products of a short K, products with one row, norms of few rows, int8 with rows that begin anywhere,
batch norm in training and means of small planes. The contenders of a call take turns. A JSON line
for each call goes to $OUT/short_calls.jsonl. --compile adds torch.compile; --build makes all plans
on the simulated GPU and stops.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from short_timing import (
    BF16,
    BUILD,
    DEVICE,
    F16,
    F32,
    Contender,
    Subject,
    chosen,
    drawn,
    late,
    time_all,
)
from torch.nn import functional

import weft.ops
from weft.ops.core import library
from weft.ops.families.matmul import skinny_m
from weft.ops.families.matmul.matmul import MATMUL
from weft.ops.families.matmul.panels import model as panels_model
from weft.ops.families.matmul.panels import plans as panels
from weft.ops.families.matmul.product import Product, product_of

COMPILE = "--compile" in sys.argv and not BUILD
LAST = torch.channels_last
MOST = 3
"""Candidates of a kind that are timed beside the chosen one."""


def peers(call: Callable[..., Any], *tensors: Any) -> list[Contender]:
    """The call by PyTorch, and compiled."""
    if BUILD:
        return []
    made = [Contender("torch", call=lambda: call(*tensors))]
    if COMPILE:
        quick = torch.compile(call, dynamic=False)
        made.append(Contender("compile", call=lambda: quick(*tensors)))
    return made


def candidates(op: str, *args: Any, words: tuple[str, ...] = ("",)) -> tuple[Any, list[Contender]]:
    """The tensors of a call; its choice, the choice without early launches, and the cheapest
    candidates whose names have one of the words.
    """
    tensors, choice = chosen(op, *args)
    found = [
        Contender(f"chosen: {choice.used.name}", choice.used.build),
        Contender("chosen, late", late(choice.used.build)),
    ]
    for word in words:
        named = [c for c in choice.others if word in c.name]
        found += [Contender(c.name, c.build) for c in named[:MOST]]
    return tensors, [*{c.name: c for c in found}.values()]


# ---- products ----------------------------------------------------------------------------------
CONVOLUTIONS = (
    (4, 40, 120, 28, F16),
    (4, 96, 24, 56, BF16),
    (4, 24, 72, 56, F16),
    (4, 16, 64, 112, F16),
    (4, 80, 240, 14, F16),
    (1, 112, 672, 14, F16),
    (1, 160, 960, 7, F16),
)
KINDS = ("whole K", "an SM, pipelined", "short K")


def convolutions() -> Iterator[Subject]:
    """1 x 1 convolutions of mobile networks, forward, and the products of their gradients."""
    for batch, c, k, size, dtype in CONVOLUTIONS:
        x = drawn(batch, c, size, size, dtype=dtype).to(memory_format=LAST)
        w = drawn(k, c, 1, 1, dtype=dtype).to(memory_format=LAST)
        tensors, found = candidates("conv2d", x, w, words=KINDS)
        found += peers(functional.conv2d, x, w)
        yield Subject(f"conv{c}-{k}@{size} batch={batch} {dtype}", tensors, found)
    dy, x, w = drawn(12544, 24, dtype=BF16), drawn(12544, 96, dtype=BF16), drawn(24, 96, dtype=BF16)
    for name, a, b in (("conv96-24@56 dx", dy, w), ("conv96-24@56 dw", dy.T, x)):
        tensors, found = candidates("matmul", a, b, words=(*KINDS, "K in"))
        yield Subject(name, tensors, [*found, *peers(torch.matmul, a, b)])


def warps() -> Iterator[Subject]:
    """Tiles of a whole K whose warps have other parts."""
    a, b = drawn(3136, 40, dtype=F16), drawn(120, 40, dtype=F16).T
    made = _product(a, b)
    found = []
    for tile in panels_model.WHOLE_TILES:
        for wm, wn in ((16, 16), (16, 32), (32, 32), (16, 64)):
            if (
                tile.bm % wm
                or tile.bn % wn
                or not 64 <= tile.bm // wm * (tile.bn // wn) * 32 <= 512
            ):
                continue
            one = tile._replace(wm=wm, wn=wn, resident=min(tile.resident, 4))
            name = f"{tile.bm} x {tile.bn}, warps {wm} x {wn}"
            found.append(Contender(name, lambda one=one: panels.whole_plan(made, one)))
    yield Subject("warps 3136x120x40", (a, b), [*found, *peers(torch.matmul, a, b)])


def _product(a: Any, b: Any) -> Product:
    return product_of(library.function("matmul").request(a, b, "fp32"), MATMUL)


DOTS = (
    (1, 4096, 14336, F32),
    (1, 4096, 14336, BF16),
    (1, 4096, 4096, F32),
    (2, 4544, 18176, BF16),
    (1, 28672, 4096, BF16),
)


def dots() -> Iterator[Subject]:
    """Products with one or two rows: warps that share a column."""
    for m, n, k, dtype in DOTS:
        a, b = drawn(m, k, dtype=dtype), drawn(n, k, dtype=dtype).T
        made = _product(a, b)
        used = chosen("matmul", a, b)[1].used
        found = [Contender(f"chosen: {used.name}", used.build)]
        gpu = library.function("matmul").request(a, b, "fp32").target
        for c in skinny_m.candidates(made, gpu):
            found.append(Contender(c.name, c.build))
        yield Subject(f"dots {m}x{n}x{k} {dtype}", (a, b), [*found, *peers(torch.matmul, a, b)])


INT8 = ((1024, 2048, 2049), (64, 4096, 1111), (4096, 4096, 4095))


def integers() -> Iterator[Subject]:
    """Products of int8 with rows that begin anywhere, beside aligned ones of almost as long."""
    for m, n, k in INT8:
        scales = torch.ones(1, device=DEVICE), torch.ones(1, device=DEVICE)
        for depth in (k, k // 16 * 16):
            a, b = (torch.randint(-9, 9, (s, depth), device=DEVICE).to(torch.int8) for s in (m, n))
            tensors, found = candidates("scaled_mm", a, b.T, *scales)
            yield Subject(f"int8 {m}x{n}x{depth}", tensors, found)


# ---- norms and means ---------------------------------------------------------------------------
def norms() -> Iterator[Subject]:
    """The strategies of these are those of short_kernels.py."""
    x, more = drawn(197, 1024, dtype=F16), drawn(197, 1024, dtype=F16)
    w, b = drawn(1024, dtype=F16), drawn(1024, dtype=F16)
    tensors, found = candidates("add_layer_norm", x, more, [1024], w, b)

    def added(x: Any, more: Any, w: Any, b: Any) -> Any:
        total = x + more
        return functional.layer_norm(total, [1024], w, b), total

    yield Subject("add_layer_norm 197x1024", tensors, [*found, *peers(added, x, more, w, b)])
    x, w, b = drawn(2048, 640, dtype=BF16), drawn(640, dtype=BF16), drawn(640, dtype=BF16)
    tensors, found = candidates("layer_norm", x, [640], w, b)
    by_torch = peers(lambda x, w, b: functional.layer_norm(x, [640], w, b), x, w, b)
    yield Subject("layer_norm 2048x640", tensors, [*found, *by_torch])


def batches() -> Iterator[Subject]:
    """Batch norm in training: the kernels, and the call with running statistics."""
    for batch, channels, size, dtype in ((2, 64, 56, BF16), (3, 512, 14, BF16), (8, 64, 56, F32)):
        x = drawn(batch, channels, size, size, dtype=dtype).to(memory_format=LAST)
        w, b = drawn(channels), drawn(channels)
        tensors, found = candidates("batch_norm_training", x, w, b, 1e-5)
        name = f"batch_norm{channels}@{size} batch={batch} {dtype}"
        yield Subject(f"{name}, statistics", tensors, found)
        if BUILD:
            continue
        mean, var = torch.zeros(channels, device=DEVICE), torch.ones(channels, device=DEVICE)
        given = x, mean, var, w, b
        whole = [Contender("chosen", call=lambda g=given: weft.ops.batch_norm(*g, True))]
        by_torch = peers(lambda *g: functional.batch_norm(*g, True), *given)
        yield Subject(f"{name}, whole", given, [*whole, *by_torch])


MEANS = ((1, 960, F16), (3, 2048, F32), (4, 2048, F16), (8, 512, F32))


def means() -> Iterator[Subject]:
    """Means of planes of 7 x 7, channels last."""
    for batch, channels, dtype in MEANS:
        x = drawn(batch, channels, 7, 7, dtype=dtype).to(memory_format=LAST)
        tensors, found = candidates("mean", x, [2, 3])
        by_torch = peers(lambda x: x.mean([2, 3]), x)
        yield Subject(f"mean_pool{channels}@7 batch={batch} {dtype}", tensors, [*found, *by_torch])


def main() -> None:
    torch.manual_seed(0)
    every = (convolutions, warps, dots, norms, integers, batches, means)
    time_all((s for make in every for s in make()), "short_calls.jsonl")


if __name__ == "__main__":
    main()
