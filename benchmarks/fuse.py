"""Times `weft.fuse` on a GPU with eager PyTorch and torch.compile: 23 expressions.

    python benchmarks/fuse.py [--record FILE.jsonl] [--small]

The expressions are ones that people write: losses, gates, norms with what comes before or after
them, masked softmax, dropout. Every contender computes the same function of the same tensors; they
take turns. A result is compared with float64 first, one with dropout with eager PyTorch of the same
seed (on a GPU the masks are equal). `--small` uses few elements, to try the script.
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


def gelu_by_hand(x: Any) -> Any:
    return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x**3)))


def geglu(a: Any, b: Any, bias_a: Any, bias_b: Any) -> Any:
    return F.gelu(a + bias_a, approximate="tanh") * (b + bias_b)


def huber(x: Any, y: Any) -> Any:
    d = (x - y).abs()
    return torch.where(d < 1, 0.5 * d * d, d - 0.5)


def focal_loss(x: Any, t: Any) -> Any:
    p = torch.sigmoid(x)
    loss = F.binary_cross_entropy_with_logits(x, t, reduction="none")
    right = p * t + (1 - p) * (1 - t)
    return (0.25 * t + 0.75 * (1 - t)) * loss * (1 - right) ** 2


def rotary(a: Any, b: Any, cos: Any, sin: Any) -> Any:
    return a * cos - b * sin, b * cos + a * sin


def adamw(p: Any, g: Any, m: Any, v: Any) -> Any:
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g * g
    p = p * (1 - 1e-3 * 0.01) - 1e-3 * (m / 0.19) / ((v / 0.002).sqrt() + 1e-8)
    return p, m, v


def bert_block(x: Any, bias: Any, r: Any, w: Any, b: Any) -> Any:
    return F.layer_norm(F.dropout(x + bias, 0.1) + r, (x.shape[-1],), w, b)


def llama_norm(x: Any, r: Any, w: Any) -> Any:
    h = (x + r).float()
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
    return w * h.to(x.dtype)


def norm_gelu(x: Any, w: Any, b: Any) -> Any:
    return F.gelu(F.layer_norm(x, (x.shape[-1],), w, b))


def modulated(x: Any, shift: Any, scale: Any) -> Any:
    return F.layer_norm(x, (x.shape[-1],)) * (1 + scale) + shift


def masked_softmax(x: Any, mask: Any) -> Any:
    return (x * 0.125).masked_fill(mask < -1.0, float("-inf")).softmax(-1)


def attention_weights(x: Any, mask: Any) -> Any:
    return F.dropout((x * 0.125 + mask).softmax(-1), 0.1)


def smoothstep(x: Any) -> Any:
    t = ((x + 1) / 2).clamp(0, 1)
    return t * t * (3 - 2 * t)


def gaussian_loss(x: Any, mean: Any, log_var: Any) -> Any:
    return 0.5 * (log_var + (x - mean) ** 2 / log_var.exp() + 1.8378770664)


def quantised(x: Any) -> Any:
    return (x * 31.75).round().clamp(-127, 127).to(torch.int8)


EXPRESSIONS: dict[str, tuple[Function, str, str]] = {
    "sigmoid(a + b * c)": (lambda a, b, c: torch.sigmoid(a + b * c), "fff", "float32"),
    "GELU by hand": (gelu_by_hand, "f", "bfloat16"),
    "GEGLU with biases": (geglu, "xxrr", "bfloat16"),
    "SwiGLU": (lambda a, b: F.silu(a) * b, "ff", "bfloat16"),
    "swish and residual": (lambda x, r: x * torch.sigmoid(x) + r, "ff", "float32"),
    "Huber loss by hand": (huber, "ff", "float32"),
    "focal loss": (focal_loss, "ff", "float32"),
    "rotary embedding": (rotary, "xxrr", "bfloat16"),
    "AdamW by hand": (adamw, "fffp", "float32"),
    "soft cap": (lambda x: 30 * torch.tanh(x / 30), "f", "bfloat16"),
    "smoothstep": (smoothstep, "f", "float32"),
    "Gaussian loss": (gaussian_loss, "fff", "float32"),
    "quantise to int8": (quantised, "f", "float32"),
    "swish, misaligned": (lambda x: x * torch.sigmoid(x), "m", "float32"),
    "bias, dropout, residual": (lambda x, b, r: F.dropout(x + b, 0.1) + r, "xrx", "bfloat16"),
    "the same and layer norm": (bert_block, "xrxrr", "bfloat16"),
    "RMS norm of LLaMA": (llama_norm, "xxr", "bfloat16"),
    "layer norm, GELU": (norm_gelu, "xrr", "bfloat16"),
    "modulated layer norm": (modulated, "xrr", "bfloat16"),
    "masked softmax": (masked_softmax, "xr", "bfloat16"),
    "attention weights": (attention_weights, "xr", "bfloat16"),
    "log-sum-exp": (lambda x: torch.logsumexp(x, -1), "x", "float32"),
    "normalise": (lambda x: F.normalize(x, dim=-1), "x", "float32"),
}
"""Name -> function, kinds of its arguments (see `_argument`), dtype."""


def _argument(kind: str, dtype: torch.dtype, small: bool, device: str) -> torch.Tensor:
    """A vector (f; p: positive, m: misaligned), rows (x), or one element for each column (r)."""
    rows, n = (8, 96) if small else ROWS
    flat = rows * n if small else ELEMENTS
    shape = {"f": (flat,), "p": (flat,), "x": (rows, n), "r": (n,), "m": (flat + 1,)}[kind]
    made = torch.randn(shape, device=device).to(dtype)
    if kind == "p":
        made.abs_()
    return made[1:] if kind == "m" else made


def _results(value: Any) -> tuple[torch.Tensor, ...]:
    return value if isinstance(value, tuple) else (value,)


def _error(function: Function, kinds: str, arguments: list[torch.Tensor], got: Any) -> float:
    """The largest error of the first results, relative to float64, or to eager for random ones."""
    count = 64 if kinds[0] == "x" else 4096  # float64 of all elements would not fit
    if "dropout" in function.__code__.co_names:
        torch.manual_seed(0)
        want = [w[:count].double() for w in _results(function(*arguments))]
    else:
        first = [a if k == "r" else a[:count] for a, k in zip(arguments, kinds, strict=True)]
        want = [w.double() for w in _results(function(*(a.double() for a in first)))]
    pairs = zip(_results(got), want, strict=True)
    return max(
        float(((g[:count].double() - w).abs() / (w.abs() + w.abs().mean())).max()) for g, w in pairs
    )


def _measure(name: str, small: bool, device: str) -> dict[str, Any]:
    function, kinds, dtype = EXPRESSIONS[name]
    arguments = [_argument(k, getattr(torch, dtype), small, device) for k in kinds]
    fused = weft.fuse(function)
    torch.manual_seed(0)
    got = fused(*arguments)
    row = {
        "name": name,
        "dtype": dtype,
        "kernels": fused.source.count("__global__"),
        "error": _error(function, kinds, arguments, got),
        "bytes": sum(t.numel() * t.element_size() for t in (*arguments, *_results(got))),
    }
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
        with open(options.record, "a", encoding="utf-8") as file:
            file.write(json.dumps({"fuse": results, **gpu.about()}) + "\n")


if __name__ == "__main__":
    main()
