"""Time the kernels of long rows beside PyTorch's and a copy, on a GPU.

    PYTHONPATH=src python benchmarks/long_rows.py [seconds] [--once] [words of calls ...]

Every candidate of a call is captured in a CUDA graph, and the graphs take turns. Errors are against
float64. A JSON line for each call goes to $OUT/long_rows.jsonl. --once calls each contender once,
for a profiler.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from graph_times import Session, race

from weft.ops.core import cluster_rows, library
from weft.ops.core.runner import runner

SESSION = Session("long_rows", 60.0)
BF16, F32 = torch.bfloat16, torch.float32
SIZES = [
    *((rows, n) for n in (65536, 128256, 262144) for rows in (4, 512)),
    (2048, 128256),
    (100, 50257),
    (2048, 32768),
]


class Op(NamedTuple):
    """An op on rows.

    args   the arguments of weft's op, of x
    torch  the same by PyTorch, in any dtype
    """

    name: str
    args: Callable[[torch.Tensor], tuple[Any, ...]]
    torch: Callable[..., Any]
    dtypes: tuple[torch.dtype, ...] = (BF16,)


def _labels(x: torch.Tensor) -> torch.Tensor:
    return torch.arange(x.shape[0], device=x.device) * 7919 % x.shape[1]


def _weight(x: torch.Tensor) -> torch.Tensor:
    return torch.linspace(0.5, 1.5, x.shape[1], device=x.device).to(x.dtype)


def _gradient(x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    logits = torch._log_softmax(x, 1, False)
    one = torch.full((), -1 / len(x), dtype=x.dtype, device=x.device)
    grad = torch.zeros_like(x).scatter_(1, labels[:, None], one.expand(len(x), 1))
    return torch._log_softmax_backward_data(grad, logits, 1, x.dtype)


VARIANTS = {"112 KiB": 112 << 10, "72 KiB": 72 << 10}
"""Bytes of a block's part of a row."""
_LOSS = (None, -100, "mean", 0.0)
OPS = [
    Op("softmax", lambda x: (x, -1), lambda x, *_: F.softmax(x, -1), (BF16, F32)),
    Op("rms_norm", lambda x: (x, [x.shape[1]], _weight(x), 1e-6),
       lambda x, n, w, eps: F.rms_norm(x, n, w.to(x.dtype), eps)),
    Op("layer_norm", lambda x: (x, [x.shape[1]], _weight(x), _weight(x), 1e-6),
       lambda x, n, w, b, eps: F.layer_norm(x, n, w.to(x.dtype), b.to(x.dtype), eps)),
    Op("cross_entropy_with_gradient", lambda x: (x, _labels(x), *_LOSS),
       lambda x, labels, *_: (F.cross_entropy(x, labels), _gradient(x, labels))),
    Op("softmax_backward", lambda x: (x, x.softmax(-1), -1),
       lambda dy, y, dim: torch._softmax_backward_data(dy, y, 1, dy.dtype)),
]  # fmt: skip


class Call(NamedTuple):
    op: Op
    rows: int
    n: int
    dtype: torch.dtype

    @property
    def name(self) -> str:
        return f"{self.op.name} {self.rows}x{self.n} {str(self.dtype).removeprefix('torch.')}"

    def args(self) -> tuple[Any, ...]:
        torch.manual_seed(0)
        x = torch.randn(self.rows, self.n, device="cuda").to(self.dtype)
        return self.op.args(x)


def last(result: Any) -> torch.Tensor:
    found: torch.Tensor = result[-1] if isinstance(result, tuple) else result
    return found


def run(call: Call, plans: dict[str, Future[Any]]) -> dict[str, Any]:
    args = call.args()
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    function = library.function(call.op.name)
    inputs = [
        a for a, r in zip(args, function.arguments, strict=True) if r.name in function.tensors
    ]
    wide = [
        a.double() if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in args
    ]
    want = last(call.op.torch(*wide))
    del wide
    copied = torch.empty_like(tensors[0])
    contenders: dict[str, Callable[[], Any]] = {
        "copy": lambda: copied.copy_(tensors[0]),
        "torch": lambda: call.op.torch(*args),
    }
    for name, plan in plans.items():
        one = runner(plan.result(), len(inputs), want.device)
        contenders[name] = (lambda f: lambda: f(*inputs))(one)
    size = 2 * want.numel() * call.dtype.itemsize
    repeats = max(2, min(20, int(6e-4 / (size / 4e12 + 3e-6))))

    def judge(made: Callable[[], Any]) -> float:
        got = last(made())
        return 0.0 if got is copied else float((got.double() - want).norm() / want.norm())

    row = race(contenders, repeats, judge, once=SESSION.once, rounds=10)
    return {"call": call.name, **row}


def show(row: dict[str, Any]) -> None:
    us, error = row["us"], row["error"]
    if us:
        rest = sorted((n for n in us if n not in ("copy", "torch")), key=us.get)
        own = "; ".join(f"{us['copy'] / us[n]:.2f} {us[n]:.1f} {n} ({error[n]:.1e})" for n in rest)
        peer = f"copy {us['copy']:.1f} torch {us.get('torch', 0):.1f}"
        print(f"{row['call']}: {peer} ({error.get('torch', 0):.1e}) | {own}")
    for n, e in row["failed"].items():
        print("   FAILED", n, e[:160])
    sys.stdout.flush()


def main() -> None:
    every = [Call(op, rows, n, d) for op in OPS for rows, n in SIZES for d in op.dtypes]
    calls = [c for c in every if all(w in c.name for w in SESSION.only)]
    with ThreadPoolExecutor(16) as pool:
        plans = {}
        for call in calls:
            function = library.function(call.op.name)
            plans[call] = {}
            for name, size in VARIANTS.items():
                cluster_rows.BLOCK_BYTES = size
                found = function.definition.candidates(function.request(*call.args()))
                new = [c for c in found if "cluster" in c.name or name == "112 KiB"]
                new = [c for c in new if f"{c.name}, {c.why}" not in plans[call]]
                plans[call] |= {f"{c.name}, {c.why}": pool.submit(c.build) for c in new}
        for call in calls:
            if not SESSION.has_time(call.name):
                continue
            row = run(call, plans[call])
            SESSION.note(row)
            show(row)


if __name__ == "__main__":
    main()
