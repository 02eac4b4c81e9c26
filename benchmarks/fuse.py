"""Times `weft.fuse` on a GPU with eager PyTorch and torch.compile: 21 expressions.

    python benchmarks/fuse.py [--record FILE.jsonl] [--small]

Every contender computes the same function of the same tensors; they take turns. A result is
compared with float64 first. `--small` uses few elements, to try the script.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

import weft
from weft.ops.sweep import gpu, time

ELEMENTS = 2**27
ROWS = (2**15, 4096)
"""The shape of the expressions with reductions."""

Function = Callable[..., Any]


def _layer_norm(x: Any, w: Any, b: Any) -> Any:
    return F.layer_norm(x, (x.shape[-1],), w, b)


def _rms_norm(x: Any, r: Any, w: Any) -> Any:
    return F.rms_norm(x + r, (x.shape[-1],), w)


EXPRESSIONS: dict[str, tuple[Function, str, str]] = {
    "sigmoid(a + b * c)": (lambda a, b, c: torch.sigmoid(a + b * c), "fff", "float32"),
    "x * sigmoid(x) + r": (lambda x, r: x * torch.sigmoid(x) + r, "ff", "float32"),
    "gelu(x + bias)": (lambda x, b: F.gelu(x + b), "xr", "float32"),
    "gelu(x + bias), bf16": (lambda x, b: F.gelu(x + b), "xr", "bfloat16"),
    "gelu by tanh": (lambda x: F.gelu(x, approximate="tanh"), "f", "bfloat16"),
    "swiglu: silu(a) * b": (lambda a, b: F.silu(a) * b, "ff", "bfloat16"),
    "relu(x)^2": (lambda x: F.relu(x).square(), "f", "float32"),
    "clamp and where": (lambda x, y: torch.where(x > 0, x, y).clamp(-1, 1), "ff", "float32"),
    "lerp": (lambda a, b, c: a + (b - a) * c, "fff", "bfloat16"),
    "huber": (lambda a, b: F.huber_loss(a, b, reduction="none"), "ff", "float32"),
    "polynomial": (lambda x: ((x * 0.1 + 0.2) * x + 0.3) * x + 0.4, "f", "float32"),
    "softplus, mish": (F.mish, "f", "float32"),
    "scale by column": (lambda x, c: x * c + 1, "xc", "float32"),
    "x * sigmoid(x), misaligned": (lambda x: x * torch.sigmoid(x), "m", "float32"),
    "softmax": (lambda x: F.softmax(x * 0.5, -1), "x", "float32"),
    "softmax, bf16": (lambda x: F.softmax(x * 0.5, -1), "x", "bfloat16"),
    "log_softmax": (lambda x: F.log_softmax(x, -1), "x", "float32"),
    "layer norm, bf16": (_layer_norm, "xrr", "bfloat16"),
    "rms norm of x + r, bf16": (_rms_norm, "xxr", "bfloat16"),
    "normalise": (lambda x: x / x.norm(dim=-1, keepdim=True), "x", "float32"),
    "centre and tanh": (lambda x: torch.tanh(x - x.mean(-1, keepdim=True)), "x", "float32"),
}
"""Name -> function, kinds of its arguments (see `_argument`), dtype."""


def _argument(kind: str, dtype: torch.dtype, small: bool, device: str) -> torch.Tensor:
    rows, n = (8, 96) if small else ROWS
    flat = rows * n if small else ELEMENTS
    shape = {"f": (flat,), "x": (rows, n), "r": (n,), "c": (rows, 1), "m": (flat + 1,)}[kind]
    made = torch.randn(shape, device=device).to(dtype)
    return made[1:] if kind == "m" else made


def _measure(name: str, small: bool, device: str) -> dict[str, Any]:
    function, kinds, dtype = EXPRESSIONS[name]
    arguments = [_argument(k, getattr(torch, dtype), small, device) for k in kinds]
    fused = weft.fuse(function)
    got = fused(*arguments)
    count = 64 if kinds[0] == "x" else 4096  # float64 of all elements would not fit
    start = [a if kind == "r" else a[:count] for a, kind in zip(arguments, kinds, strict=True)]
    want = function(*(a.double() for a in start))
    error = float(((got[:count].double() - want).abs() / want.abs().clamp(min=1e-3)).max())
    row = {
        "name": name, "dtype": dtype, "kernels": fused.source.count("__global__"), "error": error,
        "bytes": sum(t.numel() * t.element_size() for t in (*arguments, got)),
    }  # fmt: skip
    if device == "cuda":
        compiled = torch.compile(function, dynamic=False)
        compiled(*arguments)
        contenders = [lambda f=f: f(*arguments) for f in (fused, function, compiled)]
        row["us"] = [round(1e6 * s, 2) for s in time.as_called(contenders)]
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record")
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    results = []
    for name in EXPRESSIONS:
        results.append(row := _measure(name, options.small or device == "cpu", device))
        us = row.get("us")
        times = (
            f"{us[0]:9.1f} µs  {us[1] / us[0]:5.2f} x eager  {us[2] / us[0]:5.2f} x compile  "
            f"{row['bytes'] / us[0] / 1e6:5.2f} TB/s"
            if us
            else ""
        )
        print(
            f"{name:28} {row['kernels']} kernel(s), error {row['error']:.1e}  {times}", flush=True
        )
    timed = [r["us"] for r in results if "us" in r]
    if timed:
        for i, peer in ((1, "eager"), (2, "compile")):
            mean = math.exp(sum(math.log(us[i] / us[0]) for us in timed) / len(timed))
            print(f"geometric mean {mean:.2f} x {peer}")
    if options.record:
        with open(options.record, "a") as file:
            file.write(json.dumps({"fuse": results, **gpu.about()}) + "\n")


if __name__ == "__main__":
    main()
