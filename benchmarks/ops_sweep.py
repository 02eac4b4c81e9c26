"""Times the ops of `weft.ops` on calls drawn at random, against PyTorch and torch.compile, on a GPU.

    PYTHONPATH=src python benchmarks/ops_sweep.py --seed 1 --count 60 [--ops softmax,matmul]

Each call is made as a user makes it, eagerly; contenders take turns; results are checked in
float64. A record per op goes to records/ops_sweep.jsonl, with every call.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from datetime import date
from pathlib import Path
from typing import Any

import torch

from weft.ops import library
from weft.ops.sweep import run
from weft.ops.sweep import time as clock

RECORDS = Path(__file__).parent / "records" / "ops_sweep.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--most", type=int, default=2**26)
    parser.add_argument("--ops", default="")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--out", type=Path, default=RECORDS)
    args = parser.parse_args()
    host_times()
    for case in run.cases([n for n in args.ops.split(",") if n]):
        sweep(case, args)


def sweep(case: Any, args: Any) -> None:
    begin, results = time.time(), []
    for call in run.calls(case, args.seed, args.count, args.most):
        result, tensors = run.check(case, call, "cuda", args.seed)
        compiled = None
        if not args.no_compile:
            torch._dynamo.reset()
            compiled = torch.compile(case.torch, dynamic=False)
        results.append(run.timed(case, call, result, tensors, compiled))
        del tensors
    worst = sorted(results, key=lambda r: r.ratio)
    print(f"{case.op}: {run.mean(results):.2f} x, worst {worst[0].ratio:.2f} x, wrong"
          f" {sum(not r.right for r in results)}, {time.time() - begin:.0f} s")  # fmt: skip
    for r in [r for r in results if not r.right][:5]:
        print("  WRONG", r)
    for r in worst[:12]:
        shown = ", ".join(f"{n} {1e6 * s:.1f}" for n, s in r.seconds.items())
        print(f"  {r.ratio:.2f} x  {r.call}  [{r.plan}]  µs: {shown}")
    record = {
        "op": case.op, "seed": args.seed, "most": args.most, "date": date.today().isoformat(),
        "gpu": torch.cuda.get_device_name(), "torch": torch.__version__,
        "python": platform.python_version(), "mean": run.mean(results),
        "results": [{"call": r.call, "plan": r.plan, "error": r.error, "right": r.right,
                     "us": {n: round(1e6 * s, 2) for n, s in r.seconds.items()}} for r in results],
    }  # fmt: skip
    with args.out.open("a") as file:
        file.write(json.dumps(record) + "\n")


def host_times() -> None:
    for shape in ((64, 64), (1, 1024)):
        x = torch.randn(shape, device="cuda")
        pairs = {
            "add": (lambda f: f(x, x), lambda: x + x),
            "mul": (lambda f: f(x, x), lambda: x * x),
            "softmax": (lambda f: f(x), lambda: torch.softmax(x, -1)),
            "log_softmax": (lambda f: f(x), lambda: torch.log_softmax(x, -1)),
            "matmul": (lambda f: f(x, x.t()), lambda: torch.matmul(x, x.t())),
        }
        for name, (ours, theirs) in pairs.items():
            f = library.call(name)
            a, b = clock.host([lambda f=f, ours=ours: ours(f), theirs])
            print(
                f"host {name} {shape}: weft {1e6 * a:.2f} µs, torch {1e6 * b:.2f} µs, {a / b:.2f} x"
            )


if __name__ == "__main__":
    main()
