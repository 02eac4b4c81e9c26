"""Operands of a tensor-core step, prepared once for all products that they take part in.

Kernels multiply each fragment with several others. `Fragments` keeps those that were prepared as
long as their registers are known to be the same.

A prepared fragment has three parts: values as f32, exponents, and whether one of its numbers is not
finite. Exponents are in the order of the products: 16 lanes are 8 columns of B with two rows of A
each.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from weft.ir.builder import BITS, Builder, Val
from weft.ir.tensor_format import exponent, magnitude, to_float
from weft.ir.tensor_layout import N
from weft.ir.tensor_operand import TensorStep, load_columns, load_rows
from weft.records import dataclass

PAIR = 2 * N
"""Lanes of the exponents."""

COLUMNS = {"f32": [0, 2, 4, 6, 1, 3, 5, 7], "f16": list(range(N))}
"""The order of columns, by accumulator: two registers hold the even and the odd ones of f32."""

_ALIGN = 64
_REGISTER = 128
"""Bytes of a stored register."""

KEPT = 4
"""The number of prepared fragments of a kind in a function; each takes a few KiB of the stack."""
KEPT_SUMS = 16
"""The number of sums of one size in a function; each takes 512 bytes of the stack or more."""
Prepared = tuple[Val, Val]
"""A fragment as it is and prepared, in memory."""


@dataclass(frozen=True)
class FragmentOffsets:
    """Byte offsets of the parts of a prepared fragment; values are first."""

    exponents: int
    odd: int
    size: int


def places_of_rows(step: TensorStep) -> FragmentOffsets:
    """A: values row by row, exponents of two rows side by side for every k."""
    count = step.rows * step.depth
    return _places(4 * count, count * BITS[step.format.lane] // 8)


def places_of_columns(step: TensorStep) -> FragmentOffsets:
    """B: for every k the values of 8 columns, and their exponents twice."""
    depth = step.runs_of_b.count * step.runs_of_b.width
    return _places(4 * depth * N, depth * PAIR * BITS[step.format.lane] // 8)


def _places(values: int, exponents: int) -> FragmentOffsets:
    first = -(-values // _ALIGN) * _ALIGN
    odd = first + -(-exponents // _ALIGN) * _ALIGN
    return FragmentOffsets(first, odd, odd + _ALIGN)


class Peak:
    """The extreme value seen so far in each lane."""

    def __init__(self, b: Builder, op: str, ty: str, n: int, start: int = 0) -> None:
        self.b, self.op, self.ty, self.n, self.slot = b, op, ty, n, b.alloca(ty, n, 16)
        b.store(b.splat(b.integer(ty, start), n), self.slot, 16)

    def see(self, v: Val) -> None:
        seen = self.b.load(self.ty, self.n, self.slot, 16)
        self.b.store(self.b.intrinsic(self.op, [seen, v]), self.slot, 16)

    def any(self, compare: str, limit: int) -> Val:
        seen = self.b.load(self.ty, self.n, self.slot, 16)
        return self.b.any(self.b.icmp(compare, seen, limit))


def prepare_rows(b: Builder, step: TensorStep, a: Val, to: Val) -> None:
    """Call the function that prepares A."""
    fn = b.helper(
        f"tensor.rows.{step.name_of_operands}",
        [("ptr", 0)] * 2,
        None,
        lambda inner, ps: _rows(inner, step, *ps),
    )
    fn(a, to)


def prepare_columns(b: Builder, step: TensorStep, bt: Val, to: Val) -> None:
    """Call the function that prepares B."""
    fn = b.helper(
        f"tensor.columns.{step.name_of_operands}.{step.accumulator}",
        [("ptr", 0)] * 2,
        None,
        lambda inner, ps: _columns(inner, step, *ps),
    )
    fn(bt, to)


def _rows(b: Builder, step: TensorStep, a: Val, to: Val) -> None:
    fmt, width, places = step.format, step.runs.width, places_of_rows(step)
    size, odd = 2 * BITS[fmt.lane] // 8, Peak(b, "umax", fmt.container, 2 * width)
    mixed = [row * width + k for k in range(width) for row in range(2)]
    with b.loop(step.rows // 2) as i:
        near = b.at(to, (i * (size * step.depth)).zext("i64"))
        for j, run in enumerate(load_rows(b, a, i * 2, step.rows, step.runs, 2)):
            values = to_float(b, run, fmt)
            for row in range(2):
                at = ((i * 2 + row) * (4 * step.depth) + 4 * width * j).zext("i64")
                part = b.shuffle(values, range(row * width, (row + 1) * width))
                b.store(part, b.at(to, at), 16)
            sizes = magnitude(run, fmt)
            odd.see(sizes)
            pairs = b.shuffle(exponent(b, sizes, fmt), mixed)
            b.store(pairs, b.at(near, places.exponents + j * width * size), 16)
    b.store(odd.any("uge", fmt.special).zext("i32"), b.at(to, places.odd))


def _columns(b: Builder, step: TensorStep, bt: Val, to: Val) -> None:
    fmt, places = step.format_of_b, places_of_columns(step)
    size, odd = PAIR * BITS[fmt.lane] // 8, Peak(b, "umax", fmt.container, 2 * N)
    rows = load_columns(b, bt, step.runs_of_b, COLUMNS[step.accumulator])
    for k in range(0, len(rows), 2):  # the small lanes of two rows of B fill a vector
        bits = b.concat(rows[k : k + 2])
        b.store(to_float(b, bits, fmt), b.at(to, k * 4 * N), 16)
        sizes = magnitude(bits, fmt)
        odd.see(sizes)
        # Twice, because two rows of A are handled in one vector.
        twice = b.shuffle(exponent(b, sizes, fmt), [i // 2 for i in range(2 * PAIR)])
        b.store(twice, b.at(to, places.exponents + k * size), 16)
    b.store(odd.any("uge", fmt.special).zext("i32"), b.at(to, places.odd))


class Sums:
    """The locations of products' sums, which are often the addends of others."""

    def __init__(self) -> None:
        self._kept: dict[int, dict[Hashable, Val]] = {}
        self._free: dict[int, list[Val]] = {}
        self.newest: tuple[int, Val] | None = None
        """Size and place of the sums that have no key yet."""

    def take(self, size: int, key: Hashable) -> Val | None:
        """The place of these sums, to be freed by the caller."""
        return self._kept.get(size, {}).pop(key, None)

    def room(self, b: Builder, size: int) -> Val:
        """A place for sums of a product."""
        kept, free = self._kept.setdefault(size, {}), self._free.setdefault(size, [])
        if free:
            return free.pop()
        return b.array("i8", size) if len(kept) < KEPT_SUMS else kept.pop(next(iter(kept)))

    def free(self, size: int, place: Val) -> None:
        self._free[size].append(place)

    def name(self, key: Hashable) -> None:
        """Set the key of the newest sums; None if their registers may differ from them."""
        if self.newest is None:
            return
        (size, place), self.newest = self.newest, None
        if key is None:
            self.free(size, place)
        else:
            self._kept[size][key] = place


class Fragments:
    """The prepared fragments of a function, with the contents of each."""

    def __init__(self) -> None:
        self._kept: dict[str, dict[Hashable, Prepared]] = {}
        self.sums = Sums()

    def rows(self, b: Builder, step: TensorStep, regs: Sequence[Val], key: Hashable) -> Prepared:
        """A; the same `key` means the same contents of `regs`, None unknown ones."""
        kind = f"rows.{step.name_of_operands}"
        place, known = self._place(b, kind, places_of_rows(step).size, len(regs), key)
        if not known:
            _store(b, regs, place[0])
            prepare_rows(b, step, *place)
        return place

    def columns(self, b: Builder, step: TensorStep, regs: Sequence[Val], key: Hashable) -> Prepared:
        """B, in the same way."""
        kind = f"columns.{step.name_of_operands}.{step.accumulator}"
        place, known = self._place(b, kind, places_of_columns(step).size, len(regs), key)
        if not known:
            _store(b, regs, place[0])
            prepare_columns(b, step, *place)
        return place

    def _place(
        self, b: Builder, kind: str, size: int, registers: int, key: Hashable
    ) -> tuple[Prepared, bool]:
        """The location of a fragment, and whether it is already prepared there."""
        kept = self._kept.setdefault(kind, {})
        if key is not None and key in kept:
            kept[key] = kept.pop(key)  # the one that was used last
            return kept[key], True
        if len(kept) < KEPT:
            place = b.array("i8", _REGISTER * registers), b.array("i8", size)
        else:
            place = kept.pop(next(iter(kept)))
        # Contents without a name stay in turn under one of their own.
        kept[key if key is not None else object()] = place
        return place, False


def _store(b: Builder, regs: Sequence[Val], to: Val) -> None:
    for i, v in enumerate(regs):
        b.store(v, b.at(to, i * _REGISTER), 64)
