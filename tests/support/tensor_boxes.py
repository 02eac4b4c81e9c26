"""A model of tensor copies, element by element: which bytes of a tensor and of shared memory meet.

Written from the manual and what an H200 answered, without weft's code.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from tensor_probes import Case, staged, tensor
from tensor_slices import SlicedCase

NAN = 0x7FF7
"""The 16 bits of which all NaNs outside a tensor consist."""


def elements(case: Case) -> Iterator[tuple[int, int | None]]:
    """(byte in shared memory, byte in the tensor or None outside) of each element of the box."""
    if isinstance(case, SlicedCase):
        yield from slice_elements(case)
        return
    lines = tiled_lines(case) if case.lower is None else column_lines(case)
    count, size = case.counts[0], case.itemsize
    pitch = max(count * size, case.swizzle)
    for number, (start, inside) in enumerate(lines):
        width = case.dims[0]
        if case.kind != "load":  # units of 16 bytes are stored as a whole
            width = -(-width * size // 16) * 16 // size
        for i in range(count):
            here = inside and 0 <= case.at[0] + i < width
            place = case.shift + number * pitch + i * size
            yield swizzled(place, case.swizzle), start + (case.at[0] + i) * size if here else None


def swizzled(place: int, span: int) -> int:
    """The units of 16 bytes of a span are exchanged by the number of the 128 bytes they are in."""
    unit = place // 16
    return (unit ^ (unit // 8 % 8 % max(span // 16, 1))) * 16 + place % 16


def tiled_lines(case: Case) -> Iterator[tuple[int, bool]]:
    """(byte of the line's element 0, whether the line is inside the tensor)."""
    outer = [range(n) for n in case.counts[1:]]
    for index in itertools.product(*reversed(outer)):
        at = [a + i * s for a, i, s in zip(case.at[1:], index[::-1], case.steps[1:], strict=True)]
        inside = all(0 <= x < d for x, d in zip(at, case.dims[1:], strict=True))
        yield sum(x * s for x, s in zip(at, case.strides, strict=True)), inside


def column_lines(case: Case) -> Iterator[tuple[int, bool]]:
    """The same of an im2col copy, whose lines are the channels of a pixel."""
    *at, n = case.at[1:]
    for place in pixels(case, at, n, case.dims[1:-1], case.steps[1:-1]):
        inside = all(0 <= x < d for x, d in zip(place, case.dims[1:], strict=True))
        yield sum(x * s for x, s in zip(place, case.strides, strict=True)), inside


def pixels(
    case: Case, at: list[int], n: int, dims: tuple[int, ...], steps: tuple[int, ...]
) -> Iterator[list[int]]:
    """The pixels of an im2col copy: W, H, D and N of each."""
    assert case.lower is not None
    last = [d - 1 + u for d, u in zip(dims, case.upper, strict=True)]
    offsets = case.offsets or (0,) * len(at)
    for _ in range(case.pixels):
        yield [*(x + o for x, o in zip(at, offsets, strict=True)), n]
        for k, step in enumerate(steps):
            at[k] += step
            if at[k] <= last[k]:
                break
            at[k] = case.lower[k]
        else:
            n += 1


def slice_elements(case: SlicedCase) -> Iterator[tuple[int, int | None]]:
    """The elements of an interleaved copy: slices of 16 or 32 bytes, one behind the other."""
    size = case.itemsize
    for number, at in enumerate(slices(case)):
        inside = all(0 <= x < d for x, d in zip(at, case.dims, strict=True))
        start = case.origin + at[0] * case.unit
        start += sum(x * s for x, s in zip(at[1:], case.strides, strict=True))
        for i in range(0, case.unit, size):
            place = swizzled(case.shift + number * case.unit + i, case.swizzle)
            yield place, start + i if inside else None


def slices(case: SlicedCase) -> Iterator[list[int]]:
    """The slices of a copy in all dimensions of the map; all are of one index of channels."""
    *space, channel, n = case.at
    if case.lower is not None:
        for *place, n_ in pixels(case, space, n, case.dims[:-2], case.steps[:-2]):
            yield [*place, channel, n_]
        return
    outer = [range(n) for n in case.counts]
    for index in itertools.product(*reversed(outer)):
        yield [a + i * s for a, i, s in zip(case.at, index[::-1], case.steps, strict=True)]


def expected(case: Case) -> np.ndarray:
    """Shared memory after a load, or the tensor after a store or a reduction."""
    memory, near, size = tensor(case), staged(case), case.itemsize
    outside = np.full(size // 2 or 1, NAN if case.nan else 0, np.uint16).view(np.uint8)[:size]
    for place, source in elements(case):
        if case.kind == "load":
            value = outside
            if source is not None:
                value = memory[source : source + size]
                value = rounded(value) if case.dtype.startswith("tfloat") else value
            near[place : place + size] = value
        elif source is not None and case.kind == "store":
            memory[source : source + size] = near[place : place + size]
        elif source is not None:
            old, new = (
                x.view(f"u{size}")
                for x in (memory[source : source + size], near[place : place + size])
            )
            old[:] = reduced(case, old, new)
    return near if case.kind == "load" else memory


def rounded(value: np.ndarray) -> np.ndarray:
    """A number as tf32: the nearest one; all NaNs are one."""
    bits = int(value.view(np.uint32)[0])
    nan = bits & 0x7FFFFFFF > 0x7F800000
    near = 0x7FFFE000 if nan else (bits + 0xFFF + (bits >> 13 & 1)) & 0xFFFFE000
    return np.array([near], np.uint32).view(np.uint8)


def reduced(case: Case, old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Whole numbers only: floating-point sums are compared with recorded ones."""
    kind = {"int32": "i4", "int64": "i8"}.get(case.dtype, old.dtype.str)
    a, b = old.view(kind).copy(), new.view(kind).copy()
    one = a.dtype.type(1)
    with np.errstate(over="ignore"):
        return (
            {
                "add": lambda: a + b,
                "min": lambda: np.minimum(a, b),
                "max": lambda: np.maximum(a, b),
                "and": lambda: a & b,
                "or": lambda: a | b,
                "xor": lambda: a ^ b,
                "inc": lambda: np.where(a >= b, 0, a + one),
                "dec": lambda: np.where((a == 0) | (a > b), b, a - one),
            }[case.kind]()
            .astype(kind)
            .view(old.dtype)
        )
