"""Plans transforms along one dimension: which kernels, on which elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from weft.ops import source
from weft.ops.fourier.lengths import MOST, smooth, stages
from weft.ops.fourier.passes import Input, Output, Pass, Side
from weft.ops.layouts import merged
from weft.ops.plan import Pointer

COMPLEX = torch.complex64


@dataclass(frozen=True)
class Tensor:
    """A tensor in memory; strides in elements. `aligned` is in bytes."""

    pointer: Pointer
    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    aligned: int = 16

    @property
    def ctype(self) -> str:
        return "float2" if self.dtype is COMPLEX else source.ctype(self.dtype)

    def without(self, dim: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Sizes and strides of the other dimensions."""
        return (*self.shape[:dim], *self.shape[dim + 1 :]), (
            *self.strides[:dim], *self.strides[dim + 1 :]
        )  # fmt: skip


@dataclass(frozen=True)
class Line:
    """Transforms of length n along dimension `dim` of x, written to y.

    half    of a real tensor's spectrum, which is symmetric, only the first half is kept
    scale   of the results
    weight  of the elements of a half spectrum that stand for two: all but the first and, where n
            is even, the last
    """

    x: Tensor
    y: Tensor
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


def walk(line: Line) -> tuple[list[int], list[list[int]]] | None:
    """(sizes, [strides of x, strides of y]) of the batch in three dimensions; None: too many."""
    sizes, into = line.x.without(line.dim)
    _, out = line.y.without(line.dim)
    made = merged(sizes, [into, out])
    missing = 3 - len(made.sizes)
    if missing < 0:
        return None
    return [1] * missing + list(made.sizes), [[0] * missing + list(s) for s in made.strides]


def in_one_block(line: Line) -> bool:
    """True if one launch computes the transforms."""
    return line.length <= MOST and smooth(line.length)


def sides(line: Line, sizes: Sequence[int], strides: Sequence[Sequence[int]]) -> list[Side]:
    """Both sides of a pass; adjacent threads take adjacent transforms unless elements are."""
    made = []
    for tensor, (outer, middle, c) in zip((line.x, line.y), strides, strict=True):
        n = tensor.strides[line.dim]
        by_column = sizes[-1] > 1 and c == 1 and n != 1
        made.append(Side(tensor.pointer, n, c, middle, outer, by_column))
    return made


def single(line: Line, sizes: Sequence[int], strides: Sequence[Sequence[int]]) -> Pass:
    """The launch for a length that one block transforms."""
    into, out = sides(line, sizes, strides)
    chosen = stages(line.length)[0]
    if len(chosen.radices) == 1:  # no exchange could change the places of the threads
        into = Side(into.pointer, into.n, into.c, into.middle, into.outer, out.by_column)
    return Pass(
        chosen, sizes[2], sizes[1], sizes[0], into, out, given(line, strides[0]),
        wanted(line), line.weight,
    )  # fmt: skip


def given(line: Line, strides: Sequence[int]) -> Input:
    """What the first pass reads."""
    x, real = line.x, line.x.dtype is not COMPLEX
    if real:
        kind = "PAIRS" if line.folds else "REAL"
    elif line.y.dtype is COMPLEX:
        kind = "COMPLEX"
    else:
        kind = "FOLDED" if line.folds else "SPECTRUM"
    aligned = kind != "PAIRS" or (x.aligned >= 8 and all(s % 2 == 0 for s in strides))
    return Input(kind, x.shape[line.dim], x.ctype, line.inverse, aligned)


def wanted(line: Line) -> Output:
    """What the last pass writes."""
    if line.y.dtype is not COMPLEX:
        kind = "SPLIT" if line.folds else "PART"
    elif line.half:
        kind = "UNFOLDED" if line.folds else "HALF"
    else:
        kind = "ALL"
    return Output(kind, line.length, line.inverse, True, line.scale)
