"""Matrix products whose A holds only the half of its elements that is not zero: `mma.sp`.

Metadata selects them: a field of two bits for every element of A names its place among four
neighbours (f16, bf16, 8 bits), or for two elements their common place among four pairs (4 bits);
for tf32 two fields name one place among two. What a product is made of beside this is as in the
dense step of A's own depth: one sum of all products and c. Here the fields become a table, which
row of B meets which element of A, and the dense steps read B through it.

The places of the fields, with g = lane / 4 and t = lane % 4 (so an H200 reads them):

    16 and 32 bits  row g in the low, row g + 8 in the high half of a word, 8 fields each; t is
                    the selector, or for 16 fields 2 * selector and the next
    4 and 8 bits    one row in a word, 16 fields: rows g of t = 2 * selector, rows g + 8 of the
                    next; for 32 fields rows g of t = 0 and 2, rows g + 8 of 1 and 3
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from weft.ir.builder import Builder, Val
from weft.ir.tensor import TensorForm, halves, low_or_high, scratch
from weft.ir.tensor_exact import IntegerStep, call_integer
from weft.ir.tensor_layout import WIDTH, shape_of
from weft.ir.tensor_operand import TensorStep
from weft.ir.tensor_step import call_step
from weft.records import dataclass

SELECTORS = {
    ("m16n8k16", 16): 4, ("m16n8k8", 32): 4,
    ("m16n8k32", 16): 2, ("m16n8k16", 32): 2, ("m16n8k32", 8): 2, ("m16n8k64", 4): 2,
    ("m16n8k64", 8): 1, ("m16n8k128", 4): 1,
}  # fmt: skip
"""The number of selectors of a shape, by the bits of an element."""

_REGISTER = 128
"""Bytes of a register of a warp."""


@dataclass(frozen=True)
class _Field:
    """A field of metadata in lane t of each four, for rows 8*half .. 8*half+7 of A."""

    t: int
    shift: int
    half: int
    number: int


@dataclass(frozen=True)
class _Pick:
    """Element k of a row of A meets row `base + factor * field` of B."""

    field: _Field
    k: int
    base: int
    factor: int = 1
    mask: int = 3


def multiply_sparse(
    b: Builder,
    form: TensorForm,
    a: Sequence[Val],
    bt: Sequence[Val],
    c: Sequence[Val],
    metadata: Val,
    selector: int,
    *,
    fast: bool,
) -> list[Val]:
    """The registers of D = A*B + C; `form` has the shape and types that PTX spells."""
    depth = shape_of(form.shape)[2] // 2
    fields = list(_fields(WIDTH[form.a], 2 * depth, selector))
    if form.a in ("e4m3", "e5m2"):
        return _fp8(b, form, a, bt, c, metadata, fields, fast)
    picks = [pick for field in fields for pick in _picks_of(form.a, field)]
    fragments = _stored(b, a, bt, c, metadata, picks)
    if form.d == "s32":
        integer = IntegerStep(form.a, form.b, 16, depth, form.saturate, sparse=True)
        call_integer(b, integer, *fragments)
    else:
        call_step(b, TensorStep(form.a, form.d, 16, depth, sparse=True), *fragments, fast=fast)
    return _loaded(b, c, fragments[3])


def _fields(width: int, k: int, selector: int) -> Iterator[_Field]:
    """All fields of elements of this width, for a product of depth k."""
    if width >= 16:
        words = (2 * k if width == 32 else k) // 16
        for i, half, f in product(range(words), range(2), range(8)):
            yield _Field(words * selector + i, 16 * half + 2 * f, half, 8 * i + f)
        return
    words = (k // 2 if width == 4 else k) // 32
    for i, half, f in product(range(words), range(2), range(16)):
        yield _Field(2 * (selector + i) + half, 2 * f, half, 16 * i + f)


def _picks_of(kind: str, field: _Field) -> list[_Pick]:
    """The choices of a field."""
    n = field.number
    if kind == "tf32":  # the upper bit of every second field; the others are redundant
        upper = replace(field, shift=field.shift + 1)
        return [_Pick(upper, n // 2, n // 2 * 2, mask=1)] if n % 2 else []
    if WIDTH[kind] == 4:
        return [_Pick(field, 2 * n + i, n // 2 * 8 + i, factor=2) for i in range(2)]
    return [_Pick(field, n, n // 2 * 4)]


def _stored(
    b: Builder, a: Sequence[Val], bt: Sequence[Val], c: Sequence[Val], metadata: Val,
    picks: Sequence[_Pick],
) -> list[Val]:  # fmt: skip
    """Pointers to A, B, C, D and the table of rows of B."""
    pointers = scratch(b, [a, bt, c], _REGISTER)
    # Behind D: the scratch area, made for f64, has room for the table of every sparse form.
    table = b.at(pointers[3], len(c) * _REGISTER)
    _store_table(b, metadata, picks, table)
    return [*pointers, table]


def store_picks(
    b: Builder, kind: str, depth: int, selector: int, metadata: Val, table: Val
) -> None:
    """Write the table of a step of `depth` products: bytes [depth][16], the rows of B."""
    fields = _fields(WIDTH[kind], 2 * depth, selector)
    picks = [pick for field in fields for pick in _picks_of(kind, field)]
    _store_table(b, metadata, picks, table)


def _store_table(b: Builder, metadata: Val, picks: Sequence[_Pick], table: Val) -> None:
    words = {t: b.shuffle(metadata, range(t, 32, 4)) for t in sorted({p.field.t for p in picks})}
    for p in picks:
        row = ((words[p.field.t] >> p.field.shift) & p.mask) * p.factor + p.base
        b.store(row.trunc("i8"), b.at(table, 16 * p.k + 8 * p.field.half), 8)


def _loaded(b: Builder, like: Sequence[Val], d: Val) -> list[Val]:
    return [b.load(v.element, 32, b.at(d, i * _REGISTER), 64) for i, v in enumerate(like)]


def _fp8(
    b: Builder,
    form: TensorForm,
    a: Sequence[Val],
    bt: Sequence[Val],
    c: Sequence[Val],
    metadata: Val,
    fields: Sequence[_Field],
    fast: bool,
) -> list[Val]:
    """Two steps on f16, of every other four neighbours of B each, and then c is added."""
    step = TensorStep("f16", "f32", 16, shape_of(form.shape)[2] // 4, sparse=True)
    d = [b.zero(v.element, v.lanes) for v in c]
    for odd in (0, 1):
        chosen = [f for f in fields if f.number // 2 % 2 == odd]
        picks = [_Pick(f, f.number // 4 * 2 + f.number % 2, f.number // 4 * 4) for f in chosen]
        near, name = low_or_high(not odd), "odd" if odd else "even"
        fours = [8 * (i // 8) * 2 + 8 * (i // 4 % 2) + 4 * odd + i % 4 for i in range(64)]
        parts = (
            [halves(b, v, form.a, *near) for v in a],
            [halves(b, v, form.b, name, fours) for v in bt],
        )
        fragments = _stored(b, *parts, d, metadata, picks)
        call_step(b, step, *fragments, fast=fast)
        d = _loaded(b, c, fragments[3])
    return [b.canonical(x + y) for x, y in zip(c, d, strict=True)]
