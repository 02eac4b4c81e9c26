"""Forms with registers that have them, and whether 32 values have a form: for tests of the lattice.

What a form promises is written down here a second time, apart from the code that derives forms.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from weft.device.sim.analyse.form import (
    AFFINE,
    INDEXED,
    SPARSE,
    STRIPED,
    UNIFORM,
    VECTOR,
    ZERO,
    Form,
)

LANES = range(32)
KINDS = {
    1: (UNIFORM, VECTOR),
    32: (UNIFORM, AFFINE, VECTOR, STRIPED),
    64: (UNIFORM, AFFINE, VECTOR, INDEXED, SPARSE),
}
"""Forms that a register of some width may have; the others have the first three of the last."""
ALL_KINDS = (*KINDS[64], STRIPED)


@dataclass(frozen=True)
class Drawn:
    """A register: what is known of it, what its lanes hold, and its scalar part."""

    form: Form
    values: list[int]
    base: int

    def column(self, bits: int) -> np.ndarray:
        """Its low bits, as rows of instructions take them."""
        return np.array([v % (1 << bits) for v in self.values], np.uint64)


def signed(value: int, bits: int) -> int:
    value %= 1 << bits
    return value - (1 << bits) if value >> (bits - 1) else value


def edge(rng: random.Random, bits: int) -> int:
    """Numbers with something at stake: small, near a power of two, or any."""
    near = (1 << rng.randrange(bits + 1)) + rng.randrange(-2, 3)
    small = rng.randrange(0, 70)
    return rng.choice((near, -near, small, -small, rng.getrandbits(bits))) % (1 << bits)


def draw(rng: random.Random, bits: int, kind: int) -> Drawn:
    """A register of so many bits and one of the forms it may have."""
    top = rng.choice((None, None, min((1 << rng.randrange(bits)) + 2, (1 << (bits - 1)) - 1)))
    if bits == 1:
        top = None
    if kind == VECTOR:
        values = [edge(rng, bits) if top is None else rng.randrange(top + 1) for _ in LANES]
        return Drawn(Form(VECTOR, top=top), values, 0)
    if kind in (INDEXED, SPARSE):
        return _wide(rng, kind)
    if kind == STRIPED:
        return _stripes(rng)
    if kind == UNIFORM and rng.random() < 0.4 and bits > 1:
        value = signed(edge(rng, bits), bits)
        zeros = 62 if value == 0 else (value & -value).bit_length() - 1
        known = Form(UNIFORM, ZERO, zeros, value, value if value >= 0 else None)
        return Drawn(known, [value % (1 << bits)] * 32, value % (1 << bits))
    off = ZERO if kind == UNIFORM else _offsets(rng, bits)
    align = rng.choice((0, 0, 1, 2, 5, 7, bits - 1))
    base = edge(rng, bits) >> align << align
    if rng.random() < 0.1:
        align, base = 62, 0
    values = [(base + x) % (1 << bits) for x in off]
    top = rng.choice((None, max(values))) if max(values) < 1 << (bits - 1) else None
    return Drawn(Form(kind, off, align, None, top or None), values, base)


def _offsets(rng: random.Random, bits: int) -> tuple[int, ...]:
    """Lane offsets as kernels have them: strides, tiles, swizzles, and some without any order."""
    room = min(bits - 2, 29) - 5
    step = rng.choice((1, 2, 4, 12, -1, 1 << rng.randrange(room), 3 << rng.randrange(room - 1)))
    width = rng.choice((2, 4, 8, 16))
    shape = rng.choice(
        (
            lambda i: i * step,
            lambda i: i % width * step,
            lambda i: i // width * step,
            lambda i: (i ^ i >> 2) * step,
            lambda i: rng.randrange(1 << room) if i else 0,
        )
    )
    off = tuple(shape(i) for i in LANES)
    return off if any(off) else tuple(LANES)


def _rows(rng: random.Random) -> tuple[int, ...]:
    """A warp of several rows of a block, in order or not."""
    length, step = rng.choice((8, 16)), rng.choice((1, 2, -1, 12))
    rows = tuple(i // length * step for i in LANES)
    return rows if rng.random() < 0.7 else tuple((i // length & 1) * step for i in LANES)


def _stripes(rng: random.Random) -> Drawn:
    off, rows = _offsets(rng, 32), _rows(rng)
    base, step = edge(rng, 32), edge(rng, 32)
    values = [(base + x + step * r) % (1 << 32) for x, r in zip(off, rows, strict=True)]
    return Drawn(Form(STRIPED, off, rows=rows), values, base)


def _extended(value: int, is_signed: bool) -> int:
    return signed(value, 32) if is_signed else value % (1 << 32)


def _wide(rng: random.Random, kind: int) -> Drawn:
    """base + scale * ext(index): the scalar part is lane 0's, which nothing here relies on."""
    scale, base = rng.choice((1, 2, 4, 8, 16, 3, -4)), edge(rng, 64)
    is_signed = rng.random() < 0.5
    off = rows = ZERO
    if kind == INDEXED:
        while max(off := _offsets(rng, 32)) - min(off) >= (1 << 30) // 16:
            pass
        first, step = edge(rng, 32), edge(rng, 32)
        rows = rng.choice((ZERO, _rows(rng)))
        index = [(first + x + step * r) % (1 << 32) for x, r in zip(off, rows, strict=True)]
    else:
        index = [edge(rng, 32) for _ in LANES]
    values = [(base + scale * _extended(x, is_signed)) % (1 << 64) for x in index]
    return Drawn(Form(kind, off, scale=scale, signed=is_signed, rows=rows), values, values[0])


def broken(form: Form, values: list[int], bits: int) -> str:
    """The property of a form that the values violate; "" if there is none."""
    whole = 1 << bits
    if form.const is not None and any(v != form.const % whole for v in values):
        return f"const {form.const}"
    if form.top is not None and not all(0 <= v <= form.top < whole >> 1 for v in values):
        return f"top {form.top}"
    if form.kind == VECTOR:
        return ""
    if form.off[0] != 0 or max(form.off) - min(form.off) >= 1 << 30:
        return f"lane offsets {form.off}"
    if form.kind in (INDEXED, SPARSE):
        return "" if _has_wide(form, values) else f"{form}"
    if form.kind == STRIPED:
        far = [v - values[0] - x for v, x in zip(values, form.off, strict=True)]
        return "" if bits == 32 and _is_stepped(far, form.rows) else f"{form}"
    if any((v - values[0] - x) % whole for v, x in zip(values, form.off, strict=True)):
        return f"base + {form.off}"
    if values[0] % whole % (1 << min(form.align, bits)):
        return f"align {form.align}"
    return ""


def _is_stepped(far: list[int], rows: tuple[int, ...]) -> bool:
    """Return whether there is a step of 32 bits, which each lane has as often as its row says."""
    if any(x % (1 << 32) if r == 0 else x % (r & -r) for x, r in zip(far, rows, strict=True)):
        return False
    whole = 1 << 32
    pairs = list(zip(far, rows, strict=True))
    return all((x * q - y * r) % whole == 0 for x, r in pairs for y, q in pairs)


def _has_wide(form: Form, values: list[int]) -> bool:
    """Each lane differs from lane 0 by scale * k, and k is a difference of two 32-bit numbers."""
    zeros = 62 if form.scale == 0 else (form.scale & -form.scale).bit_length() - 1
    distances = []
    for value, off in zip(values, form.off, strict=True):
        far = (value - values[0]) % (1 << 64)
        if form.scale == 0:
            if far:
                return False
            continue
        if far % (1 << zeros):
            return False
        room = 1 << (64 - zeros)
        k = signed((far >> zeros) * pow(form.scale >> zeros, -1, room), 64 - zeros)
        distances.append(k - off)
        if abs(k) >= 1 << 32:
            return False
    return form.kind == SPARSE or form.scale == 0 or _is_stepped(distances, form.rows)
