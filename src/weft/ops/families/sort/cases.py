"""Sorts, selections, searches and unique elements: random ones, and those of real models."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from weft.ops.core import library
from weft.ops.sweep import draw
from weft.ops.sweep.case import FLOATS, Case, Draw
from weft.ops.sweep.draw import Between, Call, Tensor

DTYPES = (*FLOATS, "float32", "float64", "int64", "int32", "int16", "uint8", "bool")
LOGITS = ((1, 50257), (8, 128256), (64, 32000))
"""Sequences x vocabulary, whose tokens are drawn from the most probable ones."""
EXPERTS = ((4096, 8), (16384, 64), (8192, 256))
"""Tokens x experts, of which each token has a few."""
BOXES = ((8, 21824), (1, 159882))
"""Images x scores of boxes, of which the best are kept."""


# ---- references: every order of the library is the stable one -----------------------------------
def _sort(x: Any, dim: int, descending: bool) -> Any:
    return torch.sort(x, dim=dim, descending=descending, stable=True)


def _argsort(x: Any, dim: int, descending: bool) -> Any:
    return torch.argsort(x, dim=dim, descending=descending, stable=True)


def _topk(x: Any, k: int, dim: int, largest: bool, sorted: bool) -> Any:
    return tuple(t.narrow(dim, 0, k) for t in _sort(x, dim, largest))


def _kthvalue(x: Any, k: int, dim: int, keepdim: bool) -> Any:
    found = (t.narrow(dim, k - 1, 1) for t in _sort(x, dim, False))
    return tuple(t if keepdim else t.squeeze(dim) for t in found)


# ---- calls -------------------------------------------------------------------------------------
def _rows(
    rng: random.Random, most: int, models: Sequence[tuple[int, int]], dtypes: Sequence[str]
) -> tuple[Tensor, int]:
    """A tensor and the dimension to work along."""
    known = [shape for shape in models if math.prod(shape) <= most]
    if known and rng.random() < 0.3:
        return draw.tensor(rng, rng.choice(known), rng.choice(FLOATS), plain=1.0), 1
    shape = draw.shape(rng, (1, 2, 2, 3), most)
    dim = len(shape) - 1 if rng.random() < 0.7 else rng.randrange(len(shape))
    return draw.tensor(rng, shape, rng.choice(dtypes)), dim


def _sorted(name: str, dtypes: Sequence[str] = DTYPES) -> Draw:
    def drawn(rng: random.Random, most: int) -> Call:
        x, dim = _rows(rng, most, (*LOGITS, *BOXES), dtypes)
        return Call(name, (x,), {"dim": dim, "descending": rng.random() < 0.5})

    return drawn


def _count(rng: random.Random, n: int) -> int:
    """The number of wanted elements of n: mostly few."""
    return min(n, draw.size(rng, n if rng.random() < 0.2 else min(n, 256)))


def _top(dtypes: Sequence[str] = DTYPES) -> Draw:
    def drawn(rng: random.Random, most: int) -> Call:
        # PyTorch selects no booleans.
        x, dim = _rows(rng, most, (*LOGITS, *EXPERTS, *BOXES), [d for d in dtypes if d != "bool"])
        k = _count(rng, x.shape[dim])
        options = {"largest": rng.random() < 0.8, "sorted": rng.random() < 0.8}
        return Call("topk", (x,), {"k": k, "dim": dim, **options})

    return drawn


def _kth(dtypes: Sequence[str] = DTYPES) -> Draw:
    def drawn(rng: random.Random, most: int) -> Call:
        x, dim = _rows(rng, most, LOGITS, [d for d in dtypes if d != "bool"])
        n = x.shape[dim]
        k = (n + 1) // 2 if rng.random() < 0.5 else _count(rng, n)
        return Call("kthvalue", (x,), {"k": k, "dim": dim, "keepdim": rng.random() < 0.3})

    return drawn


@dataclass(frozen=True)
class Ascending(Between):
    """Numbers in a range, sorted in rows of `row` elements."""

    row: int = 1

    def __call__(
        self, size: int, dtype: torch.dtype, device: str, generator: torch.Generator
    ) -> torch.Tensor:
        values = super().__call__(size, dtype, device, generator)
        return values.view(-1, self.row).sort(1)[0].view(-1)


def _searched(rng: random.Random, most: int) -> Call:
    dtype, batched = rng.choice((*FLOATS, "float32", "int64", "int32")), rng.random() < 0.4
    n, m = draw.size(rng, most), draw.size(rng, most)
    rows = draw.size(rng, max(1, most // max(n, m))) if batched else 1
    lead = (rows,) if batched else ()
    order = tuple(range(len(lead) + 1))
    high = 4.0 if dtype in FLOATS else float(2**20)
    sequence = Tensor((*lead, n), dtype, order, contents=Ascending(-high, high, row=n))
    values = Tensor((*lead, m), dtype, order, contents=Between(-high, high))
    options = {"right": rng.random() < 0.5, "out_int32": rng.random() < 0.3}
    return Call("searchsorted", (sequence, values), options)


def _distinct(rng: random.Random, most: int) -> Call:
    dtype = rng.choice(("int64", "int32", "uint8", "float32", "float16"))
    shape = draw.shape(rng, (1, 1, 2), most)
    values = float(draw.size(rng, 250 if dtype in ("uint8", "float16") else 2**20))
    contents: Any = "plain" if dtype == "float32" else Between(0, values)
    x = Tensor(shape, dtype, tuple(range(len(shape))), contents=contents)
    wanted = {n: rng.random() < 0.5 for n in ("return_inverse", "return_counts")}
    return Call("unique", (x,), wanted)


_SORT = Case("sort", _sorted("sort"), torch.sort, exact=True, reference=_sort)
_TOPK = Case("topk", _top(), torch.topk, exact=True, reference=_topk)
CASES = (
    _SORT,
    _SORT.with_backward(draw=_sorted("sort", FLOATS)),
    Case("argsort", _sorted("argsort"), torch.argsort, exact=True, reference=_argsort, shared=True),
    _TOPK,
    _TOPK.with_backward(draw=_top(FLOATS)),
    Case("kthvalue", _kth(), torch.kthvalue, exact=True, reference=_kthvalue, shared=True),
    Case("searchsorted", _searched, torch.searchsorted, exact=True),
    Case(
        "unique",
        _distinct,
        torch.unique,
        exact=True,
        weft=lambda x, **options: library.call("unique")(x, **options),
    ),
)
