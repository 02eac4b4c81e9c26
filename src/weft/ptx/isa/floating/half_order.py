"""16-bit floats by sign and order: neg, abs, min and max of f16, bf16 and their pairs."""

from __future__ import annotations

from collections.abc import Callable

from weft.ir import Builder, Val
from weft.ir.narrow import flush, is_nan
from weft.ptx.isa.columns import ResultForm
from weft.ptx.isa.floating.half import BF16, F16, MANUAL, Body, kind_of, per_half
from weft.ptx.isa.registry import instruction

_FORMS = {"neg": ResultForm.NEGATION, "min": ResultForm.MINIMUM, "max": ResultForm.MAXIMUM}
_NAN = 0x7FFF
_SIGN = 0x8000


def _sign_row(op: str) -> Callable[..., Val]:
    def row(e: Builder, a: Val, *, type: str, ftz: str = "") -> Val:
        kind = kind_of(type)

        def body(b: Builder, x: Val) -> Val:
            nan = is_nan(x, kind)
            x = flush(x, kind) if ftz else x
            return nan.select(b.integer("i16", _NAN), x & ~_SIGN if op == "abs" else x ^ _SIGN)

        return per_half(e, type, (a,), body)

    return row


for _op, _results in {"neg": ("-1.5", "0xbf80"), "abs": ("1.5", "0x3f80")}.items():
    instruction(
        f"{_op}{{.ftz}}.type  d, a",
        form=_FORMS.get(_op, ResultForm.OTHER),
        manual=MANUAL + _op,
        ftz="ftz",
        type=F16,
        vectors=[f"{_op}.f16  1.5 -> {_results[0]}", f"{_op}.f16  0xfe01 -> 0x7fff"],
    )(_sign_row(_op))
    instruction(
        f"{_op}.type  d, a",
        form=_FORMS.get(_op, ResultForm.OTHER),
        manual=MANUAL + _op,
        type=BF16,
        vectors=[f"{_op}.bf16  0x3f80 -> {_results[1]}"],
    )(_sign_row(_op))


def _ordered(bits: Val) -> Val:
    """Bits as signed integers in the order of the numbers, -0 below +0; its own inverse."""
    return bits ^ (bits.ashr(15) & 0x7FFF)


def _extreme(op: str, kind: str, ftz: str, nan: str, xorsign: str) -> Body:
    """min or max: a NaN loses against a number, or wins with `.NaN`."""
    # Patterns beyond both infinities in the order of `_ordered`: 0x7FFF above, 0xFFFF below.
    worst = _NAN if op == "min" else 0xFFFF
    best = 0xFFFF if op == "min" else _NAN

    def body(b: Builder, x: Val, y: Val) -> Val:
        if ftz:
            x, y = flush(x, kind), flush(y, kind)
        sign = (x ^ y) & _SIGN
        both = (is_nan(x, kind), is_nan(y, kind))
        if xorsign:
            x, y = x & _NAN, y & _NAN
        stand_in = b.integer("i16", best if nan else worst)
        kx, ky = (_ordered(m.select(stand_in, v)) for m, v in zip(both, (x, y), strict=True))
        out = _ordered(b.smin(kx, ky) if op == "min" else b.smax(kx, ky))
        out = out | sign if xorsign else out
        invalid = both[0] | both[1] if nan else both[0] & both[1]
        return invalid.select(b.integer("i16", _NAN), out)

    return body


def _extreme_row(op: str) -> Callable[..., Val]:
    def row(e: Builder, a: Val, b: Val, *, nan: str, xorsign: str, type: str, ftz: str = "") -> Val:
        body = _extreme(op, kind_of(type), ftz, nan, xorsign)
        return per_half(e, type, (a, b), body, f"{op}{ftz}{nan}{xorsign}")

    return row


for _op, _best in {"min": ("1.5", "-0.0", "0xbf80"), "max": ("2.25", "0.0", "0x3f80")}.items():
    instruction(
        f"{_op}{{.ftz}}{{.nan}}{{.xorsign}}{{.abs}}.type  d, a, b",
        form=_FORMS.get(_op, ResultForm.OTHER),
        manual=MANUAL + _op,
        ftz="ftz",
        nan="NaN",
        xorsign="xorsign",
        type=F16,
        vectors=[
            f"{_op}.f16  1.5 2.25 -> {_best[0]}",
            f"{_op}.f16  0.0 -0.0 -> {_best[1]}",
            f"{_op}.f16  nan 1.0 -> 1.0",
            f"{_op}.NaN.f16  nan 1.0 -> 0x7fff",
        ],
    )(_extreme_row(_op))
    instruction(
        f"{_op}{{.nan}}{{.xorsign}}{{.abs}}.type  d, a, b",
        form=_FORMS.get(_op, ResultForm.OTHER),
        manual=MANUAL + _op,
        nan="NaN",
        xorsign="xorsign",
        type=BF16,
        vectors=[f"{_op}.bf16  0x3f80 0xbf80 -> {_best[2]}"],
    )(_extreme_row(_op))
