"""Tiles of matrices in shared memory that a wgmma descriptor names.

A descriptor has 64 bits: the start of the matrix, two distances, a base offset and a swizzle mode.
Matrices are made of cores of 8 x 16 bytes. Where k is contiguous ("K-major") a core is 8 rows of 16
bytes of k. Where rows are contiguous ("MN-major", 16-bit types) it is 8 values of k with 8 rows
each. The rows of a core are 16 bytes apart, or 32, 64 or 128 bytes with a swizzle of that width,
which permutes the 16-byte pieces of a row by the address of the row.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from weft.ir import Builder, Val
from weft.ptx.isa.matrix.warpgroup_form import PIECE
from weft.records import dataclass

_P, _I32, _I64 = ("ptr", 0), ("i32", 0), ("i64", 0)
CORE = 8
"""Rows of a core."""
INSIDE = -1
"""The result of a gather whose pieces were all in shared memory."""
MODE_AT = 62
"""The first bit of the swizzle mode in a descriptor."""
WIDTHS = (PIECE, 128, 64, 32)
"""Bytes from one row of a core to the next, by the swizzle mode of the descriptor."""


@dataclass(frozen=True)
class Gather:
    """A copy of 8 rows of a matrix to [pieces][8 rows][16 bytes]; pieces lie `apart`.

    turned  the matrix is MN-major
    """

    turned: bool
    pieces: int
    apart: int

    def __call__(self, b: Builder, *args: Val) -> Val:
        """(shared memory, its size, descriptor, number of the 8 rows, target) -> i64.

        The result is `INSIDE`, or the offset of a piece that is not in shared memory.
        """
        name = f"wgmma.gather{'.turned' if self.turned else ''}.{self.pieces}.{self.apart}"
        fn = b.helper(name, [_P, _I32, _I64, _I32, _P], _I64, lambda x, ps: _gather(x, self, *ps))
        return fn(*args)


@dataclass(frozen=True)
class _Fields:
    """The fields of a descriptor, in bytes."""

    start: Val
    leading: Val
    stride: Val
    base: Val
    wide: Val


def _fields(b: Builder, descriptor: Val) -> _Fields:
    def field(at: int) -> Val:
        return ((descriptor >> at).trunc("i32") & 0x3FFF) << 4

    mode, wide = (descriptor >> MODE_AT).trunc("i32"), b.integer("i32", WIDTHS[0])
    for i in (1, 2, 3):
        wide = mode.eq(i).select(b.integer("i32", WIDTHS[i]), wide)
    base = (descriptor >> 49).trunc("i32") & 7
    return _Fields(field(0), field(16), field(32), base, wide)


def _gather(
    b: Builder, what: Gather, shared: Val, size: Val, descriptor: Val, block: Val, target: Val
) -> Val:
    d = _fields(b, descriptor)
    starts = b.intrinsic("usub.sat", [size, b.integer("i32", PIECE - 1)])
    rows = b.lanes("i32", range(CORE)) * d.wide
    for c in range(what.pieces):
        offsets = _places(b, d, what.turned, block, c, rows)
        places = [b.extract(offsets, r) for r in range(CORE)]
        with b.when(b.any(offsets.uge(starts)), rare=True):
            b.ret(reduce(b.umax, places).zext("i64"))
        parts = [b.load("i16", CORE, b.at(shared, p.zext("i64")), PIECE) for p in places]
        for r, part in enumerate(_transposed(b, parts) if what.turned else parts):
            b.store(part, b.at(target, c * what.apart + r * PIECE), PIECE)
    return b.integer("i64", INSIDE)


def each_core(
    b: Builder, what: Gather, descriptor: Val, block: Val, one: Callable[[int, list[Val]], None]
) -> None:
    """`one(c, offsets)` for the 8 rows of each piece c of 16 bytes."""
    d = _fields(b, descriptor)
    rows = b.lanes("i32", range(CORE)) * d.wide
    for c in range(what.pieces):
        offsets = _places(b, d, what.turned, block, c, rows)
        one(c, [b.extract(offsets, r) for r in range(CORE)])


def _places(b: Builder, d: _Fields, turned: bool, block: Val, c: int, rows: Val) -> Val:
    """The offsets of piece c of 8 rows, which are `rows` bytes from the first."""
    raw = rows + (d.start + _core(b, d, turned, block, c))
    # The bits of the address above a line of 128 bytes change those of the piece in it.
    phase = ((raw >> 7) - d.base) << 4
    return raw ^ (phase & ((d.wide - 1) & 0x70))


def _core(b: Builder, d: _Fields, turned: bool, block: Val, c: int) -> Val:
    """The offset of the core of 8 rows and piece c of k, before the swizzle."""
    plain = d.wide.eq(PIECE)
    # The cores of a swizzled row lie side by side, as many as fit; then comes the leading distance.
    along = block if turned else b.integer("i32", c)
    fitting = b.intrinsic("cttz", [d.wide], extra="false") - 4
    swizzled = ((along & ((d.wide >> 4) - 1)) << 4) + (along >> fitting) * d.leading
    if turned:
        return plain.select(block * d.stride + d.leading * c, swizzled + d.stride * c)
    return block * d.stride + plain.select(d.leading * c, swizzled)


def _transposed(b: Builder, rows: list[Val]) -> list[Val]:
    """The columns of an 8 x 8 matrix of 16-bit elements."""
    low, high = [0, 8, 1, 9, 2, 10, 3, 11], [4, 12, 5, 13, 6, 14, 7, 15]
    for _ in range(3):  # each pass interleaves rows that are four apart
        rows = [b.shuffle(rows[i], half, rows[i + 4]) for i in range(4) for half in (low, high)]
    return rows
