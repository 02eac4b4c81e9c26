"""Times linear_quantised on a GPU beside PyTorch's weight-only products and F.linear of bfloat16.

    PYTHONPATH=src python benchmarks/quantised.py --record benchmarks/records/quantised.jsonl
    PYTHONPATH=src python benchmarks/quantised.py --shapes 1x8192x8192 --candidates 30
    PYTHONPATH=src python benchmarks/quantised.py --device cpu --shapes 1x64x256

Shapes are tokens x N x K. A graph launches a layer on one set of weights after another, so that L2
does not keep them, and graphs of all contenders take turns. Results are compared with float64.
--candidates N also times the N candidates with the least modelled time, one row for each, so that
the cost model can be fitted; --device cpu makes every call once on the simulated GPU, untimed.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from graph_times import graph, timed
from torch.nn import functional

import weft
from weft.measure.bench.clocks import driver_version
from weft.ops.core import library, runner
from weft.ops.core.choose import Candidate

Shape = tuple[int, int, int]
TOKENS = (1, 4, 16, 64, 256)
LAYERS = ((6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336), (8192, 8192))
"""N and K of Llama-3-8B's layers (q, k and v; out; gate and up; down), and a square one."""
FORMATS = ("int8", "int4", "fp8")
GROUP = 128
"""Weights of four bits that share a scale; those of eight bits have one scale for each row."""
COLD = 150e6
"""Bytes of all sets of weights, at least: more than L2 holds."""
LAUNCHES = 20
"""Launches of a graph."""


def random_shapes(seed: int, count: int) -> Iterator[Shape]:
    """Yield shapes with K a multiple of the group."""
    rng = random.Random(seed)
    for _ in range(count):
        n, k = round(2 ** rng.uniform(7, 14)), GROUP * round(2 ** rng.uniform(1, 6.5))
        yield round(2 ** rng.uniform(0, 8)), n, k


def operands(form: str, shape: Shape, device: str) -> tuple[Any, ...]:
    """A call's tensors: x, weight, scale."""
    m, n, k = shape
    x = torch.randn(m, k, device=device).bfloat16()
    if form == "int4":
        weight = torch.randint(0, 256, (n, k // 2), device=device, dtype=torch.uint8)
        return x, weight, torch.rand(n, k // GROUP, device=device) + 0.5
    scale = torch.rand(n, 1, device=device) + 0.5
    if form == "int8":
        return x, torch.randint(-128, 128, (n, k), device=device, dtype=torch.int8), scale
    return x, torch.randn(n, k, device=device).to(torch.float8_e4m3fn), scale


def values(form: str, weight: Any) -> Any:
    """The weights as integers, or numbers of fp8."""
    if form != "int4":
        return weight
    pairs = torch.stack((weight & 15, weight >> 4), -1)
    return pairs.reshape(weight.shape[0], -1).char() - 8


def matrix(form: str, weight: Any, scale: Any, dtype: Any) -> Any:
    """The dequantised weight."""
    q = values(form, weight)
    return q.to(dtype) * scale.to(dtype).repeat_interleave(q.shape[1] // scale.shape[1], 1)


def peers(form: str) -> dict[str, tuple[Callable[..., Any], Callable[..., Any]]]:
    """PyTorch's products: the tensors that each takes, made of a call's, and its function."""
    found: dict[str, Any] = {
        "F.linear bf16": (
            lambda x, w, s: (x, matrix(form, w, s, torch.bfloat16)),
            functional.linear,
        )
    }
    if form == "int8":
        found["_weight_int8pack_mm"] = (
            lambda x, w, s: (x, w, s[:, 0].bfloat16()),
            torch._weight_int8pack_mm,
        )
    if form == "int4":
        found["_weight_int4pack_mm"] = (_packed, torch._weight_int4pack_mm)
    return found


def _packed(x: Any, weight: Any, scale: Any) -> tuple[Any, ...]:
    """The tensors of torch._weight_int4pack_mm: the even k is in the upper bits there."""
    swapped = weight >> 4 | weight << 4
    packed = torch._convert_weight_to_int4pack(swapped, 8)
    both = torch.stack((scale.T, torch.zeros_like(scale.T)), -1).bfloat16().contiguous()
    return x, packed, GROUP, both


def ranked(tensors: tuple[Any, ...], most: int) -> list[Candidate]:
    """The candidates with the least modelled time."""
    function = library.function("linear_quantised")
    request = function.request(*tensors, None, None)
    choice = function.choice(request)
    return sorted((choice.used, *choice.others), key=lambda c: c.cost)[:most]


def contenders(
    form: str, sets: list[Any], found: list[Candidate], plans: list[Any]
) -> dict[str, tuple[list[Any], Callable[..., Any], float | None]]:
    """The tensors of each contender, its function, and its modelled time."""
    made: dict[str, Any] = {"weft": (sets, weft.ops.linear_quantised, None)}
    padded = [(*tensors, None, None) for tensors in sets]
    for candidate, plan in zip(found, plans, strict=True):
        run = runner.runner(plan, 5, sets[0][0].device)
        made[candidate.name] = (padded, run, candidate.cost)
    for name, (prepare, run) in peers(form).items():
        try:
            made[name] = ([prepare(*tensors) for tensors in sets], run, None)
        except (RuntimeError, AttributeError, NotImplementedError) as error:
            print(f"  {name}: {str(error).splitlines()[0][:120]}", flush=True)
    return made


def measure(
    form: str, shape: Shape, found: list[Candidate], plans: list[Any], device: str, turns: int
) -> list[dict[str, Any]]:
    """One row for each contender."""
    m, n, k = shape
    size = n * k * (0.5 if form == "int4" else 1)
    count = 1 if device == "cpu" else min(12, int(COLD / size) + 2)
    sets = [operands(form, shape, device) for _ in range(count)]
    x, weight, scale = sets[0]
    want = x[:64].double() @ matrix(form, weight, scale, torch.float64).T
    rows, graphs = {}, {}
    for name, (given, run, cost) in contenders(form, sets, found, plans).items():
        try:
            got = run(*given[0])[:64].double()
            if device != "cpu":
                turn = itertools.cycle(given)
                graphs[name] = graph(lambda turn=turn, run=run: run(*next(turn)), LAUNCHES)  # type: ignore[misc]
        except (RuntimeError, NotImplementedError) as error:  # a peer may lack this format here
            if name not in peers(form):
                raise
            print(f"  {name}: {str(error).splitlines()[0][:120]}", flush=True)
            continue
        wrong = float((got - want).norm() / want.norm())
        rows[name] = {
            "format": form, "m": m, "n": n, "k": k, "name": name, "error": float(f"{wrong:.3g}"),
            "model_us": None if cost is None else round(cost * 1e6, 2),
            "us": None, "gb_per_s": None,
        }  # fmt: skip
    if graphs:
        timed(graphs, 2, LAUNCHES)
        for name, us in timed(graphs, turns, LAUNCHES).items():
            rows[name] |= {"us": round(us, 2), "gb_per_s": round(size / us * 1e-3)}
    return list(rows.values())


def shapes_of(text: str, seed: int) -> list[Shape]:
    """The shapes to time."""
    if text:
        made = (tuple(map(int, word.split("x"))) for word in text.split(","))
        return [(m, n, k) for m, n, k in made]
    layers = [(m, n, k) for n, k in LAYERS for m in TOKENS]
    return [*layers, *random_shapes(seed, 12)]


def main() -> None:
    """Time everything."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--shapes", default="", help="TOKENSxNxK,...")
    parser.add_argument("--formats", default=",".join(FORMATS))
    parser.add_argument("--candidates", type=int, default=0, help="that are timed as well")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=300, help="nothing is begun after them")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--record", type=Path)
    given = parser.parse_args()
    torch.manual_seed(given.seed)
    about: dict[str, Any] = {"gpu": "simulated", "torch": torch.__version__}
    if given.device == "cuda":
        about |= {"gpu": torch.cuda.get_device_name(), "driver": driver_version()}
    about["date"] = str(datetime.date.today())
    begun = time.monotonic()
    jobs = [(f, s) for s in shapes_of(given.shapes, given.seed) for f in given.formats.split(",")]
    found = [ranked(operands(*job, given.device), given.candidates) for job in jobs]
    with ThreadPoolExecutor(16) as pool:
        built = iter(list(pool.map(lambda c: c.build(), itertools.chain(*found))))
    for (form, shape), candidates in zip(jobs, found, strict=True):
        plans = [next(built) for _ in candidates]
        if time.monotonic() - begun > given.seconds:
            print("out of time", flush=True)
            break
        rows = measure(form, shape, candidates, plans, given.device, given.turns)
        print(f"{form} {'x'.join(map(str, shape))}", flush=True)
        for row in sorted(rows, key=lambda row: row["us"] or 0):
            text = "" if row["us"] is None else f"{row['us']:9.2f} us {row['gb_per_s']:6} GB/s"
            print(f"  {row['name']:44} {text} error {row['error']:.1e}", flush=True)
        if given.record:
            with given.record.open("a") as file:
                file.writelines(json.dumps(row | about) + "\n" for row in rows)


if __name__ == "__main__":
    main()
