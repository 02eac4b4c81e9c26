"""Time the kernels of batch norm in training beside PyTorch's, on a GPU.

    PYTHONPATH=src python benchmarks/batch_norm_training.py [seconds] [--once] [words of calls ...]

Every contender of a call is captured in a CUDA graph, and the graphs take turns. Errors are against
float64. A JSON line for each call goes to $OUT/batch_norm_training.jsonl. --once calls each
contender once, for a profiler.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import torch
from graph_times import Session, race

from weft.ops.core import library
from weft.ops.core.runner import runner
from weft.ops.families.norm import model

SESSION = Session("batch_norm_training", 60.0)
F16, BF16, F32 = torch.float16, torch.bfloat16, torch.float32
EPS = 1e-5


class Shape(NamedTuple):
    """A call on images, channels last if `last`."""

    batch: int
    channels: int
    side: int
    dtype: torch.dtype = F16
    last: bool = True

    @property
    def name(self) -> str:
        dtype = str(self.dtype).removeprefix("torch.")
        order = "last" if self.last else "first"
        return f"{self.batch}x{self.channels}@{self.side} {dtype} {order}"

    def made(self) -> torch.Tensor:
        shape = (self.batch, self.channels, self.side, self.side)
        x = torch.randn(shape, device="cuda").mul_(2).add_(0.5).to(self.dtype)
        return x.contiguous(memory_format=torch.channels_last) if self.last else x


RESNET = [(64, 112), (64, 56), (256, 56), (128, 56), (128, 28), (512, 28), (256, 28), (256, 14),
          (1024, 14), (512, 14), (512, 7), (2048, 7)]  # fmt: skip
SHAPES = [
    *(Shape(64, c, side) for c, side in RESNET),
    Shape(64, 64, 56, F32),
    Shape(32, 256, 14, F32),
    Shape(64, 64, 56, last=False),
    Shape(64, 256, 28, last=False),
    Shape(64, 512, 14, last=False),
    Shape(64, 2048, 7, last=False),
    Shape(64, 512, 7, last=False),
    Shape(64, 64, 112, last=False),
    Shape(32, 96, 56, BF16, last=False),
    Shape(32, 144, 56, BF16),
    Shape(16, 40, 28, BF16),
    Shape(4, 320, 14, BF16),
    Shape(3, 512, 14, BF16),
    Shape(8, 512, 7),
    Shape(32, 2048, 7, last=False),
    Shape(3, 512, 7, last=False),
]
VARIANTS: dict[str, dict[str, int]] = {
    "": {},
    "512": {"RESIDENT_THREADS": 512},
    "meeting": {"NARROW_VECTORS": 0},
    "alone": {"NARROW_VECTORS": 32},
}


def candidates(op: str, args: Any) -> dict[str, Any]:
    """The candidates of an op by name, those on chip with each variant of the model."""
    function = library.function(op)
    found: dict[str, Any] = {}
    kept = {name: getattr(model, name) for v in VARIANTS.values() for name in v}
    for word, constants in VARIANTS.items():
        for name, value in {**kept, **constants}.items():
            setattr(model, name, value)
        for c in function.definition.candidates(function.request(*args)):
            name = f"resident {word}: {c.why}" if c.name == "resident" else c.name
            if not word or c.name == "resident":
                found[name] = c
    for name, value in kept.items():
        setattr(model, name, value)
    return found


def own(s: Shape) -> dict[str, dict[str, int]]:
    """The candidates of both directions."""
    x, w = s.made(), torch.ones(s.channels, device="cuda")
    return {
        "forward": candidates("batch_norm_training", (x, w, w, EPS)),
        "backward": candidates("batch_norm_backward", (x, x, w, w, w, True, EPS, True)),
    }


class Call(NamedTuple):
    """One direction of a call.

    args   the tensors of weft's plans
    peers  PyTorch's functions; the first one is that which batch_norm calls
    want   the first result in float64
    """

    name: str
    args: tuple[Any, ...]
    peers: dict[str, Callable[[], Any]]
    want: torch.Tensor


def calls_of(s: Shape) -> list[Call]:
    torch.manual_seed(0)
    x, dy = s.made(), s.made()
    w, b = torch.rand(s.channels, device="cuda") + 0.5, torch.randn(s.channels, device="cuda")
    aten, dims, shape = torch.ops.aten, (0, 2, 3), (1, -1, 1, 1)
    wide, g = x.double(), dy.double()
    mean, var = wide.mean(dims), wide.var(dims, correction=0)
    scale = (var + EPS).rsqrt().view(shape)
    z = (wide - mean.view(shape)) * scale
    y = z * w.view(shape) + b.view(shape)
    rest = g.mean(dims, keepdim=True) + z * (g * z).mean(dims, keepdim=True)
    dx = (g - rest) * scale * w.view(shape)
    # cuDNN takes no bfloat16 with weights of float32.
    found = aten.cudnn_batch_norm(x, w, b, None, None, True, 0.1, EPS) if s.dtype != BF16 else ()
    native = aten.native_batch_norm(x, w, b, None, None, True, 0.1, EPS)
    given = (dy, x, mean.float(), var.float(), w)
    return [
        Call(
            "forward", (x, w, b),
            {"cudnn": lambda: aten.cudnn_batch_norm(x, w, b, None, None, True, 0.1, EPS),
             "native": lambda: aten.native_batch_norm(x, w, b, None, None, True, 0.1, EPS)}, y,
        ),
        Call(
            "backward", given,
            {"cudnn": lambda: aten.cudnn_batch_norm_backward(
                x, dy, w, None, None, found[1], found[2], EPS, found[3]),
             "native": lambda: aten.native_batch_norm_backward(
                dy, x, w, None, None, native[1], native[2], True, EPS, [True] * 3)}, dx,
        ),
    ]  # fmt: skip


def run(s: Shape, call: Call, plans: dict[str, Future[Any]]) -> dict[str, Any]:
    contenders = dict(call.peers)
    for name, plan in plans.items():
        one = runner(plan.result(), len(call.args), call.want.device)
        contenders[name] = (lambda f: lambda: f(*call.args))(one)
    size = call.want.numel() * s.dtype.itemsize
    repeats = max(2, min(20, int(6e-4 / (size * 3 / 4e12))))
    unequal = []

    def judge(made: Callable[[], Any]) -> float:
        got, again = made()[0], made()[0]
        if not torch.equal(got, again):
            unequal.append(made)
        return float((got.double() - call.want).norm() / call.want.norm())

    row = race(contenders, repeats, judge, once=SESSION.once)
    for name, made in contenders.items():
        if made in unequal:
            row["failed"][name] = "other bits in the second run"
    return {"call": f"{s.name} {call.name}", **row}


def show(row: dict[str, Any]) -> None:
    if not row["us"]:
        print(row["call"], row["failed"], flush=True)
        return
    peer = min((n for n in ("cudnn", "native") if n in row["us"]), key=row["us"].get)
    print(f"== {row['call']}: {peer} {row['us'][peer]:.1f} us (err {row['error'][peer]:.6f})")
    for n, t in sorted(row["us"].items(), key=lambda x: x[1]):
        print(f"   {row['us'][peer] / t:6.3f} {t:9.2f} us  err {row['error'][n]:.6f}  {n}")
    for n, e in row["failed"].items():
        print("   FAILED", n, e[:160])
    sys.stdout.flush()


def main() -> None:
    shapes = [s for s in SHAPES if SESSION.wants(s.name)]
    with ThreadPoolExecutor(16) as pool:
        plans = {
            s: {d: {n: pool.submit(c.build) for n, c in of.items()} for d, of in own(s).items()}
            for s in shapes
        }
        for s in shapes:
            if not SESSION.has_time(s.name):
                continue
            for call in calls_of(s):
                row = run(s, call, plans[s][call.name])
                SESSION.note(row)
                show(row)


if __name__ == "__main__":
    main()
