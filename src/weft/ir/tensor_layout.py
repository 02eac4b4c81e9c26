"""The matrix element of each lane in each register of a matrix fragment.

`mma` fixes this in the PTX manual. `wmma` leaves it open; here a `wmma` fragment is made of the
fragments of the `mma` steps that compute it, so one rule serves both. With g = lane / 4 and
t = lane % 4, and e elements packed in a register:

    A   tiles of 16 rows (8 if the matrix has 8), then blocks of 4e columns, then halves of 8 rows:
        row g of the half, columns t*e .. t*e+e-1 of the block
    B   the same, transposed, in tiles of 8 columns
    C   tiles of 16 rows, then tiles of 8 columns, then halves of 8 rows: row g, columns 2t, 2t+1

`wmma.m8n32k16` is `wmma.m32n8k16` of the transposed matrices. `mma.m8n8k4` on f16 is different
from all: it is four products at once, one for each quad pair. An H200 holds the same elements.
"""

from __future__ import annotations

from functools import cache

WIDTH = {
    "f64": 64, "f32": 32, "s32": 32, "tf32": 32, "f16": 16, "bf16": 16,
    "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1,
}  # fmt: skip
"""Bits of one matrix element."""

N = 8
"""Columns of one step of a tensor core."""

Element = tuple[int, int]
Fragment = tuple[tuple[Element, ...], ...]
"""`fragment[slot][lane]` is (row, column); slot = register * elements per register + position."""

Shape = tuple[int, int, int]


def shape_of(name: str) -> Shape:
    """`m16n8k16` as numbers."""
    m, _, rest = name[1:].partition("n")
    n, _, k = rest.partition("k")
    return int(m), int(n), int(k)


def packed(kind: str) -> int:
    """Elements of a type in one register."""
    return max(1, 32 // WIDTH[kind])


@cache
def fragment_layout(matrix: str, shape: str, kind: str, layout: str = "") -> Fragment:
    """The fragment of matrix "a", "b", "c" or "d" for `wmma`, and for `mma` but m8n8k4 on f16.

    `layout` (row, col) says how the matrix lies in memory and changes nothing in registers.
    A `wmma` fragment of f16 has the eight registers that the manual asks for, so that small
    matrices are held several times.
    """
    if shape == "m8n32k16":
        other = fragment_layout({"a": "b", "b": "a"}.get(matrix, matrix), "m32n8k16", kind)
        return tuple(tuple((c, r) for r, c in lanes) for lanes in other)
    m, n, k = shape_of(shape)
    if matrix in "cd":
        slots = _accumulator(m, n)
    elif matrix == "a":
        slots = _operand(m, k, kind, min(m, 16))
    else:
        slots = [[(c, r) for r, c in lanes] for lanes in _operand(n, k, kind, 8)]
    if matrix in "ab" and kind == "f16" and m * n == 256:  # the shapes of wmma
        slots = slots * (16 // len(slots))
    return tuple(tuple(lanes) for lanes in slots)


def _operand(rows: int, depth: int, kind: str, tile: int) -> list[list[Element]]:
    per = packed(kind)
    return [
        [(r + half + lane // 4, k + lane % 4 * per + i) for lane in range(32)]
        for r in range(0, rows, tile)
        for k in range(0, depth, 4 * per)
        for half in range(0, tile, 8)
        for i in range(per)
    ]


def _accumulator(rows: int, columns: int) -> list[list[Element]]:
    tile = min(rows, 16)
    return [
        [(r + half + lane // 4, c + lane % 4 * 2 + i) for lane in range(32)]
        for r in range(0, rows, tile)
        for c in range(0, columns, 8)
        for half in range(0, tile, 8)
        for i in range(2)
    ]


@cache
def quad_pair_layout(matrix: str, kind: str, layout: str) -> Fragment:
    """`mma.m8n8k4` on f16; product q belongs to lanes 4q..4q+3 and 4q+16..4q+19."""
    if matrix in "cd":
        place = _quad_f32 if kind == "f32" else _quad_rows
        return tuple(tuple(place(i, lane) for lane in range(32)) for i in range(8))
    lanes_are_rows = (layout == "row") == (matrix == "a")
    place = _quad_rows if lanes_are_rows else _quad_columns
    slots = [[place(i, lane) for lane in range(32)] for i in range(4)]
    if matrix == "b":
        slots = [[(c, r) for r, c in lanes] for lanes in slots]
    return tuple(tuple(lanes) for lanes in slots)


def _quad_rows(i: int, lane: int) -> Element:
    """Each lane has a row."""
    return lane % 4 + lane // 16 * 4, i


def _quad_columns(i: int, lane: int) -> Element:
    """Each lane has half a column."""
    return i + lane // 16 * 4, lane % 4


def _quad_f32(i: int, lane: int) -> Element:
    return (lane & 1) + (i & 2) + lane // 16 * 4, (i & 4) + (lane & 2) + (i & 1)
