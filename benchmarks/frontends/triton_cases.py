"""Triton kernels on the simulated GPU, or in Triton's interpreter: one contender a process.

    python benchmarks/frontends/triton_cases.py [NAME...]                       simulated
    TRITON_INTERPRET=1 python benchmarks/frontends/triton_cases.py [NAME...]    interpreted

Prints a JSON line a case: processor seconds of its launches, on one core, and how far its results
are from torch in float64. The kernels are those of tests/triton_kernels/nets.py.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("WEFT_THREADS", "1")
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")

import torch
from timing import timed

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
if not INTERPRETED:
    import weft.triton  # noqa: F401

from triton_kernels import nets  # noqa: E402

Run = Callable[[], None]
Errors = Callable[[], list[float]]


@dataclass(frozen=True)
class Case:
    """A launch: `make` returns its call, and a function of the errors against float64."""

    make: Callable[[], tuple[Run, Errors]]
    size: str


def normal(*shape: int, seed: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def error(got: Any, wanted: Any) -> float:
    """The largest difference, as a part of the largest value."""
    return float((got.double() - wanted).abs().max() / wanted.abs().max())


def vector_add() -> tuple[Run, Errors]:
    n = 1 << 20
    x, y, out = normal(n, seed=0), normal(n, seed=1), torch.zeros(n)
    return (
        lambda: nets.add[(n // 256,)](x, y, out, n, BLOCK=256),
        lambda: [error(out, x.double() + y.double())],
    )


def softmax() -> tuple[Run, Errors]:
    rows, n, programs = 1024, 1000, 128
    x, out = normal(rows, n, seed=0), torch.zeros(rows, n)
    return (
        lambda: nets.softmax[(programs,)](x, out, n, rows, n, BLOCK=1024, num_stages=2),
        lambda: [error(out, torch.softmax(x.double(), 1))],
    )


def dropout() -> tuple[Run, Errors]:
    n, p = 1 << 18, 0.25
    x, out = normal(n, seed=0), torch.zeros(n)

    def errors() -> list[float]:
        kept = out != 0
        assert abs(float(kept.float().mean()) - (1 - p)) < 0.01
        return [error(out[kept], x[kept].double() / (1 - p))]

    return lambda: nets.dropout[(n // 256,)](x, out, n, p, 7, BLOCK=256), errors


def layer_norm() -> tuple[Run, Errors]:
    rows, n, groups = 512, 1000, 16
    x, dy = normal(rows, n, seed=0), normal(rows, n, seed=1)
    w, b = 1 + normal(n, seed=2), normal(n, seed=3)
    y, dx = torch.zeros(2, rows, n)
    mean, rstd = torch.zeros(2, rows)
    part_w, part_b = torch.zeros(2, groups, n)
    locks = torch.zeros(2 * groups, dtype=torch.int32)
    dw, db = torch.zeros(2, n)

    def run() -> None:
        locks.zero_()
        nets.layer_norm[(rows,)](x, y, w, b, mean, rstd, n, n, 1e-5, BLOCK=1024)
        nets.layer_norm_dx[(rows,)](
            dx, dy, part_w, part_b, x, w, mean, rstd, locks, n, n, GROUPS=groups, BLOCK=1024
        )
        nets.layer_norm_dwdb[(n // 32 + 1,)](part_w, part_b, dw, db, groups, n, BM=16, BN=32)

    def errors() -> list[float]:
        leaves = [t.double().requires_grad_() for t in (x, w, b)]
        wanted = torch.nn.functional.layer_norm(leaves[0], (n,), leaves[1], leaves[2], 1e-5)
        wanted.backward(dy.double())
        pairs = zip((dx, dw, db), leaves, strict=True)
        return [error(y, wanted.detach()), *(error(got, leaf.grad) for got, leaf in pairs)]

    return run, errors


def matmul() -> tuple[Run, Errors]:
    n = 256
    a, b = normal(n, n, seed=0).half(), normal(n, n, seed=1).half()
    c = torch.zeros(n, n, dtype=torch.float16)
    tile: dict[str, Any] = dict(BM=32, BN=32, BK=32, GROUP=4, PRECISION="ieee", ACTIVATION="")
    return (
        lambda: nets.matmul[((n // 32) ** 2,)](
            a, b, c, n, n, n, n, 1, n, 1, n, 1, **tile, num_stages=2
        ),
        lambda: [error(c, a.double() @ b.double())],
    )


def attention() -> tuple[Run, Errors]:
    heads, T, D = 4, 256, 64
    q, k, v, do = (normal(heads, T, D, seed=s).half() for s in range(4))
    out, lse, delta = torch.zeros_like(q), torch.zeros(heads, T), torch.zeros(heads, T)
    dq, dk, dv = torch.zeros(3, heads, T, D)
    scale = 1 / math.sqrt(D)
    tile: dict[str, Any] = dict(D=D, BM=32, BN=32, CAUSAL=True)

    def run() -> None:
        dq.zero_()
        nets.attention[T // 32, heads](q, k, v, out, lse, scale, T, **tile)
        nets.attention_delta[(heads * T // 32,)](out, do, delta, D=D, BM=32)
        nets.attention_backward[T // 32, heads](
            q, k, v, do, dq, dk, dv, lse, delta, scale, T, **tile, num_stages=1
        )

    def errors() -> list[float]:
        leaves = [t.double().requires_grad_() for t in (q, k, v)]
        scores = leaves[0] @ leaves[1].transpose(1, 2) * scale
        future = ~torch.ones(T, T, dtype=torch.bool).tril()
        wanted = torch.softmax(scores.masked_fill(future, -math.inf), -1) @ leaves[2]
        wanted.backward(do.double())
        pairs = zip((dq, dk, dv), leaves, strict=True)
        return [error(out, wanted.detach()), *(error(got, leaf.grad) for got, leaf in pairs)]

    return run, errors


CASES = {
    "vector add": Case(vector_add, "2^20 elements, 256 a program"),
    "softmax": Case(softmax, "1024 x 1000, 8 rows a program"),
    "dropout": Case(dropout, "2^18 elements, 256 a program"),
    "layer norm, forward and backward": Case(layer_norm, "512 x 1000"),
    "matmul f16": Case(matmul, "256 cubed, tiles of 32"),
    "flash attention, forward and backward": Case(attention, "4 heads, 256 x 64, causal"),
}


def measure(name: str) -> dict[str, Any]:
    """One case, timed and compared."""
    run, errors = CASES[name].make()
    times = timed(run, simulated=not INTERPRETED)
    return {"case": name, "size": CASES[name].size, **times, "errors": errors()}


if __name__ == "__main__":
    for chosen in sys.argv[1:] or CASES:
        print(json.dumps(measure(chosen)), flush=True)
