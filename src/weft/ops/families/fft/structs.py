"""Structs that the kernels of Fourier transforms take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from weft.kernels.structs import Float, Int, LongLong, Struct, array, defines

Numbers = tuple[int, ...]


@dataclass(frozen=True)
class Problem(Struct):
    """The elements that a pass reads and writes: strides along a transform, and along the three
    dimensions of transforms."""

    input: LongLong
    in_c: LongLong
    in_middle: LongLong
    in_outer: LongLong
    output: LongLong
    out_c: LongLong
    out_middle: LongLong
    out_outer: LongLong
    in_next: Annotated[LongLong, "from a real number to the second one of its pair"]
    out_next: LongLong
    whole: Annotated[LongLong, "the length of the whole transform, if this is one pass of it"]
    valid: Annotated[LongLong, "elements of the input that exist; the others are 0"]
    step: Annotated[Int, "element i of transform c is number i step + c shift"]
    shift: Int
    count: Int
    middle: Int
    tiles: Int
    written: Annotated[Int, "elements that are written"]
    scale: Float
    weight: Annotated[Float, "of the elements of a half spectrum that stand for two"]


@dataclass(frozen=True)
class Product(Struct):
    """Spectra: images of rows, `pitch` elements apart, of `columns` elements. A block computes
    columns of the result (i, g, j): the sum over s < terms of a(i, g, j, s) b(i, g, j, s), whose
    strides are in elements."""

    a: Annotated[Numbers, array(LongLong, 4)]
    b: Annotated[Numbers, array(LongLong, 4)]
    pitch: LongLong
    columns: Int
    tiles: Int
    groups: Int
    inner: Int
    terms: Int
    written: Int
    shift: Annotated[Int, "row r of the result is row (r - shift) mod N of the inverse transform"]
    scale: Float


STRUCTS = defines(Problem, Product)
"""The macros of all kernels of the family."""
