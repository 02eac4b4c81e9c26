"""Times tiles of fp8 and tf32 products, and PyTorch's, on a Hopper GPU.

    PYTHONPATH=src python benchmarks/scaled_products.py --record FILE.jsonl
    PYTHONPATH=src python benchmarks/scaled_products.py --kinds tensor,block --shapes 4096x4096x4096
    PYTHONPATH=src python benchmarks/scaled_products.py --jobs "block@64x4096x4096,fp32@2x4096x1024"

Kinds of scales: tensor, row, block (1 x 128 of a, 128 x 128 of b), with `fast` before them for
use_fast_accum. tf32, fp32 and bf16 are products as torch.matmul's, the last two with few rows of A.
All kernels are compiled before anything is timed. Graphs of all contenders take turns, as in
pipelined_products.py. Results are compared with float64 on a part of the rows.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from pipelined_products import COLD, graph_of, timed

from weft.measure.bench.clocks import driver_version
from weft.ops.core import library, runner
from weft.ops.core.choose import Candidate

Shape = tuple[int, int, int]
LARGE: tuple[Shape, ...] = ((4096, 4096, 4096), (8192, 8192, 8192))
SMALL: tuple[Shape, ...] = (
    (1024, 1024, 1024), (2048, 2048, 2048), (1, 4096, 4096), (16, 6144, 4096), (64, 28672, 4096),
    (128, 4096, 14336), (700, 6144, 4096), (4096, 28672, 4096),
)  # fmt: skip
KINDS = ("fast tensor", "fast row", "tensor", "row", "block", "tf32")
LIMIT = "128 x 256", "128 x 192", "192 x 128", "128 x 128"
"""Tiles that large products are always timed with."""
FP8 = torch.float8_e4m3fn
PLAIN = {"tf32": torch.float32, "fp32": torch.float32, "bf16": torch.bfloat16}
"""Dtypes of products without scales."""


def operands(kind: str, shape: Shape) -> tuple[Any, ...]:
    """Random tensors of a kind."""
    m, n, k = shape
    a, b = (torch.randn(rows, k, device="cuda") for rows in (m, n))
    if kind in PLAIN:
        return a.to(PLAIN[kind]), b.to(PLAIN[kind]).T
    blocks = -(-k // 128)
    sizes = {
        "tensor": ((1,), (1,)),
        "row": ((m, 1), (1, n)),
        "block": ((m, blocks), (blocks, n // 128)),
    }[kind.split()[-1]]
    scales = [torch.rand(size, device="cuda") + 0.5 for size in sizes]
    if kind == "block":  # as cuBLAS needs them: of neighbouring rows, and of neighbouring K
        scales = [scale.T.contiguous().T for scale in scales]
    return a.to(FP8), b.to(FP8).T, *scales


def call(kind: str) -> tuple[str, dict[str, Any]]:
    """The op, and its options."""
    if kind in PLAIN:
        return "matmul", {"precision": "tf32"} if kind == "tf32" else {}
    return "scaled_mm", {"use_fast_accum": kind.startswith("fast")}


def peers(kind: str) -> dict[str, Callable[..., Any]]:
    """PyTorch's products."""
    if kind in PLAIN:
        return {"torch": torch.matmul}
    scaled = functools.partial(torch._scaled_mm, out_dtype=torch.bfloat16)
    return {"torch": functools.partial(scaled, use_fast_accum=kind.startswith("fast"))}


def chosen(kind: str, tensors: tuple[Any, ...], shape: Shape, most: int) -> list[Candidate]:
    """The candidates to time: those with the least modelled time, and some for large products."""
    op, options = call(kind)
    function = library.function(op)
    choice = function.choice(function.request(*function.bound(tensors, options)))
    ranked = sorted((choice.used, *choice.others), key=lambda c: c.cost)
    if kind in ("fp32", "bf16"):
        dots = [c for c in ranked if c.name.startswith("dots")]
        return dots + [c for c in ranked if c not in dots][:most]
    engine = [c for c in ranked if "pipelined" in c.name]
    found = engine[:most] + [c for c in ranked if "converted" in c.name and shape[0] < 1025]
    if shape in LARGE:
        for name in LIMIT:
            words = (f"{name}, fp8, pipelined", f"tf32, {name}, pipelined")
            found += [c for c in engine if c.name in words and c not in found]
    return found


def exact(kind: str, tensors: tuple[Any, ...], rows: int = 64) -> torch.Tensor:
    """The first rows in float64."""
    a, b = tensors[0][:rows].double(), tensors[1].double()
    if kind in PLAIN:
        return a @ b
    left, right = (x.double() for x in tensors[2:])
    left = left[:rows] if left.dim() == 2 else left
    if kind == "block":
        left = left.repeat_interleave(128, 1)
        right = right.repeat_interleave(128, 0).repeat_interleave(128, 1)
    return (a * left) @ (b * right)


def measure(kind: str, shape: Shape, built: list[Any], turns: int) -> list[dict[str, Any]]:
    """One row for each contender."""
    m, n, k = shape
    size = PLAIN[kind].itemsize if kind in PLAIN else 1
    count = min(8, int(COLD / (size * (m * k + n * k))) + 2)
    sets = [operands(kind, shape) for _ in range(count)]
    runs: dict[str, Any] = {
        c.name: (c.cost, runner.runner(plan, inputs, sets[0][0].device))
        for c, plan, inputs in built
    }
    runs |= {name: (None, function) for name, function in peers(kind).items()}
    want = exact(kind, sets[0])
    launches = max(2, min(20, int(2e-3 / (2.0 * m * n * k / 6e14 + 5e-6))))
    graphs, errors, failed = {}, {}, []
    for name, (_, run) in runs.items():
        given = [
            (*s, *(None,) * (5 - len(s))) if size == 1 and name != "torch" else s for s in sets
        ]
        try:
            got = run(*given[0])[: len(want)]
            errors[name] = float((got.double() - want).norm() / want.norm())
            graphs[name] = graph_of(run, given, launches)
        except (RuntimeError, ValueError) as error:  # a peer may lack this kind of scales
            if name != "torch":
                raise
            failed.append(f"{name}: {str(error).splitlines()[0][:150]}")
    times = timed(graphs, launches, turns)
    rows = []
    for name, us in times.items():
        cost = runs[name][0]
        rows.append({
            "kind": kind, "m": m, "n": n, "k": k, "name": name,
            "model_us": round(cost * 1e6, 2) if cost else None, "us": round(us, 2),
            "tflops": round(2e-6 * m * n * k / us, 1), "error": float(f"{errors[name]:.3g}"),
            "ratio": round(times["torch"] / us, 3) if "torch" in times else None,
        })  # fmt: skip
    for text in failed:
        print(f"  {text}", flush=True)
    return sorted(rows, key=lambda row: row["us"])


def wanted(given: argparse.Namespace) -> list[tuple[str, Shape]]:
    """The kinds and shapes to time."""

    def shape(text: str) -> Shape:
        m, n, k = map(int, text.split("x"))
        return m, n, k

    if given.jobs:
        pairs = (job.split("@") for job in given.jobs.split(","))
        return [(kind, shape(text)) for kind, text in pairs]
    shapes = [shape(text) for text in given.shapes.split(",") if text] or [*LARGE, *SMALL]
    # Rows differ from operands by a few multiplications: large products show them.
    return [
        (kind, shape)
        for shape in shapes
        for kind in given.kinds.split(",")
        if shape in LARGE or "row" not in kind
    ]


def main() -> None:
    """Time everything."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--shapes", default="", help="MxNxK,...")
    parser.add_argument("--jobs", default="", help="KIND@MxNxK,...; instead of both")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--most", type=int, default=3, help="tiles that are timed")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=80, help="nothing is begun after them")
    parser.add_argument("--record", type=Path)
    given = parser.parse_args()
    about = {
        "gpu": torch.cuda.get_device_name(),
        "driver": driver_version(),
        "torch": torch.__version__,
        "date": str(datetime.date.today()),
    }
    begun = time.monotonic()
    jobs = wanted(given)
    found: list[list[tuple[Candidate, int]]] = []
    for kind, shape in jobs:
        tensors = operands(kind, shape)
        inputs = 2 if kind in PLAIN else 5
        found.append([(c, inputs) for c in chosen(kind, tensors, shape, given.most)])
    each = [pair for pairs in found for pair in pairs]
    with ThreadPoolExecutor(16) as pool:
        plans = iter(list(pool.map(lambda pair: pair[0].build(), each)))
    print(f"{len(each)} plans in {time.monotonic() - begun:.0f} s", flush=True)
    for (kind, shape), pairs in zip(jobs, found, strict=True):
        built = [(c, next(plans), inputs) for c, inputs in pairs]
        if time.monotonic() - begun > given.seconds:
            print("out of time", flush=True)
            break
        torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
        rows = measure(kind, shape, built, given.turns)
        best, peer = rows[0], [r for r in rows if r["name"] == "torch"]
        own = [r for r in rows if r["name"] != "torch"]
        first = min(own, key=lambda r: r["model_us"])
        wrong = [r["name"] for r in own if not r["error"] < 1e-2]
        against = (
            f"torch {peer[0]['us']:8.1f} us, error {peer[0]['error']:.1e}" if peer else "no peer"
        )
        print(
            f"{kind:11} {'x'.join(map(str, shape)):>16} {against} | best {best['name']} "
            f"{best['us']} us {best['tflops']} TFLOP/s {best['ratio']} error {own[0]['error']:.1e}"
            f" | model {first['ratio']} {first['name']}" + (f" WRONG {wrong}" if wrong else ""),
            flush=True,
        )
        if given.record:
            with given.record.open("a") as file:
                file.writelines(json.dumps(row | about) + "\n" for row in rows)


if __name__ == "__main__":
    main()
