"""Times tiles of 16-bit products that tensor maps feed, and cuBLAS, on a Hopper GPU.

    PYTHONPATH=src python benchmarks/pipelined_products.py --record FILE.jsonl
    PYTHONPATH=src python benchmarks/pipelined_products.py --shapes 4096x4096x4096 --orders nt,nn

A graph launches a product on one set of operands after another, so that L2 does not keep them.
Graphs of all contenders take turns in a random order. The tiles with the least modelled time are
timed, and one line for each is appended to the record. Results are compared with cuBLAS's.
"""

from __future__ import annotations

import argparse
import datetime
import json
import random
import statistics
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from weft.measure.bench.clocks import driver_version
from weft.ops.core import runner
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.plan import layout
from weft.ops.core.target import target
from weft.ops.families.matmul import half, pipelined, skinny_m
from weft.ops.families.matmul.product import Roles, product_of

LLAMA = ((6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336))
GPT2 = ((2304, 768), (768, 768), (3072, 768), (768, 3072))
SHAPES = (
    (4096, 4096, 4096), (8192, 8192, 8192), (1024, 1024, 1024), (2048, 2048, 2048),
    *((m, n, k) for m in (1, 16, 77, 128, 700, 4096) for n, k in LLAMA),
    *((m, n, k) for m in (197, 1576, 8192) for n, k in GPT2),
    (8192, 50257, 768), (8192, 50304, 768), (512, 1280, 320), (4096, 320, 1280),
)  # fmt: skip
ORDERS = {"nt": (True, True), "nn": (True, False), "tn": (False, False), "tt": (False, True)}
"""True where K is contiguous in A and in B."""
COLD = 120e6
"""Bytes of all sets of operands, at least: more than L2 holds."""


def operands(shape: tuple[int, int, int], order: str, dtype: torch.dtype) -> tuple[Any, Any]:
    """Random matrices of an order."""
    m, n, k = shape
    a_k, b_k = ORDERS[order]
    a = torch.randn((m, k) if a_k else (k, m), device="cuda", dtype=dtype)
    b = torch.randn((n, k) if b_k else (k, n), device="cuda", dtype=dtype)
    return a if a_k else a.T, b.T if b_k else b


def contenders(a: Any, b: Any, most: int) -> dict[str, tuple[Candidate | None, Callable[..., Any]]]:
    """The candidates to time, by name, and cuBLAS."""
    gpu = target(a.device)
    request = Request("matmul", (layout(a), layout(b)), {}, gpu)
    made = product_of(request, Roles(left=0, right=1))
    ranked = sorted(pipelined.candidates(made, gpu), key=lambda c: c.cost)[:most]
    others = [half.candidates(made, gpu)]
    if min(made.m, made.n) <= skinny_m.MOST:
        thin = made if made.m <= made.n else made.transposed()
        others.append(skinny_m.candidates(thin, gpu))
    ranked += [min(found, key=lambda c: c.cost) for found in others if found]
    with ThreadPoolExecutor(16) as pool:
        plans = list(pool.map(lambda c: c.build(), ranked))
    runs = [runner.runner(plan, 2, a.device) for plan in plans]
    found: dict[str, Any] = {c.name: (c, run) for c, run in zip(ranked, runs, strict=True)}
    return found | {"cuBLAS": (None, torch.matmul)}


def graph_of(run: Callable[..., Any], sets: list[tuple[Any, Any]], launches: int) -> Any:
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


def measure(shape: tuple[int, int, int], order: str, dtype: torch.dtype, given: Any) -> list[dict]:
    """One row for each contender."""
    m, n, k = shape
    count = min(8, int(COLD / (2.0 * (m * k + n * k))) + 2)
    sets = [operands(shape, order, dtype) for _ in range(count)]
    found = contenders(*sets[0], given.most)
    launches = max(2, min(20, int(2e-3 / (2.0 * m * n * k / 6e14 + 5e-6))))
    want = torch.matmul(sets[0][0].float(), sets[0][1].float())
    graphs, errors = {}, {}
    for name, (_, run) in found.items():
        got = run(*sets[0])
        errors[name] = float((got.float() - want).norm() / want.norm())
        graphs[name] = graph_of(run, sets, launches)
    times = timed(graphs, launches, given.turns)
    peer = times["cuBLAS"]
    rows = []
    for name, (candidate, _) in found.items():
        rows.append({
            "m": m, "n": n, "k": k, "order": order, "dtype": str(dtype).removeprefix("torch."),
            "name": name, "model_us": round(candidate.cost * 1e6, 2) if candidate else None,
            "us": round(times[name], 2), "ratio": round(peer / times[name], 3),
            "error": float(f"{errors[name]:.3g}"),
        })  # fmt: skip
    return sorted(rows, key=lambda row: row["us"])


def main() -> None:
    """Time everything."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--shapes", default="", help="MxNxK,...; default: layers of models")
    parser.add_argument("--orders", default="nt")
    parser.add_argument("--dtypes", default="bfloat16")
    parser.add_argument("--most", type=int, default=12, help="tiles that are timed")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--record", type=Path)
    given = parser.parse_args()
    texts = [text for text in given.shapes.split(",") if text]
    shapes = [tuple(map(int, text.split("x"))) for text in texts] or list(SHAPES)
    about = {
        "gpu": torch.cuda.get_device_name(), "driver": driver_version(),
        "torch": torch.__version__, "date": str(datetime.date.today()),
    }  # fmt: skip
    for shape in shapes:
        for order in given.orders.split(","):
            for dtype in given.dtypes.split(","):
                rows = measure(shape, order, getattr(torch, dtype), given)
                best, first = rows[0], min(rows, key=lambda r: r["model_us"] or 1e9)
                wrong = [r["name"] for r in rows if not r["error"] < 1e-2]
                peer = next(r for r in rows if r["name"] == "cuBLAS")
                print(
                    f"{'x'.join(map(str, shape)):>18} {order} cuBLAS {peer['us']:8.1f} us | "
                    f"best {best['ratio']:.2f} {best['name']} | "
                    f"model {first['ratio']:.2f} {first['name']}"
                    + (f" WRONG {wrong}" if wrong else ""),
                    flush=True,
                )
                if given.record:
                    with given.record.open("a") as file:
                        file.writelines(json.dumps(row | about) + "\n" for row in rows)


if __name__ == "__main__":
    main()
