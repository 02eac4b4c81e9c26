"""Plans of transforms along one dimension."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from weft.ops.core.layouts import merged
from weft.ops.families.fft import model
from weft.ops.families.fft.lengths import Stages
from weft.ops.families.fft.passes import Input, Output, Pass, Side
from weft.ops.families.fft.workspace import COMPLEX, WorkspaceTensor


@dataclass(frozen=True)
class TransformLine:
    """Transforms of length n along dimension `dim` of x, written to y.

    half    of a real tensor's spectrum, which is symmetric, only the first half is stored
    scale   of the results
    weight  of the elements of a half spectrum that stand for two: all but the first and, where n
            is even, the last
    """

    x: WorkspaceTensor
    y: WorkspaceTensor
    dim: int
    n: int
    inverse: bool
    half: bool = False
    scale: float = 1.0
    weight: float = 1.0

    @property
    def folds(self) -> bool:
        """True for a real transform of even length: it is a complex one of half the length."""
        return self.half and self.n % 2 == 0

    @property
    def length(self) -> int:
        """The length of the complex transform."""
        return self.n // 2 if self.folds else self.n


def walk(line: TransformLine) -> tuple[list[int], list[list[int]]] | None:
    """(sizes, [strides of x, strides of y]) of the batch in three dimensions; None: too many."""
    sizes, into = line.x.without(line.dim)
    _, out = line.y.without(line.dim)
    made = merged(sizes, [into, out])
    missing = 3 - len(made.sizes)
    if missing < 0:
        return None
    return [1] * missing + list(made.sizes), [[0] * missing + list(s) for s in made.strides]


def sides(
    line: TransformLine, sizes: Sequence[int], strides: Sequence[Sequence[int]]
) -> list[Side]:
    """Both sides of a pass; adjacent threads take adjacent transforms unless elements are."""
    made = []
    for tensor, (outer, middle, c) in zip((line.x, line.y), strides, strict=True):
        n, pairs = tensor.strides[line.dim], line.folds and tensor.dtype is not COMPLEX
        by_column = sizes[-1] > 1 and c == 1 and n != 1
        even = all(s % 2 == 0 for s in (outer, middle, c))
        paired = pairs and n == 1 and even and tensor.aligned >= 8 and tensor.ctype == "float"
        side = Side(tensor.pointer, n, c, middle, outer, by_column, n, paired)
        made.append(replace(side, n=2 * n) if pairs else side)
    return made


def single(
    line: TransformLine, chosen: Stages, sizes: Sequence[int], strides: Sequence[Sequence[int]]
) -> Pass:
    """The only launch of a line."""
    if _joined(line, chosen, sizes, strides):
        into, out = sides(line, sizes, strides)
        return Pass(
            line.length, chosen, sizes[2], sizes[1], sizes[0], into, out, given(line),
            wanted(line), line.weight, joined=True,
        )  # fmt: skip
    if chosen.threads * sizes[2] < model.SMALL_BLOCK and sizes[1] > sizes[2]:
        # Blocks of these adjacent transforms would be small: they take others instead.
        sizes = [sizes[0], sizes[2], sizes[1]]
        strides = [[outer, c, middle] for outer, middle, c in strides]
    into, out = sides(line, sizes, strides)
    if len(chosen.radices) == 1:  # no exchange could change the places of the threads
        into = replace(into, by_column=out.by_column)
    return Pass(
        line.length, chosen, sizes[2], sizes[1], sizes[0], into, out, given(line), wanted(line),
        line.weight,
    )  # fmt: skip


def _joined(
    line: TransformLine, chosen: Stages, sizes: Sequence[int], strides: Sequence[Sequence[int]]
) -> bool:
    """True for many short rows of adjacent transforms."""
    _, rows, count = sizes
    short = (
        count >= model.SECTOR_ELEMENTS
        and count * chosen.threads < model.ROW_THREADS
        and 1 < rows < 2**31 // count
    )
    exact = chosen.n == line.length  # else Bluestein's algorithm, which has a kernel of its own
    return short and exact and all(s.by_column for s in sides(line, sizes, strides))


def given(line: TransformLine) -> Input:
    """The input of the first pass."""
    if line.x.dtype is not COMPLEX:
        kind = "PAIRS" if line.folds else "REAL"
    elif line.y.dtype is COMPLEX:
        kind = "COMPLEX"
    else:
        kind = "FOLDED" if line.folds else "SPECTRUM"
    return Input(kind, line.x.shape[line.dim], line.x.ctype, line.inverse)


def wanted(line: TransformLine) -> Output:
    """The output of the last pass."""
    if line.y.dtype is not COMPLEX:
        kind = "SPLIT" if line.folds else "PART"
    elif line.half:
        kind = "UNFOLDED" if line.folds else "HALF"
    else:
        kind = "ALL"
    return Output(kind, line.inverse, line.scale)
