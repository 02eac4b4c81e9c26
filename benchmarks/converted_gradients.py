"""Time backward passes of training steps with conversions and copies inside kernels, and beside.

    PYTHONPATH=src python benchmarks/converted_gradients.py [seconds] [words of calls ...]

The contenders of a call take turns in CUDA graphs: what the backend's graphs had before, first, and
the ops that take its place. A JSON line for each call goes to $OUT/converted_gradients.jsonl.
--build makes all plans on the simulated GPU and stops.
"""

from __future__ import annotations

import json
import time as clock
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import short_kernels as base
import torch
from short_kernels import BF16, Contender, Subject, chosen, drawn

import weft
from weft.ops.core import library

APART = 0.02
"""Differences from the first contender, relative to its largest number, that are printed."""
RANKED = 3
"""Candidates of a kind that are timed, the cheapest by the model first."""


# ---- norms -------------------------------------------------------------------------------------
NORMS = (
    # (layer norm, gradients of 16 bits, one of 32 bits as well, a sum after it), rows, columns
    ((True, 1, False, True), 8192, 1024),
    ((True, 1, True, False), 16384, 768),
    ((True, 3, True, False), 16384, 768),
    ((False, 2, False, True), 8192, 2048),
    ((False, 3, False, True), 8192, 2048),
)


def norms() -> Iterator[Subject]:
    for (centred, narrow, wide, added), count, n in NORMS:
        name = "layer_norm_backward" if centred else "rms_norm_backward"
        x, w = drawn(count, n), drawn(n)
        halves = [drawn(count, n, dtype=BF16) for _ in range(narrow)]
        dy, total = (drawn(count, n) if given else None for given in (wide, added))
        mean = x.mean(1) * centred
        rstd = ((x - mean[:, None]).square().mean(1) + 1e-5).rsqrt()
        statistics = (*[mean] * centred, rstd)
        padded = (*halves, *[None] * (3 - narrow))
        tensors, choice = chosen(
            f"{name}_mixed", x, w, *statistics, dy, *padded, total, [n], lowered=BF16
        )
        before = _apart(name, halves, dy, (x, w, *statistics, total, [n], True))
        found = [Contender("apart", call=before), Contender("mixed CHOSEN", choice.used.build)]
        yield Subject(f"{name} {count}x{n} of {narrow} halves", tensors, found)


@weft.fuse
def _two(a: Any, b: Any) -> Any:
    return a.float() + b.float()


@weft.fuse
def _three(a: Any, b: Any, c: Any) -> Any:
    return a.float() + b.float() + c.float()


@weft.fuse
def _four(a: Any, b: Any, c: Any, d: Any) -> Any:
    return a.float() + b.float() + c.float() + d.float()


_SUMS: dict[int, Callable[..., Any]] = {1: lambda a: a.float(), 2: _two, 3: _three, 4: _four}
"""One kernel for the sum of so many gradients."""


def _apart(name: str, halves: list[Any], dy: Any, rest: tuple[Any, ...]) -> Callable[[], Any]:
    """Conversions, the norm's gradient, and a conversion."""
    given = [*halves, *([] if dy is None else [dy])]

    def call() -> Any:
        dx, *weights = library.call(name)(_SUMS[len(given)](*given), *rest)
        return dx, *weights, dx.to(BF16)

    return call


# ---- gradients of weights ----------------------------------------------------------------------
PRODUCTS = (
    # rows and columns of the weight, rows of the batch, a bias
    (1024, 4096, 8192, True),
    (1024, 1024, 8192, True),
    (3072, 1024, 8192, True),
    (8192, 2048, 8192, False),
    (2048, 2048, 8192, False),
    (512, 2048, 8192, False),
    (768, 768, 16384, True),
    (3072, 768, 16384, True),
    (1280, 1280, 2048, False),
)


def products() -> Iterator[Subject]:
    for m, n, k, sums in PRODUCTS:
        dy, x = drawn(k, m, dtype=BF16), drawn(k, n, dtype=BF16)
        yield _stored(f"{m}x{n}x{k}{' with sums' * sums}", "matmul_wide", dy.t(), x, sums)


FILTERS = (
    # images, channels, filters, side, taps
    (8, 320, 320, 64, 3),
    (8, 640, 640, 32, 3),
    (8, 1280, 1280, 16, 3),
    (8, 1280, 1280, 8, 3),
    (8, 320, 320, 64, 1),
)


def filters() -> Iterator[Subject]:
    for n, c, k, side, taps in FILTERS:
        x, dy = (
            drawn(n, m, side, side, dtype=BF16).to(memory_format=torch.channels_last)
            for m in (c, k)
        )
        rest = ([1, 1], [taps // 2] * 2, [1, 1], 1, "fp32", True)
        name = f"{c} to {k} channels, {side}x{side}, {taps}x{taps} taps"
        yield _stored(name, "conv_backward_weight_wide", dy, x, [k, c, taps, taps], *rest)


def _stored(name: str, op: str, *args: Any) -> Subject:
    """The cheapest candidates that convert after a kernel, and those that store float32."""
    tensors, choice = chosen(op, *args)
    every = sorted((choice.used, *choice.others), key=lambda c: c.cost)
    kinds = [
        [c for c in every if c.name.endswith("converted") is after][:RANKED]
        for after in (True, False)
    ]
    found = [
        Contender(f"{c.name}{' CHOSEN' * (c == choice.used)}", c.build) for k in kinds for c in k
    ]
    return Subject(f"{op} {name}", tensors, found)


# ---- gradients side by side --------------------------------------------------------------------
ATTENTION = ((8, 16, 1024, 64, True), (8, 12, 1024, 64, True), (64, 12, 197, 64, False))


def attention() -> Iterator[Subject]:
    for batch, heads, rows, each, causal in ATTENTION:
        packed = drawn(batch, rows, 3 * heads * each, dtype=BF16)
        q, k, v = (t.unflatten(-1, (heads, each)).transpose(1, 2) for t in packed.chunk(3, dim=-1))
        dout = drawn(batch, rows, heads, each, dtype=BF16).transpose(1, 2)
        forward = _zeros if base.BUILD else library.call("attention_lse")
        out, lse = forward(q, k, v, None, 0.0, causal, None, False)
        given = (dout, None, q, k, v, out, lse, None, None, None, None)
        options = (0, 0, causal, None, False, 0.0, 0, 0, None)
        before, after = (
            _joined(f"attention_backward{end}", (*given, *options)) for end in ("", "_joined")
        )
        found = [Contender("joined by a copy", call=before), Contender("CHOSEN", call=after)]
        yield Subject(f"attention {batch}x{heads}x{rows}x{each}", (q, k, v), found)


def _zeros(q: Any, *rest: Any) -> tuple[Any, Any]:
    return torch.zeros_like(q), q.new_zeros(q.shape[:-1], dtype=torch.float32)


def _joined(name: str, args: tuple[Any, ...]) -> Callable[[], Any]:
    def call() -> Any:
        made = library.call(name)(*args)
        if not isinstance(made, tuple):
            return made
        parts = [d.transpose(1, 2).flatten(2) for d in made]
        library.function("cat_3")
        return torch.ops.weft.cat_3(*parts, 2, False)

    return call


def main() -> None:
    torch.manual_seed(0)
    makers = (norms, products, filters, attention)
    subjects = [s for make in makers for s in make()
                if not base.WORDS or any(w in s.name for w in base.WORDS)]  # fmt: skip
    with ThreadPoolExecutor(1 if base.BUILD else 15) as pool:
        made = [base.compiled(pool, s) for s in subjects]
        for subject, futures in zip(subjects, made, strict=True):
            runs = [f.result() for f in futures]
            if base.BUILD or clock.monotonic() - base.START > base.LIMIT:
                print("built" if base.BUILD else "no time left for", subject.name, flush=True)
                continue
            row = base.run(subject, runs)
            row |= {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
            with (base.OUT / "converted_gradients.jsonl").open("a") as file:
                file.write(json.dumps(row) + "\n")
            times = "; ".join(f"{t:.2f} {name}" for name, t in row["us"].items())
            bad = {n: a for n, a in row["apart"].items() if a > APART}
            print(row["call"], "|", times, bad or "", flush=True)


if __name__ == "__main__":
    main()
