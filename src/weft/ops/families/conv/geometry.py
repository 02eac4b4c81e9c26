"""Describe a convolution of one or two dimensions: sizes, strides, and the kernels' struct."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from weft.kernels import cdiv
from weft.ops.core.plan import Layout


class Images(NamedTuple):
    """The strides of a tensor as [batch, channel, row, column], and its alignment in bytes."""

    strides: tuple[int, int, int, int]
    aligned: int


@dataclass(frozen=True)
class Geometry:
    """A convolution y = x * weight. One dimension is two with one row.

    c, k  channels of x and y; all groups together
    pad   rows above and columns to the left of x
    """

    n: int
    c: int
    h: int
    w: int
    k: int
    r: int
    s: int
    p: int
    q: int
    groups: int
    stride: tuple[int, int]
    pad: tuple[int, int]
    dilation: tuple[int, int]

    @property
    def taps(self) -> int:
        return self.r * self.s

    @property
    def flops(self) -> int:
        return 2 * self.n * self.k * self.p * self.q * self.c // self.groups * self.taps

    @property
    def x(self) -> tuple[int, int, int, int]:
        return self.n, self.c, self.h, self.w

    @property
    def y(self) -> tuple[int, int, int, int]:
        return self.n, self.k, self.p, self.q

    @property
    def weight(self) -> tuple[int, int, int, int]:
        return self.k, self.c // self.groups, self.r, self.s

    @property
    def sparse(self) -> bool:
        """True if the gradient of x is zero but for the pixels at multiples of the stride."""
        return self.taps == 1 and self.pad == (0, 0) and self.stride != (1, 1)

    def phases(self, back: bool) -> tuple[int, int, int]:
        """(phases, their rows, their columns) of results that the same taps compute.

        Those that no tap computes are left out: see ConvJob.cleared.
        """
        if not back:
            return 1, self.p, self.q
        down, across = self.stride
        phases = 1 if self.sparse else down * across
        return phases, cdiv(self.h, down), cdiv(self.w, across)

    def _flat(self, source: Images) -> bool:
        plain = self.taps == 1 and self.stride == (1, 1) and self.pad == (0, 0)
        same = (self.p, self.q) == (self.h, self.w)
        return plain and same and dense(source.strides, self.n, self.h, self.w)

    def problem(
        self, source: Images, target: Images, *, back: bool = False, splits: int = 1,
        each: int = 0, tiles: tuple[int, int] = (1, 1), wide: bool = False, padded: int = 0,
        target_group: int = 0,
    ) -> bytes:  # fmt: skip
        """The struct Conv of window.cuh. `back` exchanges the roles of x and y.

        padded  channels of a group in a packed source, whose weights are packed as well
        """
        c, k = self.c // self.groups, self.k // self.groups
        x, y = (c, self.h, self.w), (k, self.p, self.q)
        along = (self.taps, c * self.taps) if back else (c * self.taps, self.taps)
        group = k * c * self.taps
        if padded:
            along, group = (self.taps * padded, 1), (c if back else k) * self.taps * padded
            x, y = (x, (padded, *y[1:])) if back else ((padded, *x[1:]), y)
        return struct.pack(
            "<25i4x9q", self.n, self.groups, *(y if back else x), *(x if back else y),
            self.r, self.s, *self.stride, *self.pad, *self.dilation, *along, splits, each, *tiles,
            wide, target_group, self._flat(source), *source.strides, *target.strides, group,
        )  # fmt: skip


def dense(strides: Sequence[int], n: int, h: int, w: int) -> bool:
    """True if the pixels of a batch with these strides follow each other at one distance."""
    batch, _, row, column = strides
    return (h == 1 or row == w * column) and (n == 1 or batch == h * w * column)


def spread(value: int | Sequence[int], dims: int) -> tuple[int, ...]:
    """An option for each dimension; one number holds for all."""
    values = (value,) if isinstance(value, int) else tuple(value)
    return values * dims if len(values) == 1 else values


def paddings(padding: int | Sequence[int], dims: int) -> tuple[tuple[int, int], ...]:
    """(before, after) for each dimension."""
    values = spread(padding, dims)
    if len(values) == 2 * dims:
        return tuple(zip(values[::2], values[1::2], strict=True))
    return tuple((v, v) for v in values)


def extents(
    sizes: Sequence[Any], taps: Sequence[Any], options: Mapping[str, Any]
) -> tuple[Any, ...]:
    """The spatial sizes of y. Sizes may be symbolic."""
    dims = len(sizes)
    steps, dilation = spread(options["stride"], dims), spread(options["dilation"], dims)
    pads = paddings(options["padding"], dims)
    return tuple(
        (size + sum(pad) - d * (tap - 1) - 1) // step + 1
        for size, tap, step, pad, d in zip(sizes, taps, steps, pads, dilation, strict=True)
    )


def geometry(x: Sequence[int], weight: Sequence[int], options: Mapping[str, Any]) -> Geometry:
    """The convolution of tensors with these shapes; x may lack the batch."""
    dims = len(weight) - 2
    flat = dims == 1
    stride, dilation = spread(options["stride"], dims), spread(options["dilation"], dims)
    pads = paddings(options["padding"], dims)
    sizes, taps = tuple(x[-dims:]), tuple(weight[2:])
    out = extents(sizes, taps, options)
    h, w = (1, *sizes) if flat else sizes
    r, s = (1, *taps) if flat else taps
    p, q = (1, *out) if flat else out
    return Geometry(
        n=x[0] if len(x) == dims + 2 else 1, c=x[-dims - 1], h=h, w=w, k=weight[0],
        r=r, s=s, p=p, q=q, groups=options["groups"],
        stride=(1, stride[0]) if flat else (stride[0], stride[1]),
        pad=(0, pads[0][0]) if flat else (pads[0][0], pads[1][0]),
        dilation=(1, dilation[0]) if flat else (dilation[0], dilation[1]),
    )  # fmt: skip


def images(x: Layout, dims: int) -> Images:
    """The strides of x for the kernels, with a row and a batch where it has none."""
    strides = x.strides if len(x.shape) == dims + 2 else (0, *x.strides)
    n, c, *rest = strides
    h, w = (0, rest[0]) if dims == 1 else rest
    return Images((n, c, h, w), x.aligned)


def dense_strides(shape: Sequence[int], last: bool = False) -> tuple[int, ...]:
    """The strides of a dense tensor [n, c, ...]: contiguous, or with the channels last."""
    strides = [1] * len(shape)
    order = [0, *range(2, len(shape)), 1] if last else range(len(shape))
    step = 1
    for d in reversed(list(order)):
        strides[d] = step
        step *= max(shape[d], 1)
    return tuple(strides)


def is_last(x: Layout) -> bool:
    """True for [n, c, h, w] that is dense with the channels last, and not contiguous."""
    if len(x.shape) != 4 or x.contiguous:
        return False
    (n, c, h, w), (sn, sc, sh, sw) = x.shape, x.strides
    return x._replace(shape=(n, h, w, c), strides=(sn, sh, sw, sc)).contiguous


def is_inside(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """True for [n, c, h, w] whose channels are adjacent, in pixels that are evenly apart.

    Such as some of the channels of a tensor with the channels last.
    """
    if len(shape) != 4 or shape[1] == 1:
        return False
    (n, c, h, w), (sn, sc, sh, sw) = shape, strides
    pixel = sw if w > 1 else sh if h > 1 else sn
    apart = (h == 1 or sh == w * pixel) and (n == 1 or sn == h * w * pixel)
    return sc == 1 and pixel >= c and apart and w * h > 1
