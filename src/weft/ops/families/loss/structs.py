"""Structs that the kernels of losses take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from weft.kernels.structs import Float, Int, LongLong, Struct, Unsigned, defines


@dataclass(frozen=True)
class Classes(Struct):
    """A loss with labels."""

    count: Annotated[LongLong, "labels"]
    inner: Annotated[LongLong, "labels that follow each other behind the dimension of the classes"]
    stride: Annotated[LongLong, "from one row of logits to the next"]
    ignore: Annotated[LongLong, "the label that does not count"]
    n: Annotated[Int, "classes"]
    reduction: Int
    smoothing: Float
    upstream_step: Annotated[Int, "0 if all labels share one gradient of the loss"]


@dataclass(frozen=True)
class LogitStrides(Struct):
    """Strides of log-probabilities: of a row and of a class, and of the two dimensions behind that
    of the classes, of which the second has `last` elements."""

    row: LongLong
    step: LongLong
    last: LongLong
    far: LongLong
    near: LongLong


@dataclass(frozen=True)
class Tiles(Struct):
    """The division of classes among the threads of a block, along a dimension with `inner` elements
    behind it: to each of `width` neighbours `deep` threads. Where `width` is all of them, it takes
    several such planes at once, which are neighbours in memory too."""

    width: Int
    deep: Int
    planes: Int
    beside: Annotated[Unsigned, "tiles beside each other in a plane"]
    count: Annotated[Unsigned, "all tiles"]


@dataclass(frozen=True)
class Pairs(Struct):
    """A loss of pairs of numbers."""

    n: LongLong
    weights: Annotated[LongLong, "elements after which `weight` repeats"]
    second: Annotated[LongLong, "elements after which `second` repeats"]
    option: Float
    scale: Annotated[Float, "of the sum"]
    upstream_step: Annotated[Int, "0 if all elements share one gradient of the loss"]
    row: Annotated[LongLong, "with GAPS: elements of a row"]
    x_gap: Annotated[LongLong, "elements between it and its next"]
    t_gap: LongLong


STRUCTS = defines(Classes, LogitStrides, Tiles, Pairs)
"""The macros of all kernels of the family."""
