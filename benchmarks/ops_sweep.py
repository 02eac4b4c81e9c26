"""Times `weft.ops` on calls drawn at random, against PyTorch and torch.compile, on a GPU.

    PYTHONPATH=src python benchmarks/ops_sweep.py --seed 1 --count 60 [--ops softmax,matmul]

Each call is made as a user makes it, eagerly; contenders take turns; results are checked in
float64. A record per op goes to records/ops_sweep.jsonl, with every call.
"""

from __future__ import annotations

import argparse
import functools
import json
import platform
import subprocess
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
    host_times(args.out)
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
        "op": case.op, "seed": args.seed, "most": args.most, **about(), "mean": run.mean(results),
        "results": [{"call": r.call, "plan": r.plan, "error": r.error, "right": r.right,
                     "us": {n: round(1e6 * s, 2) for n, s in r.seconds.items()}} for r in results],
    }  # fmt: skip
    with args.out.open("a") as file:
        file.write(json.dumps(record) + "\n")


HOST = {
    "add": (lambda f, x: f(x, x), lambda x: x + x),
    "mul": (lambda f, x: f(x, x), lambda x: x * x),
    "exp": (lambda f, x: f(x), torch.exp),
    "softmax": (lambda f, x: f(x), lambda x: torch.softmax(x, -1)),
    "log_softmax": (lambda f, x: f(x), lambda x: torch.log_softmax(x, -1)),
    "sum": (lambda f, x: f(x), torch.sum),
    "amax": (lambda f, x: f(x, -1), lambda x: torch.amax(x, -1)),
    "argmax": (lambda f, x: f(x, -1), lambda x: torch.argmax(x, -1)),
    "var": (lambda f, x: f(x, -1), lambda x: torch.var(x, -1)),
    "matmul": (lambda f, x: f(x, x.t()), lambda x: torch.matmul(x, x.t())),
}
"""How each op is called for the host's time, by the library and by torch."""


def host_times(out: Path) -> None:
    """The host's time per call, on tensors so small that the GPU keeps up."""
    rows = []
    for shape in ((64, 64), (1, 1024)):
        x = torch.randn(shape, device="cuda")
        for name, (ours, theirs) in HOST.items():
            f = library.call(name)
            a, b = clock.host([functools.partial(ours, f, x), functools.partial(theirs, x)])
            rows.append({"op": name, "shape": shape, "weft_us": 1e6 * a, "torch_us": 1e6 * b})
            print(f"host {name} {shape}: {1e6 * a:.2f} µs, torch {1e6 * b:.2f}, {a / b:.2f} x")
    with out.open("a") as file:
        file.write(json.dumps({"host": rows, **about()}) + "\n")


def about() -> dict[str, str]:
    """What the figures were measured on."""
    smi = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    driver = subprocess.run(smi, capture_output=True, text=True, check=False).stdout.strip()
    return {
        "date": date.today().isoformat(), "gpu": torch.cuda.get_device_name(), "driver": driver,
        "torch": torch.__version__, "python": platform.python_version(),
    }  # fmt: skip


if __name__ == "__main__":
    main()
