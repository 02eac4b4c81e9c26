"""Time int8 beside PyTorch on a GPU: quantising, products, linear layers, attention over pages.

    PYTHONPATH=src python benchmarks/int8.py [seconds] [--once] [words of calls ...]

Kinds of calls: quantise and gated (beside torch.compile of the formula), int8 (scaled_mm with
scales of rows beside torch._int_mm, which has no scales), fp8 (the same with float8_e4m3fn beside
torch._scaled_mm), linear (linear_int8 beside bfloat16), paged (attention_paged of int8 beside
bfloat16). Products of the best tiles by the model are timed as well. Calls of a graph take turns
with several sets of tensors, so that L2 holds none of them. Errors are against float64 on a part of
the rows. A JSON line for each call goes to $OUT/int8.jsonl.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
import torch.nn.functional as F
from graph_times import Session, race

import weft
from weft.ops.core import library
from weft.ops.core.runner import runner

SESSION = Session("int8", 240.0)
COLD = 200e6
"""Bytes of all sets of tensors: more than L2 holds."""
ROWS = 64
"""Rows of results that are compared with float64."""
TILES = 4
"""Candidates of a product that are timed, those with the least modelled time."""
Shape = tuple[int, int, int]
LAYERS = [(6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336)]
"""(N, K) of Llama 3 8B: qkv, out, gate and up, down."""
TOKENS = (16, 64, 256, 1024, 4096)
PRODUCTS: list[Shape] = [
    (4096, 4096, 4096),
    (8192, 8192, 8192),
    (8192, 3072, 768),
    *((tokens, *layer) for tokens in TOKENS for layer in LAYERS),
]
QUANTISED = [
    (rows, n, group)
    for rows, n in ((16, 4096), (1024, 4096), (8192, 4096), (8192, 14336), (1, 1 << 24))
    for group in (None, 128)
]
PAGED = [(1, 8192), (16, 4096), (64, 2048), (128, 1024)]
"""(sequences, keys of each) with 32 heads of queries, 8 of keys, 128 elements, pages of 64 keys."""
Calls = dict[str, Callable[..., Any]]


def error(got: Any, want: Any) -> float:
    return float((got.double() - want).norm() / want.norm())


def raced(
    kind: str, name: str, calls: Calls, sets: Sequence[tuple[Any, ...]], judge: Callable[..., float]
) -> dict[str, Any]:
    """The times of contenders that get one set of tensors after another.

    judge  the error of a result of the first set, which a contender gets first
    """
    count = 4 * len(sets)

    def turning(call: Callable[..., Any]) -> Callable[[], Any]:
        turns = itertools.cycle(sets)
        return lambda: call(*next(turns))

    contenders = {who: turning(call) for who, call in calls.items()}
    row = race(contenders, count, lambda call: judge(call()), once=SESSION.once)
    return {"kind": kind, "call": name, "sets": len(sets)} | row


def drawn(make: Callable[[], tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Sets of tensors that L2 does not hold together."""
    one = make()
    size = sum(t.numel() * t.element_size() for t in one)
    return [one, *(make() for _ in range(min(15, int(COLD / size))))]


# ---- quantise ----------------------------------------------------------------------------------
def formula(x: Any, group: int | None, dtype: Any) -> tuple[Any, Any]:
    """The definition, as a user writes it."""
    most_of = 127 if dtype is torch.int8 else torch.finfo(dtype).max
    parts = x.float().unflatten(-1, (-1, group or x.shape[-1]))
    most = parts.abs().amax(-1, keepdim=True)
    scale = torch.where(most == 0, 1.0, most / most_of)
    made = (parts / scale).clamp(-most_of, most_of)
    made = made.round() if dtype is torch.int8 else made
    return made.to(dtype).view(x.shape), scale.squeeze(-1)


def activations(rows: int, n: int) -> tuple[Any, ...]:
    return (torch.randn(rows, n, device="cuda").bfloat16(),)


def quantise_calls() -> Iterator[dict[str, Any]]:
    for (rows, n, group), dtype in itertools.product(QUANTISED, (torch.int8, torch.float8_e4m3fn)):
        name = f"quantise {rows}x{n} group {group} {dtype}".replace("torch.", "")
        if not SESSION.wants(name) or not SESSION.has_time(name):
            continue
        sets = drawn(functools.partial(activations, rows, n))
        torch._dynamo.reset()
        calls: Calls = {
            "weft": functools.partial(weft.ops.quantise, dtype=dtype, group=group),
            "compile": torch.compile(functools.partial(formula, group=group, dtype=dtype)),
        }
        each = group or n

        def judge(result: Any, x: Any = sets[0][0], each: int = each) -> float:
            q, scale = result
            return error(q.double() * scale.double().repeat_interleave(each, -1), x.double())

        row = raced("quantise", name, calls, sets, judge)
        moved = 3 * rows * n
        row["gb_s"] = {who: round(moved / us / 1e3) for who, us in row["us"].items()}
        yield row


def gated_calls() -> Iterator[dict[str, Any]]:
    for rows in TOKENS:
        name = f"gated {rows}x28672"
        if not SESSION.wants(name) or not SESSION.has_time(name):
            continue
        sets = drawn(functools.partial(activations, rows, 28672))
        torch._dynamo.reset()

        def separate(x: Any) -> Any:
            return weft.ops.quantise(weft.ops.swiglu(x), torch.int8)

        def by_torch(x: Any) -> Any:
            gate, up = x.chunk(2, -1)
            return formula(F.silu(gate) * up, None, torch.int8)

        calls: Calls = {
            "weft": lambda x: weft.ops.swiglu_quantise(x, None, torch.int8),
            "two ops": separate,
            "compile": torch.compile(by_torch),
        }
        gate, up = sets[0][0].double().chunk(2, -1)
        want = F.silu(gate) * up
        judge = functools.partial(dequantised_error, want=want)
        yield raced("gated", name, calls, sets, judge)


def dequantised_error(result: Any, want: Any) -> float:
    q, scale = result
    return error(q.double() * scale.double(), want)


# ---- products ----------------------------------------------------------------------------------
def operands(shape: Shape, kind: str) -> tuple[Any, ...]:
    m, n, k = shape
    pairs = [
        weft.ops.quantise(torch.randn(rows, k, device="cuda"), DTYPES[kind]) for rows in (m, n)
    ]
    (a, left), (b, right) = pairs
    return a, b.T, left, right.T


DTYPES = {"int8": torch.int8, "fp8": torch.float8_e4m3fn}


def tiles(kind: str, tensors: tuple[Any, ...]) -> Calls:
    """The candidates with the least modelled time, compiled side by side."""
    function = library.function("scaled_mm")
    options = {"use_fast_accum": True}
    choice = function.choice(function.request(*function.bound(tensors, options)))
    ranked = sorted((choice.used, *choice.others), key=lambda c: c.cost)[:TILES]
    with ThreadPoolExecutor(8) as pool:
        plans = list(pool.map(lambda c: c.build(), ranked))
    runs = (runner(plan, 5, tensors[0].device) for plan in plans)
    return {
        f"{number}: {c.name}": lambda *given, run=run: run(*given, None)
        for number, (c, run) in enumerate(zip(ranked, runs, strict=True))
    }


def peer(kind: str) -> Callable[..., Any]:
    if kind == "int8":
        return lambda a, b, left, right: torch._int_mm(a, b)
    return functools.partial(torch._scaled_mm, out_dtype=torch.bfloat16, use_fast_accum=True)


def product_calls(kind: str) -> Iterator[dict[str, Any]]:
    for shape in PRODUCTS:
        m, n, k = shape
        name = f"{kind} {m}x{n}x{k}"
        if not SESSION.wants(name) or not SESSION.has_time(name):
            continue
        sets = drawn(functools.partial(operands, shape, kind))
        a, b, left, right = sets[0]
        exact = a[:ROWS].double() @ b.double()
        scaled = exact * left[:ROWS] * right

        def judge(got: Any, exact: Any = exact, scaled: Any = scaled) -> float:
            return error(got[:ROWS], exact if got.dtype is torch.int32 else scaled)

        calls = {"weft": functools.partial(weft.ops.scaled_mm, use_fast_accum=True)}
        row = raced(kind, name, {**calls, "torch": peer(kind), **tiles(kind, sets[0])}, sets, judge)
        row["tops"] = {who: round(2e-6 * m * n * k / us) for who, us in row["us"].items()}
        yield row


def linear_calls() -> Iterator[dict[str, Any]]:
    for m, n, k in PRODUCTS[:2] + [s for s in PRODUCTS[3:] if s[0] in (16, 1024)]:
        name = f"linear {m}x{n}x{k}"
        if not SESSION.wants(name) or not SESSION.has_time(name):
            continue

        def make(m: int = m, n: int = n, k: int = k) -> tuple[Any, ...]:
            x, weight = (torch.randn(rows, k, device="cuda").bfloat16() for rows in (m, n))
            return x, weight, *weft.ops.quantise(weight, torch.int8)

        sets = drawn(make)
        x, weight = sets[0][:2]
        want = x[:ROWS].double() @ weight.double().T
        calls: Calls = {
            "weft": lambda x, weight, q, scale: weft.ops.linear_int8(x, q, scale),
            "weft bf16": lambda x, weight, q, scale: weft.ops.linear(x, weight),
            "torch bf16": lambda x, weight, q, scale: F.linear(x, weight),
        }
        yield raced("linear", name, calls, sets, lambda got, w=want: error(got[:ROWS], w))


# ---- attention ---------------------------------------------------------------------------------
def paged_calls() -> Iterator[dict[str, Any]]:
    for batch, keys in PAGED:
        name = f"paged {batch} x {keys}"
        if not SESSION.wants(name) or not SESSION.has_time(name):
            continue

        def make(batch: int = batch, keys: int = keys) -> tuple[Any, ...]:
            pages = batch * keys // 64
            q = torch.randn(batch, 32, 1, 128, device="cuda").bfloat16()
            cache = [torch.randn(pages, 64, 8, 128, device="cuda").bfloat16() for _ in range(2)]
            small = [t for x in cache for t in weft.ops.quantise(x, torch.int8)]
            table = torch.randperm(pages, device="cuda").int().view(batch, -1)
            lengths = torch.full((batch,), keys, device="cuda", dtype=torch.int32)
            return q, *cache, *small, table, lengths

        sets = drawn(make)

        def int8(q: Any, k: Any, v: Any, a: Any, s: Any, b: Any, t: Any, *pages: Any) -> Any:
            scales = {"key_scale": s[..., 0], "value_scale": t[..., 0]}
            return weft.ops.attention_paged(q, a, b, *pages, **scales)

        calls: Calls = {
            "int8": int8,
            "bf16": lambda q, k, v, a, s, b, t, *pages: weft.ops.attention_paged(q, k, v, *pages),
        }
        q, k, v, *_, table, _ = sets[0]
        first = [x[table[0].long()].flatten(0, 1).transpose(0, 1).double() for x in (k, v)]
        want = F.scaled_dot_product_attention(q[0].double(), first[0], first[1], enable_gqa=True)
        row = raced("paged", name, calls, sets, lambda got, w=want: error(got[0], w))
        moved = {"int8": 1 + 4 / 128, "bf16": 2.0}
        row["gb_s"] = {
            who: round(2 * batch * keys * 8 * 128 * moved[who] / us / 1e3)
            for who, us in row["us"].items()
        }
        yield row


def main() -> None:
    """Time everything."""
    first = (product_calls("int8"), paged_calls(), quantise_calls(), gated_calls())
    for row in itertools.chain(*first, linear_calls(), product_calls("fp8")):
        SESSION.note(row)
        times = ", ".join(f"{who} {us:.1f}" for who, us in row["us"].items())
        errors = ", ".join(f"{e:.1e}" for e in row["error"].values())
        print(f"{row['call']}: {times} us | errors {errors} {row['failed'] or ''}", flush=True)


if __name__ == "__main__":
    main()
