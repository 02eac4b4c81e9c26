"""A tensor-core step, and its reads and writes of fragments in memory.

With every register of `mma` stored as its 32 lanes, A is [K/run][rows][run], B is
[K/run][8][run], and a row of an accumulator is 8 neighbours (f16) or two runs of 4 that
interleave (f32).

In a sparse step every row of A has its own choice among the rows of B, which are twice as many: a
table of bytes [K][16] says which row of B meets element k of a row of A.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY

from weft.ir.builder import BITS, Builder, Val
from weft.ir.tensor_format import FORMATS, Format
from weft.ir.tensor_layout import N
from weft.records import dataclass


@dataclass(frozen=True)
class OperandRuns:
    """The layout of K in memory: `count` blocks, each of `width` neighbours of type `ty`."""

    ty: str
    width: int
    count: int

    @property
    def bytes(self) -> int:
        """Size of one row's run."""
        return self.width * BITS[self.ty] // 8


@dataclass(frozen=True)
class TensorStep:
    """One step on floats: operand and accumulator formats, rows, depth, and the adder.

    `fraction` bits are kept below the largest exponent; `width` overrides that of `runs`.
    `right` is the format of B where it differs from A's, of the same width. A
    sparse step has `depth` products in a sum of `2 * depth` elements.
    """

    operand: str
    accumulator: str
    rows: int
    depth: int
    width: int = 0
    fraction: int = 25
    out_mantissa: int = 23
    sparse: bool = False
    right: str = ""

    @property
    def format(self) -> Format:
        return FORMATS[self.operand]

    @property
    def format_of_b(self) -> Format:
        return FORMATS[self.right or self.operand]

    @property
    def bias(self) -> int:
        """The sum of both operands' biases."""
        return self.format.bias + self.format_of_b.bias

    @property
    def runs(self) -> OperandRuns:
        """The layout of K: four lanes of one 32-bit register hold neighbouring k."""
        width = self.width or 4 * 32 // self.format.bits
        return OperandRuns(self.format.container, width, self.depth // width)

    @property
    def runs_of_b(self) -> OperandRuns:
        return doubled(self.runs) if self.sparse else self.runs

    @property
    def name_of_operands(self) -> str:
        """An identifier of the properties that the fragments of A and B depend on."""
        tail = (f".w{self.width}" if self.width else "") + (".sp" if self.sparse else "")
        return f"{self._operands}.m{self.rows}k{self.depth}{tail}"

    @property
    def _operands(self) -> str:
        return f"{self.operand}.{self.right}" if self.right else self.operand

    @property
    def name(self) -> str:
        tail = f".w{self.width}" if self.width else ""
        tail += f".c{self.fraction}.{self.out_mantissa}" if self.fraction != 25 else ""
        tail += ".sp" if self.sparse else ""
        return f"tensor.{self._operands}.{self.accumulator}.m{self.rows}k{self.depth}{tail}"


def doubled(runs: OperandRuns) -> OperandRuns:
    """Twice as many blocks: B of a sparse step."""
    return OperandRuns(runs.ty, runs.width, 2 * runs.count)


@dataclass(frozen=True)
class Columns:
    """8 columns of B for every k, in memory `stride` bytes apart, as a row of A meets them.

    lanes  of a vector: more than 8 hold a column several times
    """

    base: Val
    ty: str
    stride: int
    picks: Val | None = None
    _: KW_ONLY
    lanes: int = N

    def load(self, b: Builder, k: int, m: Val) -> Val:
        """The columns that multiply element k of row m."""
        if self.picks is None:
            return b.load(self.ty, self.lanes, b.at(self.base, k * self.stride), 16)
        at = picked(b, self.picks, b.integer("i32", k), m) * self.stride
        return b.load(self.ty, self.lanes, b.at(self.base, at.zext("i64")), 16)


def picked(b: Builder, picks: Val, k: Val, m: Val) -> Val:
    """The row of B that element k of row m of A meets, from a sparse step's table."""
    return b.load("i8", 0, b.at(picks, (k * 16 + m).zext("i64"))).zext("i32")


def element(b: Builder, step: TensorStep, base: Val, rows: int, row: Val, k: Val) -> Val:
    """The bits of element k of a row of A, or of a column of B, which has 8 `rows`."""
    fmt, width = step.format, step.runs.width
    block, rest = b.binary("udiv", k, b.integer("i32", width)), k & (width - 1)
    index = (block * rows + row) * width + rest
    return b.load(fmt.container, 0, b.at(base, (index * (fmt.bits // 8)).zext("i64")))


def load_columns(
    b: Builder, bt: Val, runs: OperandRuns, order: Sequence[int] = range(N)
) -> list[Val]:
    """B as one vector of 8 columns for every k; runs of 16 bytes or more allow any order."""
    per, size = 128 // BITS[runs.ty], N * runs.bytes
    lo = [i // 2 + per * (i % 2) for i in range(per)]
    hi = [i + per // 2 for i in lo]
    out: list[Val] = []
    for base in (b.at(bt, i * size) for i in range(runs.count)):
        starts = (order[i // runs.bytes] * runs.bytes + i % runs.bytes for i in range(0, size, 16))
        chunks = [b.load(runs.ty, per, b.at(base, start), 16) for start in starts]
        for _ in range(3):  # each perfect shuffle moves one bit of the column below those of k
            half = len(chunks) // 2
            chunks = [
                b.shuffle(chunks[i], pick, chunks[i + half])
                for i in range(half)
                for pick in (lo, hi)
            ]
        out += _regroup(b, chunks)
    return out


def _regroup(b: Builder, chunks: list[Val]) -> list[Val]:
    """The same elements in vectors of 8."""
    per = chunks[0].lanes
    if per > N:
        return [b.shuffle(c, range(i, i + N)) for c in chunks for i in range(0, per, N)]
    k = N // per
    return [b.concat(chunks[i : i + k]) for i in range(0, len(chunks), k)]


def load_rows(
    b: Builder, a: Val, m: Val, rows: int, runs: OperandRuns, count: int = 1
) -> list[Val]:
    """`count` of `rows` rows of A, from row m on: for every block, their runs."""
    base = b.at(a, (m * runs.bytes).zext("i64"))
    places = [b.at(base, i * rows * runs.bytes) for i in range(runs.count)]
    return [b.load(runs.ty, count * runs.width, p, min(runs.bytes, 16)) for p in places]


def splats(b: Builder, runs: list[Val], count: int = 1) -> list[Val]:
    """For every k, the element of each of `count` rows in 8 lanes."""
    width = runs[0].lanes // count
    return [
        b.shuffle(v, [row * width + k for row in range(count) for _ in range(N)])
        for v in runs
        for k in range(width)
    ]


def load_accumulator(b: Builder, ty: str, c: Val, m: Val) -> Val:
    """Row m of an accumulator of `ty`: half, or a 32- or 64-bit element."""
    if ty == "half":
        return b.load(ty, N, b.at(c, (m * 16).zext("i64")), 16)
    size = 8 if ty == "double" else 4
    # Two registers hold the even and odd columns of rows 0 to 7, the next two those of rows 8 to
    # 15, which therefore begin 8 rows later in memory.
    base = b.at(c, ((m + (m & 8)) * (4 * size)).zext("i64"))
    even, odd = b.load(ty, 4, base, 16), b.load(ty, 4, b.at(base, 32 * size), 16)
    return b.shuffle(even, [i // 2 + 4 * (i % 2) for i in range(N)], odd)


def store_accumulator(b: Builder, v: Val, d: Val, m: Val) -> None:
    """Store row m of an accumulator: the inverse of `load_accumulator`."""
    if v.element == "half":
        b.store(v, b.at(d, (m * 16).zext("i64")), 16)
        return
    size = v.bits // 8
    base = b.at(d, ((m + (m & 8)) * (4 * size)).zext("i64"))
    b.store(b.shuffle(v, [0, 2, 4, 6]), base, 16)
    b.store(b.shuffle(v, [1, 3, 5, 7]), b.at(base, 32 * size), 16)
