"""Plans of transforms that do not fit into a block: the four-step algorithm, Bluestein's over it.

A transform of N = A B elements is A-point transforms down the columns of an A x B matrix, a
multiplication by roots of unity, and B-point transforms along its rows, whose results are written
transposed. Each pass reads and writes runs of adjacent elements.

Bluestein's algorithm multiplies by a chirp, convolves with the opposite chirp and multiplies again.
The convolution needs no spectrum in natural order: after the columns, one pass transforms each row,
multiplies it by the spectrum of the chirp and transforms it back, and the last one is down columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from weft.errors import ArgumentError
from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.layouts import merged
from weft.ops.core.plan import Argument, Constant, Step
from weft.ops.families.fft import model, tables
from weft.ops.families.fft.banks import room
from weft.ops.families.fft.factors import Matrix
from weft.ops.families.fft.lengths import good, of_one_block, smooth, stages
from weft.ops.families.fft.lines import TransformLine, given, walk, wanted
from weft.ops.families.fft.passes import Input, Output, Pass, Side, room_word, stages_word
from weft.ops.families.fft.structs import STRUCTS
from weft.ops.families.fft.workspace import COMPLEX, Workspace, WorkspaceTensor

BLOCK = 256
ROW_BLOCKS = 1024
"""The most blocks of a row in kernels that handle one element after another."""


def several_passes(line: TransformLine, work: Workspace) -> None:
    """Add the launches of a line."""
    y, whole = line.y, not line.half
    if whole and _side_by_side(line, work):
        return
    x = _rows(line.x, line.dim, work, whole or line.y.dtype is COMPLEX)
    last = y.with_last(line.dim)
    there = _in_place(last, work, whole)
    end = there or _flat(work.buffer(last.shape, y.dtype), math.prod(last.shape[:-1]))
    if whole:
        _transform(Rows(x, end, line.n, line.inverse, line.scale), work)
    elif y.dtype is COMPLEX:
        _half_spectrum(x, end, line, work)
    else:
        _from_half_spectrum(x, end, line, work)
    if there is None:
        # Back to the order of y's dimensions.
        made = WorkspaceTensor(end.pointer, y.dtype, last.shape, _dense(last.shape))
        order = [*range(line.dim), len(y.shape) - 1, *range(line.dim, len(y.shape) - 1)]
        shape, strides = ([t[d] for d in order] for t in (made.shape, made.strides))
        work.copy(WorkspaceTensor(end.pointer, y.dtype, tuple(shape), tuple(strides)), y.pointer)


def _dense(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def _flat(x: WorkspaceTensor, rows: int) -> WorkspaceTensor:
    return WorkspaceTensor(x.pointer, x.dtype, (rows, x.shape[-1]), (x.shape[-1], 1))


def _rows(x: WorkspaceTensor, dim: int, work: Workspace, strided: bool) -> WorkspaceTensor:
    """x as rows; copied if its strides do not allow it."""
    last = x.with_last(dim)
    made = _in_place(last, work, strided)
    return made or _flat(work.copied(last), math.prod(last.shape[:-1]))


def _in_place(last: WorkspaceTensor, work: Workspace, strided: bool) -> WorkspaceTensor | None:
    """A tensor as rows along its last dimension, where it is; None if it has to be copied.

    strided  elements of a row may be some elements apart, if the cache has room for all
    """
    batch, step = merged(last.shape[:-1], [last.strides[:-1]]), last.strides[-1]
    near = step == 1 or (
        strided and 1 < step <= model.MOST_STRIDE and last.bytes <= work.target.l2 // 2
    )
    if len(batch.sizes) > 1 or not near:
        return None
    shape, strides = (batch.sizes[0], last.shape[-1]), (batch.strides[0][0], step)
    return replace(last, shape=shape, strides=strides)


def _side_by_side(line: TransformLine, work: Workspace) -> bool:
    """Add two passes down columns, if elements of adjacent transforms are adjacent."""
    batch, n = walk(line), line.n
    if batch is None:
        return False
    (first, outer, count), strides = batch
    (_, x_outer, x_one), (_, y_outer, y_one) = strides
    made = work.passes(n, outer * count)
    pair = isinstance(made, tuple) and not isinstance(made, Matrix) and len(made) == 2
    if first > 1 or count < model.SECTOR_ELEMENTS or not x_one == y_one == 1 or not pair:
        return False
    if line.x.shape[line.dim] < n:
        return False
    assert made is not None
    a, b = made
    z, size = work.buffer((outer, n, count)), n * count
    x_n, y_n = line.x.strides[line.dim], line.y.strides[line.dim]
    passes = (
        _pass(a, (count, b, outer), Side(line.x.pointer, b * x_n, 1, x_n, x_outer, True),
              Side(z.pointer, b * count, 1, count, size, True), given(line),
              Output("TWIDDLED_BY_MIDDLE", whole=n)),
        _pass(b, (count, a, outer), Side(z.pointer, count, 1, b * count, size, True),
              Side(line.y.pointer, a * y_n, 1, y_n, y_outer, True), Input("COMPLEX", b),
              wanted(line)),
    )  # fmt: skip
    work.steps += [one.step(work.target) for one in passes]
    return True


# ---- real transforms ---------------------------------------------------------------------------
def _half_spectrum(
    x: WorkspaceTensor, y: WorkspaceTensor, line: TransformLine, work: Workspace
) -> None:
    n, rows = line.n, y.shape[0]
    if line.folds:
        z = work.buffer((rows, n // 2))
        _transform(Rows(x, z, n // 2, pairs=True), work)
        _row_by_row(work, "unfold", n // 4 + 1, z, y, (n, line.scale, line.weight))
        return
    made = work.passes(n, rows)
    if isinstance(made, Matrix):  # its last pass writes the first half
        half = Rows(x, y, n, scale=line.scale, written=n // 2 + 1, weight=line.weight)
        _convolved(half, made, work)
        return
    z = work.buffer((rows, n))
    _transform(Rows(x, z, n, scale=line.scale), work)
    _row_by_row(work, "first_half", n // 2 + 1, z, y, (n, line.weight))


def _from_half_spectrum(
    x: WorkspaceTensor, y: WorkspaceTensor, line: TransformLine, work: Workspace
) -> None:
    n, rows = line.n, y.shape[0]
    length = line.length
    z = work.buffer((rows, length))
    name = "fold" if line.folds else "both_halves"
    _row_by_row(work, name, length, x, z, (n, line.weight, x.shape[1], x.strides[0]))
    _transform(Rows(z, y, length, True, line.scale, line.folds), work)


def _row_by_row(
    work: Workspace,
    name: str,
    count: int,
    x: WorkspaceTensor,
    y: WorkspaceTensor,
    numbers: tuple[Argument, ...],
) -> None:
    kernel = source.kernel("fft/halves.cu", name, **STRUCTS)
    grid = (y.shape[0], min(ROW_BLOCKS, cdiv(count, BLOCK)))
    work.steps.append(Step(kernel, grid, (BLOCK,), (x.pointer, y.pointer, *numbers)))


# ---- complex transforms ------------------------------------------------------------------------
@dataclass(frozen=True)
class Rows:
    """Transforms of length n along the rows of x, written to y.

    pairs   2 n real numbers of a row, of x or of y, are n complex ones
    written elements of y, the first ones; 0: all
    weight  of all of them but the first
    """

    x: WorkspaceTensor
    y: WorkspaceTensor
    n: int
    inverse: bool = False
    scale: float = 1.0
    pairs: bool = False
    written: int = 0
    weight: float = 1.0


def _transform(rows: Rows, work: Workspace) -> None:
    made = work.passes(rows.n, rows.y.shape[0])
    if isinstance(made, Matrix):
        _convolved(rows, made, work)
    elif made:
        _steps(rows, made, work)
    elif smooth(rows.n):
        raise ArgumentError(
            "weft.ops: a Fourier transform is too long",
            got=f"{rows.n} elements",
            allowed="products of three lengths up to 4096",
        )
    else:
        _bluestein(rows, work)


def _steps(rows: Rows, factors: Sequence[int], work: Workspace) -> None:
    """Two passes, or three: the passes but the last are down columns."""
    n = rows.n
    first, *middle, last = factors
    rest = n // first
    count = rows.y.shape[0]
    z = work.buffer((count, n))
    columns = Side(z.pointer, rest, 1, 0, n, True)
    made = [
        _pass(first, (rest, 1, count), _source(rows, rest), columns, _input(rows, rest),
              Output("TWIDDLED", whole=n))
    ]  # fmt: skip
    for length in middle:
        down = Side(z.pointer, last, 1, rest, n, True)
        made.append(
            _pass(length, (last, first, count), down, down, Input("COMPLEX", length),
                  Output("TWIDDLED", whole=rest))
        )  # fmt: skip
    others = rest // last
    along = Side(z.pointer, 1, rest, last, n)
    made.append(
        _pass(last, (first, others, count), along, _result(rows, first, first * others),
              Input("COMPLEX", last), _output(rows))
    )  # fmt: skip
    work.steps += [one.step(work.target) for one in made]


def _pass(
    length: int, counts: tuple[int, int, int], x: Side, y: Side, reads: Input, writes: Output
) -> Pass:
    chosen = of_one_block(length)
    assert chosen is not None  # factors() gives such lengths
    return Pass(length, chosen, *counts, x, y, reads, writes)


def _source(rows: Rows, rest: int) -> Side:
    """The columns of x's rows as matrices with `rest` columns."""
    x = rows.x
    outer, one = x.strides
    pairs = rows.pairs and x.dtype is not COMPLEX
    vector = pairs and one == 1 and x.ctype == "float" and x.aligned >= 8 and outer % 2 == 0
    step = 2 * one if pairs else one
    return Side(x.pointer, rest * step, step, 0, outer, True, one, vector)


def _input(rows: Rows, rest: int) -> Input:
    real = rows.x.dtype is not COMPLEX
    kind = "COMPLEX" if not real else "PAIRS" if rows.pairs else "REAL"
    return Input(kind, rows.x.shape[1], rows.x.ctype, rows.inverse, rest, 1)


def _result(rows: Rows, middle: int, step: int) -> Side:
    """Element k of transform (c, m) is c + m middle + k step of y's row."""
    outer, one = rows.y.strides
    pairs = rows.pairs and rows.y.dtype is not COMPLEX
    by = 2 * one if pairs else one
    return Side(rows.y.pointer, step * by, by, middle * by, outer, True, one, pairs and one == 1)


def _output(rows: Rows) -> Output:
    real = rows.y.dtype is not COMPLEX
    kind = "ALL" if not real else "SPLIT" if rows.pairs else "PART"
    return Output(kind, rows.inverse, rows.scale)


def _convolved(rows: Rows, matrix: Matrix, work: Workspace) -> None:
    """Bluestein's algorithm: columns, rows there and back, columns."""
    count, (a, b), length = rows.y.shape[0], matrix, matrix.elements
    z, chirp = work.buffer((count, length)), tables.chirp(rows.n)
    columns = Side(z.pointer, b, 1, 0, length, True)
    into, out = (
        Output("TWIDDLED", whole=length),
        replace(_output(rows), whole=rows.written or rows.n),
    )
    given = Input("COMPLEX", length, step=b, shift=1)
    first = _pass(a, (b, 1, count), _source(rows, b), columns, _input(rows, b), into)
    last = _pass(a, (b, 1, count), columns, _result(rows, 0, b), given, out)
    work.steps += [
        replace(first, chirp=chirp).step(work.target),
        _filtered(z, rows.n, matrix),
        replace(last, chirp=chirp, weight=rows.weight).step(work.target),
    ]


def _filtered(z: WorkspaceTensor, n: int, matrix: Matrix) -> Step:
    """Transform rows, multiply them by the spectrum of the chirp and transform them back."""
    made = stages(matrix.columns)[0]
    back = made.reversed()
    place = room(made, 1, False, False)
    words = (stages_word(made), stages_word(back), room_word(place))
    args = (z.pointer, matrix.rows, tables.stage_roots(made), tables.stage_roots(back),
            tables.chirp_spectrum(n, matrix.elements, matrix.rows))  # fmt: skip
    kernel = source.kernel("fft/transform.cu", f"filtered<{', '.join(words)}>", **STRUCTS)
    grid = (matrix.rows * z.shape[0],)
    return Step(kernel, grid, (made.threads,), args, place.bytes)


def _bluestein(rows: Rows, work: Workspace) -> None:
    """The same for lengths whose matrix has rows that no block holds, by whole transforms."""
    x, y, n = rows.x, rows.y, rows.n
    assert x.strides[1] == y.strides[1] == 1  # so long rows fill more than the cache
    length = good(2 * n - 1)
    a, b = work.buffer((y.shape[0], length)), work.buffer((y.shape[0], length))
    chirp, spectrum = tables.chirp(n), tables.chirp_spectrum(n, length)
    _multiply(work, x, a, chirp, min(n, x.shape[1]), (rows.inverse, False))
    _transform(Rows(a, b, length), work)
    # Swapped real and imaginary parts make the second transform an inverse one.
    _multiply(work, b, a, spectrum, length, (False, True))
    _transform(Rows(a, b, length), work)
    _multiply(work, b, y, chirp, n, (True, rows.inverse), rows.scale)


def _multiply(
    work: Workspace,
    x: WorkspaceTensor,
    y: WorkspaceTensor,
    table: Constant,
    count: int,
    swap: tuple[bool, bool],
    scale: float = 1.0,
) -> None:
    words = (x.ctype, y.ctype, *(str(s).lower() for s in swap))
    numbers = (table, x.strides[0], count, y.shape[1], scale)
    _row_by_row(work, f"multiply<{', '.join(words)}>", y.shape[1], x, y, numbers)
