"""Measures the host time of calls under autocast, beside the same calls without it and torch's.

    python benchmarks/autocast_host.py              # tables; rows go to $OUT/autocast_host.jsonl
    python benchmarks/autocast_host.py --device cpu # one call of each on the simulated GPU: a check

Tensors are so small that the GPU is never the limit. `plain` is without autocast, all in float32;
`16 bits` is without autocast, all in bfloat16; `autocast` has weights in float32, and activations
in the dtype that they have inside of a network. Calls of one op are made in one autocast region,
where a weight is converted once. A network is called in a region of its own in every step. All ways
take turns. Kernels are compiled by processes in parallel first, into weft's cache.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

import weft
from weft import nn
from weft.ops.core.native import build

ROUNDS, SECONDS = 9, 0.02
"""Turns of each way, and the seconds that one should last."""
LOW = torch.bfloat16
Call = Callable[[], Any]


def leaf(device: str, *shape: int, dtype: torch.dtype = torch.float32) -> Any:
    return torch.rand(shape, device=device).to(dtype).requires_grad_()


def transposed(*tensors: Any) -> Any:
    return [t.transpose(1, 2) for t in tensors]


# ---- ops ---------------------------------------------------------------------------------------
Op = tuple[Callable[[str, Any, Any], list[Any]], Callable[..., Any], Callable[..., Any]]
"""(makes the tensors, given the dtypes of activations and weights; by weft; by torch)."""
OPS: dict[str, Op] = {
    "linear": (
        lambda d, x, w: [leaf(d, 64, 64, dtype=x), leaf(d, 64, 64, dtype=w), leaf(d, 64, dtype=w)],
        lambda x, w, b: weft.ops.linear(x, w, b),
        functional.linear,
    ),
    "conv2d": (
        lambda d, x, w: [leaf(d, 1, 16, 8, 8, dtype=x), leaf(d, 16, 16, 3, 3, dtype=w)],
        lambda x, w: weft.ops.conv2d(x, w, None, 1, 1),
        lambda x, w: functional.conv2d(x, w, None, 1, 1),
    ),
    "layer_norm": (
        lambda d, x, w: [leaf(d, 64, 64), leaf(d, 64), leaf(d, 64)],  # float32, as in a network
        lambda x, w, b: weft.ops.layer_norm(x, (64,), w, b),
        lambda x, w, b: functional.layer_norm(x, (64,), w, b),
    ),
    "batch_norm": (
        lambda d, x, w: [leaf(d, 2, 16, 8, 8, dtype=x), leaf(d, 16), leaf(d, 16),
                         torch.zeros(16, device=d), torch.ones(16, device=d)],
        lambda x, w, b, mean, var: weft.ops.batch_norm(x, mean, var, w, b, True),
        lambda x, w, b, mean, var: functional.batch_norm(x, mean, var, w, b, True),
    ),
    "gelu": (lambda d, x, w: [leaf(d, 64, 64, dtype=x)], lambda x: weft.ops.gelu(x),
             functional.gelu),
    "attention": (
        lambda d, x, w: transposed(*(leaf(d, 1, 32, 2, 64, dtype=x).detach() for _ in range(3))),
        lambda q, k, v: weft.ops.attention(q, k, v, is_causal=True),
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True),
    ),
    "cross_entropy": (
        lambda d, x, w: [leaf(d, 64, 64, dtype=x), torch.zeros(64, dtype=torch.long, device=d)],
        lambda x, y: weft.ops.cross_entropy(x, y),
        functional.cross_entropy,
    ),
}  # fmt: skip


def cast(device: str) -> Any:
    return torch.autocast(device, dtype=LOW)


def op_calls(name: str, device: str, backward: bool) -> dict[str, Call]:
    """The ways to make a call, by name; regions of autocast are entered by the caller."""
    make, by_weft, by_torch = OPS[name]
    calls = {}
    dtypes = {
        "plain": (torch.float32,) * 2,
        "16 bits": (LOW,) * 2,
        "autocast": (LOW, torch.float32),
    }
    for way, (x, w) in dtypes.items():
        for who, function in (("weft", by_weft), ("torch", by_torch)):
            tensors = [t.detach().requires_grad_(t.is_floating_point()) for t in make(device, x, w)]
            if name == "batch_norm":
                tensors[3:] = [t.detach() for t in tensors[3:]]
            calls[f"{who}, {way}"] = one_call(function, tensors, backward)
    return calls


def one_call(function: Any, tensors: list[Any], backward: bool) -> Call:
    wanted, state = [t for t in tensors if t.requires_grad], dict[str, Any]()

    def call() -> Any:
        if not backward:
            return function(*tensors)
        y = function(*tensors)
        if not state:
            state["one"] = torch.ones_like(y)
        return torch.autograd.grad(y, wanted, state["one"])

    return call


# ---- networks ----------------------------------------------------------------------------------
class Block(torch.nn.Module):  # type: ignore[misc]
    """A block of a transformer."""

    def __init__(self, width: int = 128, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)
        self.act = torch.nn.GELU()
        self.attend: Any = functional.scaled_dot_product_attention

    def forward(self, x: Any) -> Any:
        b, s, w = x.shape
        parts = self.qkv(self.norms[0](x)).view(b, s, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = self.attend(*parts.unbind(0), is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, s, w))
        return x + self.down(self.act(self.up(self.norms[1](x))))


def transformer() -> torch.nn.Module:
    return torch.nn.Sequential(*(Block() for _ in range(6)))


class Residual(torch.nn.Module):  # type: ignore[misc]
    """A bottleneck of ResNet-50."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        part = width // 4
        shapes = ((width, part, 1), (part, part, 3), (part, width, 1))
        self.convs = torch.nn.ModuleList(
            torch.nn.Conv2d(a, b, k, padding=k // 2, bias=False) for a, b, k in shapes
        )
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm2d(b) for _, b, _ in shapes)
        self.act = torch.nn.ReLU()

    def forward(self, x: Any) -> Any:
        y = x
        for i, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            y = norm(conv(y))
            y = self.act(y if i < 2 else y + x)
        return y


def residual() -> torch.nn.Module:
    return torch.nn.Sequential(*(Residual() for _ in range(6)))


NETWORKS: dict[str, tuple[Callable[[], torch.nn.Module], tuple[int, ...]]] = {
    "transformer": (transformer, (1, 32, 128)),
    "residual": (residual, (2, 64, 8, 8)),
}


def network_calls(name: str, device: str, backward: bool) -> dict[str, Call]:
    make, shape = NETWORKS[name]
    calls = {}
    for who in ("weft", "torch"):
        for way in ("plain", "16 bits", "autocast"):
            model = make().to(device, LOW if way == "16 bits" else torch.float32)
            if who == "weft":
                model = nn.convert(model)
                for block in model:
                    if hasattr(block, "attend"):
                        block.attend = weft.ops.attention
            x = torch.rand(shape, device=device).to(LOW if way == "16 bits" else torch.float32)
            region = cast(device) if way == "autocast" else contextlib.nullcontext()
            calls[f"{who}, {way}"] = one_step(model, x, region, backward)
    return calls


def one_step(model: Any, x: Any, region: Any, backward: bool) -> Call:
    params = list(model.parameters())

    def call() -> Any:
        with region:
            y = model(x)
        return torch.autograd.grad(y, params, torch.ones_like(y)) if backward else y

    return call


# ---- times -------------------------------------------------------------------------------------
def measured(calls: dict[str, Call], regions: dict[str, Any]) -> dict[str, float]:
    """The median microseconds of each way; `regions` are entered around a turn."""
    counts = {}
    for way, call in calls.items():
        with regions[way]:
            for _ in range(6):
                call()
            torch.cuda.synchronize()
            start = time.perf_counter()
            call()
            torch.cuda.synchronize()
        counts[way] = max(3, min(400, round(SECONDS / (time.perf_counter() - start))))
    times: dict[str, list[float]] = {way: [] for way in calls}
    order, rng = list(calls), random.Random(0)
    for _ in range(ROUNDS):
        rng.shuffle(order)
        for way in order:
            with regions[way]:
                torch.cuda.synchronize()
                start = time.perf_counter()
                for _ in range(counts[way]):
                    calls[way]()
                taken = time.perf_counter() - start
            times[way].append(taken / counts[way] * 1e6)
    torch.cuda.synchronize()
    return {way: statistics.median(t) for way, t in times.items()}


def rows() -> list[tuple[str, bool]]:
    return [(name, backward) for name in (*OPS, *NETWORKS) for backward in (False, True)]


def calls_of(name: str, device: str, backward: bool) -> tuple[dict[str, Call], dict[str, Any]]:
    if name in NETWORKS:
        calls = network_calls(name, device, backward)
        return calls, dict.fromkeys(calls, contextlib.nullcontext())
    calls = op_calls(name, device, backward)
    return calls, {
        way: cast(device) if way.endswith("autocast") else contextlib.nullcontext() for way in calls
    }


def once(name: str, device: str) -> None:
    """Make each call of an op or a network, which compiles its kernels."""
    calls, regions = calls_of(name, device, True)
    found = {}
    for way, call in calls.items():
        with regions[way]:
            for _ in range(3):
                found[way] = call()
    if name in OPS and name != "attention":
        for way in ("plain", "16 bits", "autocast"):
            for a, b in zip(found[f"weft, {way}"], found[f"torch, {way}"], strict=True):
                assert a.dtype is b.dtype, (name, way, a.dtype, b.dtype)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--once", default="", help="make the calls of one row alone")
    given = parser.parse_args()
    if given.once:
        once(given.once, given.device)
        return
    if given.device == "cpu":
        for name in (*OPS, *NETWORKS):
            once(name, "cpu")
            print(name, "right")
        return
    begin = time.perf_counter()
    command = [sys.executable, __file__, "--once"]
    started = [subprocess.Popen([*command, name]) for name in (*OPS, *NETWORKS)]
    print("compiled:", [p.wait(150) for p in started], f"{time.perf_counter() - begin:.0f} s")
    assert build.started().wait() is not None, build.started().failure
    ways = [
        f"{who}, {way}" for who in ("weft", "torch") for way in ("plain", "16 bits", "autocast")
    ]
    print(f"{'µs of the host':26}" + "".join(f"{w:>17}" for w in ways) + "  autocast/plain")
    lines = []
    for name, backward in rows():
        times = measured(*calls_of(name, "cuda", backward))
        label = f"{name}{' + backward' * backward}"
        lines.append({"call": label, "us": times})
        shown = "".join(f"{times[w]:17.1f}" for w in ways)
        ratio = times["weft, autocast"] / times["weft, plain"]
        print(f"{label:26}{shown}{ratio:10.2f}", flush=True)
    if os.environ.get("OUT"):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (Path(os.environ["OUT"]) / "autocast_host.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
