"""Tables of recorded times of quantised layers, products and decoding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmark_records import rows_of

Table = Callable[..., str]
Rows = list[dict[str, Any]]
PEERS = {"F.linear bf16": "int8", "_weight_int8pack_mm": "int8", "_weight_int4pack_mm": "int4"}
"""PyTorch's functions, and the format beside which each was timed."""
TOKENS = (1, 4, 16, 64)
PRODUCTS = (
    "4096x4096x4096", "8192x8192x8192", "8192x3072x768", "64x6144x4096", "1024x28672x4096",
    "4096x28672x4096",
)  # fmt: skip
STEPS = {"weft": "bfloat16", "int8": "int8", "int4": "int4, groups of 128"}
OTHERS = {
    "torch.compile": 'PyTorch, `torch.compile(mode="reduce-overhead")`',
    "eager": "PyTorch, eager",
}


def layers(table: Table) -> str:
    """Microseconds of a layer of 8192 x 8192 by the number of tokens."""
    times = {
        (r["format"], r["m"], r["name"]): r["us"]
        for r in read("quantised")
        if r["n"] == r["k"] == 8192
    }
    body = []
    for m in TOKENS:
        own = [times[f, m, "weft"] for f in ("int8", "int4", "fp8")]
        others = [times[f, m, name] for name, f in PEERS.items()]
        body.append((f"{m} token{'s' * (m > 1)}", *map(rounded, own + others)))
    peers = ("`F.linear` of bfloat16#", *(f"`torch.{name}`#" for name in list(PEERS)[1:]))
    return table(("weights of 8192 x 8192", "int8#", "int4, groups of 128#", "e4m3#", *peers), body)


def products(table: Table) -> str:
    """Microseconds of products of 8 bits with scales of rows."""
    times = {r["call"]: r["us"] for r in read("int8")}
    body = []
    for size in PRODUCTS:
        cells = [times[f"{kind} {size}"][name] for kind in ("int8", "fp8") for name in NAMES]
        body.append((size.replace("x", " x "), *map(rounded, cells)))
    int8 = ("`scaled_mm` of int8#", "`torch._int_mm`, which has no scales#")
    fp8 = ("`scaled_mm` of e4m3, scales of rows#", "`torch._scaled_mm`#")
    return table(("M x N x K", *int8, *fp8), body)


NAMES = ("weft", "torch")


def steps(table: Table) -> str:
    """Milliseconds of a step of decoding."""
    times: dict[tuple[int, str], float] = {}
    for row in read("decoding"):
        for name, ms in row["ms"].items():
            if "format" not in row or name == "weft":
                times[row["batch"], row.get("format", name)] = ms
    body = []
    for batch in sorted({batch for batch, _ in times}):
        found = (times.get((batch, name)) for name in (*STEPS, *OTHERS))
        body.append((batch, *("" if ms is None else f"{ms:.2f}" for ms in found)))
    return table(("texts#", *(f"{name}#" for name in (*STEPS.values(), *OTHERS.values()))), body)


def invariant(table: Table) -> str:
    """Milliseconds of a batch-invariant step, and how many times those of a plain one."""
    times = {(r.get("format", "weft"), r["batch"]): r["ms"] for r in read("decoding")}
    batches = sorted({batch for _, batch in times})
    body = []
    for form, words in STEPS.items():
        found = [times[form, batch] for batch in batches]
        cells = ((ms["batch-invariant"], ms["batch-invariant"] / ms["weft"]) for ms in found)
        body.append((words, *(f"{ms:.2f} ({ratio:.2f} x)" for ms, ratio in cells)))
    head = (f"{batch} text{'s' * (batch > 1)}#" for batch in batches)
    return table(("weights", *head), body)


def read(name: str) -> Rows:
    """A record's rows; the last of a call counts."""
    return rows_of(f"{name}.jsonl")


def rounded(us: float) -> str:
    """Three digits."""
    return f"{us:.1f}" if us < 100 else f"{us:.0f}"


TABLES: dict[str, Callable[[Table], str]] = {
    "quantised_layers": layers,
    "quantised_products": products,
    "decoding_invariant": invariant,
    "decoding_steps": steps,
}
