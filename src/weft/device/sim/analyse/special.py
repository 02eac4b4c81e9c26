"""Special registers: the form of each, for a given block shape."""

from __future__ import annotations

from weft.device.base import Dim3
from weft.device.sim.analyse.form import (
    LANES,
    SOME_UNIFORM,
    Form,
    affine,
    constant,
    trailing_zeros,
    vector,
)
from weft.device.sim.layout import CLUSTER_SHIFT

MASKS = {
    "lanemask_eq": lambda i: 1 << i,
    "lanemask_lt": lambda i: (1 << i) - 1,
    "lanemask_le": lambda i: (2 << i) - 1,
    "lanemask_gt": lambda i: 0xFFFFFFFF & ~((2 << i) - 1),
    "lanemask_ge": lambda i: 0xFFFFFFFF & ~((1 << i) - 1),
}

MAX_CLUSTER = 16
"""Blocks of the largest cluster."""
CLUSTER_SIZES = ("cluster_ctaid", "cluster_nctaid", "cluster_ctarank", "cluster_nctarank")
STEADY = ("tid", "ctaid", "ntid", "nctaid", "laneid", "warpid")
"""Special registers that do not change while a warp runs."""
# As bounds of indices: `lattice.widen` needs them to know that a 32-bit index does not wrap.
MAX_GRID = {"x": 2**31 - 1, "y": 65535, "z": 65535}


def thread_form(axis: str, shape: Dim3) -> Form:
    """%tid.axis: threads are numbered x fastest, 32 consecutive ones are a warp."""
    x, y, z = shape
    size = {"x": x, "y": y, "z": z}[axis]
    if size == 1:
        return constant(0)
    if x % 32 == 0:
        if axis == "x":
            # Warps start at multiples of 32; with one warp a row, at 0, which any power of two
            # divides.
            return affine(LANES, 62 if x == 32 else 5, x - 1)
        return affine((0,) * 32, 0, size - 1)
    if y == z == 1:
        return affine(LANES, 5, x - 1) if x > 32 else affine(LANES, 62, x - 1)
    rows = 32 // x
    # Otherwise a warp may cross from one z to the next, where y starts again.
    if 32 % x == 0 and (z == 1 or y % rows == 0):
        if axis == "x":
            return affine(tuple(i % x for i in LANES), 62, x - 1)
        if axis == "y":
            return affine(tuple(i // x for i in LANES), trailing_zeros(rows), y - 1)
        return affine((0,) * 32, 0, z - 1)
    return vector(size - 1)


def cluster_address(offset: int) -> Form:
    """The form of a block's own shared address in a cluster: the rank is above the offset."""
    align = min(trailing_zeros(offset), CLUSTER_SHIFT) if offset else CLUSTER_SHIFT
    return affine((0,) * 32, align, ((MAX_CLUSTER - 1) << CLUSTER_SHIFT) + offset)


def special_form(name: str, shape: Dim3) -> Form:
    """The form of any special register."""
    kind, _, axis = name.partition(".")
    if kind == "tid":
        return thread_form(axis, shape)
    if kind == "laneid":
        return affine(LANES, 62, 31)
    if kind in MASKS:
        return vector()
    if kind == "ntid":
        return constant(shape["xyz".index(axis)])
    if kind == "ctaid":
        return affine((0,) * 32, 0, MAX_GRID[axis] - 1)
    if kind in ("nctaid", "nclusterid"):
        return affine((0,) * 32, 0, MAX_GRID[axis])
    if kind == "clusterid":
        return affine((0,) * 32, 0, MAX_GRID[axis] - 1)
    if kind in CLUSTER_SIZES:
        return affine((0,) * 32, 0, MAX_CLUSTER)
    return SOME_UNIFORM
