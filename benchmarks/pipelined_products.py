"""Times tiles of 16-bit products that tensor maps feed, and cuBLAS, on a Hopper GPU.

    PYTHONPATH=src python benchmarks/pipelined_products.py --record FILE.jsonl
    PYTHONPATH=src python benchmarks/pipelined_products.py --calls "4096x4096x4096 nn,8x32x768 bias"

A graph launches a product on one set of operands after another, so that L2 does not keep them.
Graphs of all contenders take turns in a random order. Of each kind of schedule the tiles with the
least modelled time are timed, and one line for each is appended to the record; where tensor maps
cannot feed the product, the candidates of all kernels are. Results are compared with those in
float32, or those of float32 in float64. Kernels are compiled by as many threads as there are cores,
in the order of the calls; those that are not begun after `--compile` seconds are left out.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.nn import functional

from weft.measure.bench.clocks import driver_version
from weft.ops.core import library, runner
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.plan import Layout
from weft.ops.core.target import Target, named
from weft.ops.families.matmul import half, matmul, pipelined, skinny_m
from weft.ops.families.matmul.product import product_of

CALLS = """
77x6144x4096, 394x1280x5120 bias, 100x4096x4096, 197x4096x4096, 1x28672x4096, 2x4544x18176,
16x6144x4096, 1x4096x14336, 8x1024x4096 bias, 3584x1280x5120 bias, 1232x4096x4096, 3072x768x8192 tn,
768x768x8192 tn, 8192x3072x768 bias, 12608x768x768 bias, 8192x5120x1280 bias gelu, 77x4096x4096,
100x6912x1152, 128x3584x3584 bias, 700x6144x4096, 1370x4096x1024 bias gelu, 401408x288x96,
197x768x3072 bias, 1792x1280x1280 bias, 8192x768x3072 nn, 128x8192x2048 bias, 4096x4096x4096,
3152x3072x768 bias gelu, 700x4096x14336, 8192x768x768 bias, 1992x768x768 bias,
197x3072x768 bias gelu, 77x28672x4096, 25088x384x1536 bias, 16x28672x4096, 4096x5120x1280 bias,
1024x3072x768 bias, 700x4096x4096, 4096x4096x197 tn
"""
ORDERS = {"nt": (True, True), "nn": (True, False), "tn": (False, False), "tt": (False, True)}
"""True where K is contiguous in A and in B."""
COLD = 120e6
"""Bytes of all sets of operands, at least: more than L2 holds."""
HOPE = 1.35
"""Candidates whose modelled time is longer than the least by more are not timed."""
CLOSE = 1.12
"""The same, for the first of a kind of schedule."""
ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "": lambda x: x, "relu": functional.relu, "gelu": functional.gelu, "silu": functional.silu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
}  # fmt: skip


class Call(NamedTuple):
    """A product: sizes, order of the operands, bias of the columns, activation.

    gaps  rows of the operands begin at multiples of 16 bytes, whatever their length
    sums  the rows of A are summed too
    """

    m: int
    n: int
    k: int
    order: str
    bias: bool
    activation: str
    gaps: bool
    sums: bool

    @staticmethod
    def parse(text: str) -> Call:
        """Read "MxNxK WORDS"; words are an order, "bias", an activation, "gaps", "sums"."""
        sizes, *words = text.split()
        m, n, k = map(int, sizes.split("x"))
        order = next((word for word in words if word in ORDERS), "nt")
        activation = next((word for word in words if word in ACTIVATIONS), "")
        return Call(m, n, k, order, "bias" in words, activation, "gaps" in words, "sums" in words)

    @property
    def words(self) -> str:
        text = f"{self.m}x{self.n}x{self.k} {self.order}"
        flags = [word for word in ("bias", "gaps", "sums") if getattr(self, word)]
        return " ".join([text, *flags, self.activation]).strip()

    def operands(self, dtype: torch.dtype, device: str = "cuda") -> tuple[Any, ...]:
        """Random matrices, after the bias if there is one."""
        a_k, b_k = ORDERS[self.order]
        m, n, k = self[:3]
        apart = 16 // dtype.itemsize if self.gaps else 1

        def matrix(rows: int, columns: int) -> Any:
            pitch = -(-columns // apart) * apart
            return torch.randn(rows, pitch, device=device, dtype=dtype)[:, :columns]

        a, b = matrix(*(m, k) if a_k else (k, m)), matrix(*(n, k) if b_k else (k, n))
        pair = a if a_k else a.T, b.T if b_k else b
        if not self.bias:
            return pair
        return torch.randn(n, device=device, dtype=dtype), *pair

    def layouts(self, dtype: torch.dtype) -> tuple[Layout, ...]:
        """The layouts of the operands, without them."""
        made = self.operands(dtype, "meta")
        return tuple(Layout(dtype, tuple(x.shape), tuple(x.stride()), 16) for x in made)

    def peer(self, *given: Any) -> Any:
        """The product by cuBLAS."""
        *bias, a, b = given
        made = functional.linear(a, b.T, bias[0]) if bias else torch.matmul(a, b)
        made = ACTIVATIONS[self.activation](made)
        return (made, a.sum(1)) if self.sums else made


def kinds(candidate: Candidate) -> tuple[bool, ...]:
    """True for each word of a schedule that its name has."""
    return tuple(word in candidate.name for word in ("an SM", "K in", "in turns", "boxes", "even"))


def contenders(
    call: Call, dtype: torch.dtype, gpu: Target, each: int, most: int
) -> Iterator[Candidate]:
    """The candidates to time: `each` of each kind, `most` of all, and the best of other kernels."""
    if call.sums:
        request = Request("matmul_row_sums", call.layouts(dtype), {"precision": "fp32"}, gpu)
        found = library.function("matmul_row_sums").definition.candidates(request)
        ranked = sorted(found, key=lambda c: c.cost)
        yield from [c for c in ranked if "with sums" in c.name][:most]
        yield from [c for c in ranked if "; sums" in c.name][:2]
        return
    options = {"activation": call.activation}
    request = Request("addmm" if call.bias else "matmul", call.layouts(dtype), options, gpu)
    roles = matmul.ADDMM if call.bias else matmul.MATMUL
    made = product_of(request, roles)
    ranked = sorted(pipelined.candidates(made, gpu), key=lambda c: c.cost)
    if not ranked or dtype is torch.float32:
        found = sorted(matmul.candidates_of(made, request), key=lambda c: c.cost)
        # The best of both ways to multiply floats, too.
        others = [c for c in found[most:] if ("3xtf32" in c.name) != ("3xtf32" in found[0].name)]
        yield from found[:most] + others[:1]
        return
    first = {kinds(c): c for c in reversed(ranked) if c.cost < CLOSE * ranked[0].cost}
    chosen: dict[str, Candidate] = {}
    for kind in {kinds(c) for c in ranked}:
        tiles: dict[str, Candidate] = {}
        for c in ranked:
            if kinds(c) == kind:
                tiles.setdefault(c.name.replace(", turned", ""), c)
        # Shares of K have more tiles to choose from.
        count = each + 2 if "K in" in next(iter(tiles)) and made.m * made.n < 2**20 else each
        chosen |= {c.name: c for c in [*tiles.values()][:count]}
    hopeful = [c for c in chosen.values() if c.cost < HOPE * ranked[0].cost]
    hopeful = sorted(hopeful, key=lambda c: c.cost)[:most]
    if not each:
        hopeful = [c for i, c in enumerate(ranked) if i < most or c is first.get(kinds(c))]
    elif min(made.m, made.n) <= 16:
        # Memory is the limit, for which the model has ties: the schedules of one tile are timed.
        hopeful = [c for c in ranked if c.name.startswith("64 x 16, turned")]
    yield from hopeful
    others = [half.candidates(made, gpu)]
    if min(made.m, made.n) <= skinny_m.MOST:
        thin = made if made.m <= made.n else made.transposed()
        others.append(skinny_m.candidates(thin, gpu))
    if min(made.m, made.n) <= 16:
        yield from (min(found, key=lambda c: c.cost) for found in others if found)


def kernel_of(call: Call, candidate: Candidate) -> Any:
    """The part of its name that tells its kernel from others."""
    build: Any = candidate.build
    if getattr(build, "func", None) is not pipelined.plan:
        return candidate.name, call
    p, tile, stages, *_ = build.args
    transposed = p.column_c != 1
    whole = (p.m if transposed else p.n) % 8 == 0
    majors = tuple(side.k_major for side in p.sides)
    bias = p.bias and (p.bias.m == 0, p.bias.n == 0)
    return tile, stages, majors, transposed, whole, p.activation, bias


class Compiler:
    """Compiles the kernels of candidates, in the order of the calls, until a time limit."""

    def __init__(self, found: dict[Call, list[Candidate]], seconds: float) -> None:
        self.deadline = time.monotonic() + seconds
        self.started: dict[Any, Future[bool]] = {}
        pool = ThreadPoolExecutor(max(1, (os.cpu_count() or 4) - 1))  # one core times
        for call, candidates in found.items():
            for c in candidates:
                if kernel_of(call, c) not in self.started:
                    self.started[kernel_of(call, c)] = pool.submit(self._compile, c)

    def _compile(self, c: Candidate) -> bool:
        there = time.monotonic() < self.deadline
        if there:
            c.build()
        return there

    def ready(self, call: Call, candidates: list[Candidate]) -> list[Candidate]:
        """Those whose kernels are compiled, when all of them are or the time is over."""
        return [c for c in candidates if self.started[kernel_of(call, c)].result()]


def graph_of(run: Callable[..., Any], sets: list[tuple[Any, ...]], launches: int) -> Any:
    """A graph of so many launches."""
    graph = torch.cuda.CUDAGraph()
    run(*sets[0])
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        for i in range(launches):
            run(*sets[i % len(sets)])
    return graph


def timed(graphs: dict[str, Any], launches: int, turns: int) -> dict[str, float]:
    """Median microseconds of a launch."""
    times: dict[str, list[float]] = {name: [] for name in graphs}
    for _ in range(turns):
        for name in random.sample(sorted(graphs), len(graphs)):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graphs[name].replay()
            end.record()
            end.synchronize()
            times[name].append(start.elapsed_time(end) * 1e3 / launches)
    return {name: statistics.median(each) for name, each in times.items()}


def measure(
    call: Call, candidates: list[Candidate], dtype: torch.dtype, turns: int
) -> list[dict[str, Any]]:
    """One row for each contender."""
    m, n, k = call[:3]
    count = min(8, int(COLD / (dtype.itemsize * (m * k + n * k))) + 2)
    sets = [call.operands(dtype) for _ in range(count)]
    device = sets[0][0].device
    rate, exact = (6e14, torch.float32) if dtype.itemsize == 2 else (5e13, torch.float64)
    launches = max(2, min(20, int(2e-3 / (2.0 * m * n * k / rate + 5e-6))))
    *bias, a, b = (x.to(exact) for x in sets[0])
    want = a @ b + (bias[0] if bias else 0)
    wanted = [ACTIVATIONS[call.activation](want), *([a.sum(1)] if call.sums else [])]
    del a, b, want
    runs = {c.name: runner.runner(c.build(), len(sets[0]), device) for c in candidates}
    graphs, errors = {}, {}
    for name, run in (runs | {"cuBLAS": call.peer}).items():
        got = run(*sets[0])
        errors[name] = max(
            float((x.to(exact) - y).norm() / y.norm())
            for x, y in zip(got if call.sums else [got], wanted, strict=True)
        )
        del got
        graphs[name] = graph_of(run, sets, launches)
    times = timed(graphs, launches, turns)
    costs = {c.name: round(c.cost * 1e6, 2) for c in candidates}
    rows = []
    for name, us in times.items():
        rows.append({
            "m": m, "n": n, "k": k, "order": call.order, "bias": call.bias,
            "activation": call.activation, "gaps": call.gaps, "sums": call.sums,
            "dtype": str(dtype).removeprefix("torch."),
            "fetch": pipelined.L2_128, "name": name, "model_us": costs.get(name),
            "us": round(us, 2), "ratio": round(times["cuBLAS"] / us, 3),
            "error": float(f"{errors[name]:.3g}"),
        })  # fmt: skip
    return sorted(rows, key=lambda row: row["us"])


def summary(call: Call, rows: list[dict[str, Any]]) -> str:
    """A line: cuBLAS, the best, the one that the model chooses, and the best of each kind."""
    peer = next(row for row in rows if row["name"] == "cuBLAS")
    ours = [row for row in rows if row["name"] != "cuBLAS"]
    first = min(ours, key=lambda row: row["model_us"])
    wrong = [row["name"] for row in rows if not row["error"] < 1e-2]
    best: dict[str, dict[str, Any]] = {}
    for row in ours:
        words = [word for word in ("turns", "boxes", "even", "K in") if word in row["name"]]
        best.setdefault(" ".join(words), row)
    each = " ; ".join(
        f"{row['ratio']:.2f} {row['name'].removesuffix(', pipelined')}" for row in best.values()
    )
    line = f"{call.words:>28} {peer['us']:8.1f} us | model {first['ratio']:.2f} {first['name']}"
    return f"{line} | {each}" + (f" WRONG {wrong}" if wrong else "")


def main() -> None:
    """Time everything."""
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--calls", default=CALLS, help='"MxNxK [order] [bias] [activation] [gaps] [sums], ..."'
    )
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument(
        "--each", type=int, default=2, help="tiles of a kind of schedule; 0: of all"
    )
    parser.add_argument("--most", type=int, default=10, help="tiles of a call")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--compile", type=float, default=300, help="seconds for the compiler")
    parser.add_argument("--fetch", type=int, default=pipelined.L2_128, help="L2 fetches of a map")
    parser.add_argument("--device", default="gpu", help="sim:h200 lists the contenders of a model")
    parser.add_argument("--record", type=Path)
    given = parser.parse_args()
    pipelined.L2_128 = given.fetch
    calls = [Call.parse(text) for text in given.calls.split(",")]
    dtype = getattr(torch, given.dtype)
    gpu = named(given.device)
    found = {call: list(contenders(call, dtype, gpu, given.each, given.most)) for call in calls}
    if given.device != "gpu":
        for call, candidates in found.items():
            print(f"{call.words:>28} | {' ; '.join(c.name for c in candidates)}")
        print(len({kernel_of(call, c) for call in found for c in found[call]}), "kernels")
        return
    compiler = Compiler(found, given.compile)
    about = {
        "gpu": torch.cuda.get_device_name(),
        "driver": driver_version(),
        "torch": torch.__version__,
        "date": str(datetime.date.today()),
    }
    for call, candidates in found.items():
        there = compiler.ready(call, candidates)
        if not there:
            print(f"{call.words:>28} no kernel in time", flush=True)
            continue
        rows = measure(call, there, dtype, given.turns)
        print(summary(call, rows), flush=True)
        if given.record:
            with given.record.open("a") as file:
                file.writelines(json.dumps(row | about) + "\n" for row in rows)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
