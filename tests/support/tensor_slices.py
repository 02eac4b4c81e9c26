"""Random copies of interleaved tensors (NC/8HWC8, NC/16HWC16), as `tensor_probes` draws plain ones.

An interleaved tensor has slices of 16 or 32 bytes of channels. The dimensions of its map begin with
W, whose elements are slices, then H and D; then come the slices of channels, and N. A copy takes
one slice of channels, whatever its box says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from tensor_probes import FLOATS, Case

MARGIN = 1 << 15
"""Bytes before the tensor: coordinates may be outside of it."""
WINDOW = 1 << 15
"""Bytes of shared memory that a case looks at."""
DRAWN = ("uint32", "float16", "uint32", "uint8", "uint32", "float32", "uint64", "tfloat32")
CHANNELS = (1, 7, 8, 9, 16, 17, 24, 32, 33, 64, 128, 256)


@dataclass(frozen=True)
class SlicedCase(Case):
    """A copy of an interleaved tensor; sizes and coordinates as its map has them."""

    @property
    def unit(self) -> int:
        """Bytes of a slice."""
        return 16 * self.interleave

    @property
    def window(self) -> int:
        return WINDOW

    @property
    def memory(self) -> int:
        return 4 * MARGIN

    @property
    def origin(self) -> int:
        return MARGIN

    @property
    def counts(self) -> tuple[int, ...]:
        """Slices of the box; im2col has pixels."""
        if self.lower is not None:
            return (self.pixels,)
        counts = [-(-b // s) for b, s in zip(self.box, self.steps, strict=True)]
        return (*counts[:-2], 1, counts[-1])

    @property
    def nbytes(self) -> int:
        return math.prod(self.counts) * self.unit

    @property
    def bound(self) -> int:
        """Bytes of shared memory, if a box had as many channels as it says."""
        if self.lower is not None:
            return -(-self.channels * self.itemsize // self.unit) * self.unit * self.pixels
        counts = [-(-b // s) for b, s in zip(self.box, self.steps, strict=True)]
        counts[-2] = -(-self.box[-2] * self.itemsize // 16)
        return math.prod(counts) * self.unit


def cases() -> list[SlicedCase]:
    """Every recorded copy."""
    rng = np.random.default_rng(40)
    found = []
    for i in range(64):
        kind = "store" if i % 4 == 3 else "load"
        found.append(tiled(rng, f"slices{i}", kind, DRAWN[i % 8], 1 + i // 32))
    found += [tiled(rng, f"slices_add{i}", "add", "uint32", 1 + i % 2) for i in range(4)]
    for i in range(64):
        kind = "store" if i % 4 == 3 else "load"
        found.append(im2col(rng, f"columns{i}", kind, DRAWN[i % 8], 1 + i // 32))
    found += [im2col(rng, f"columns_add{i}", "add", "uint32", 1 + i % 2) for i in range(4)]
    for interleave in (1, 2):
        for dtype in ("uint8", "float16", "uint32", "uint64"):
            base = tiled(rng, f"channels_{dtype}_{interleave}_", "load", dtype, interleave, rank=3)
            for count in CHANNELS:
                box = (16 // base.itemsize, count, 1)
                found.append(replace(base, name=f"{base.name}{count}", box=box, steps=(1, 1, 1)))
    return found


def tiled(
    rng: np.random.Generator, name: str, kind: str, dtype: str, interleave: int, rank: int = 0
) -> SlicedCase:
    """Draw a copy of a box."""
    while (case := _tiled(rng, name, kind, dtype, interleave, rank)).bound > WINDOW // 2:
        pass
    return case


def _tiled(
    rng: np.random.Generator, name: str, kind: str, dtype: str, interleave: int, rank: int
) -> SlicedCase:
    case = _tensor(rng, name, kind, dtype, interleave, rank)
    wide = 16 // case.itemsize  # the driver asks for 16 bytes, although W counts slices
    box = [wide * int(rng.integers(1, 3)), *(int(rng.integers(1, 5)) for _ in case.dims[1:])]
    box[-2] = int(rng.choice([1, 4, 8, 12, 16, 24, 32]))
    few = rng.random() < 0.4
    steps = tuple(int(rng.integers(1, 4)) if few else 1 for _ in box)
    outside = rng.random() < 0.5
    at = [int(rng.integers(-1, d + 1)) if outside else int(rng.integers(d)) for d in case.dims]
    at[0] = int(rng.integers(-4, case.dims[0]))
    if kind != "load":
        at = [max(0, x) for x in at]
    return replace(case, box=tuple(box), steps=steps, at=tuple(at))


def im2col(
    rng: np.random.Generator, name: str, kind: str, dtype: str, interleave: int
) -> SlicedCase:
    """Draw a copy of columns."""
    while (case := _im2col(rng, name, kind, dtype, interleave)).bound > WINDOW // 2:
        pass
    return case


def _im2col(
    rng: np.random.Generator, name: str, kind: str, dtype: str, interleave: int
) -> SlicedCase:
    case = _tensor(rng, name, kind, dtype, interleave, 0)
    space = case.dims[:-2]
    lower = tuple(int(rng.integers(-2 if kind == "load" else 0, 2)) for _ in space)
    upper = tuple(int(rng.integers(-1, 1)) for _ in space)
    few = rng.random() < 0.4
    steps = (*(int(rng.integers(1, 3)) if few else 1 for _ in space), 1, 1)
    starts = [
        int(rng.integers(lo, max(lo + 1, d + up)))
        for lo, up, d in zip(lower, upper, space, strict=True)
    ]
    at = (*starts, *(int(rng.integers(0, d)) for d in case.dims[-2:]))
    offsets = tuple(int(rng.integers(0, 3)) for _ in space) if kind == "load" else ()
    return replace(
        case, box=(), steps=steps, at=at, lower=lower, upper=upper, offsets=offsets,
        channels=16 // case.itemsize * int(rng.integers(1, 5)), pixels=int(rng.integers(1, 33)),
    )  # fmt: skip


def _tensor(
    rng: np.random.Generator, name: str, kind: str, dtype: str, interleave: int, rank: int
) -> SlicedCase:
    """A tensor, without a box."""
    unit, rank = 16 * interleave, rank or int(rng.integers(3, 6))
    space = [int(rng.integers(3, n)) for n in (13, 7, 6)[: rank - 2]]
    dims = (*space, int(rng.integers(2, 7)), int(rng.integers(1, 4)))
    strides, step = [], unit
    for d in dims[:-1]:
        step = step * d + unit * int(rng.integers(0, 2))
        strides.append(step)
    swizzle = 32 if interleave == 2 else int(rng.choice([0, 32, 64, 128]))
    nan = dtype in FLOATS and rng.random() < 0.5
    return SlicedCase(
        name, kind, dtype, dims, tuple(strides), (), (), interleave, swizzle, nan, (),
        int(rng.integers(2**31)), 1024 * int(rng.integers(0, 2)),
    )  # fmt: skip
