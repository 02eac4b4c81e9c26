"""cuFFT's transforms by NumPy's, which keep float32. Inverse transforms are not scaled.

Elements of 16 bits are transformed as float32.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from weft.frontends.program.libraries.arrays import Array, memory

_SUCCESS = 0
_REAL = {0x2A: np.float32, 0x2C: np.float32, 0x29: np.float32}  # R2C, C2R, C2C
_DOUBLE = {0x6A: np.float64, 0x6C: np.float64, 0x69: np.float64}  # D2Z, Z2D, Z2Z
_TO_COMPLEX, _TO_REAL = (0x2A, 0x6A), (0x2C, 0x6C)
_FORWARD = -1
_HALF_COMPLEX = np.dtype([("real", np.float16), ("imag", np.float16)])


def _fft(numbers: Sequence[int]) -> int:
    rest: Iterator[int] = iter(numbers)
    source, target, kind, direction, batch = (next(rest) for _ in range(5))
    in_stride, in_distance, out_stride, out_distance, half = (next(rest) for _ in range(5))
    n, in_embed, out_embed = ([next(rest) for _ in range(next(rest))] for _ in range(3))
    real = (_REAL | _DOUBLE)[kind]
    whole = np.result_type(real, np.complex64)
    stored: tuple[Any, Any] = (np.float16, _HALF_COMPLEX) if half else (real, whole)
    types = (stored[kind not in _TO_COMPLEX], stored[kind not in _TO_REAL])
    part = [*n[:-1], n[-1] // 2 + 1]
    shapes = (part if kind in _TO_REAL else n, part if kind in _TO_COMPLEX else n)
    # In place, rows of reals have room for the complex numbers.
    padded = [*n[:-1], 2 * part[-1]] if source == target else n
    dense = [padded if t == stored[0] else shape for t, shape in zip(types, shapes, strict=True)]
    x = _strided(source, types[0], batch, shapes[0], in_embed or dense[0], in_stride, in_distance)
    y = _strided(
        target, types[1], batch, shapes[1], out_embed or dense[1], out_stride, out_distance
    )
    x = _widened(x) if half else x
    axes = tuple(range(1, len(n) + 1))
    if kind in _TO_COMPLEX:
        result: Array = np.fft.rfftn(x, axes=axes)
    elif kind in _TO_REAL:
        result = np.fft.irfftn(x, s=n, axes=axes, norm="forward")
    elif direction == _FORWARD:
        result = np.fft.fftn(x, axes=axes)
    else:
        result = np.fft.ifftn(x, axes=axes, norm="forward")
    y[...] = _narrowed(result) if half else result
    return _SUCCESS


def _widened(x: Array) -> Array:
    """Elements of 16 bits as float32 or complex64."""
    if x.dtype != _HALF_COMPLEX:
        return x.astype(np.float32)
    return (x["real"].astype(np.float32) + 1j * x["imag"].astype(np.float32)).astype(np.complex64)


def _narrowed(x: Array) -> Array:
    if x.dtype.kind != "c":
        return x.astype(np.float16)
    out = np.empty(x.shape, _HALF_COMPLEX)
    out["real"], out["imag"] = x.real, x.imag
    return out


def _strided(
    address: int, dtype: Any, batch: int, shape: Sequence[int], embed: Sequence[int], stride: int,
    distance: int,
) -> Array:  # fmt: skip
    """A batch of arrays that lie in larger ones: `embed` are the sizes of those."""
    steps = [stride]
    for size in reversed(embed[1:]):
        steps.insert(0, steps[0] * size)
    distance = distance or int(np.prod(embed))
    return memory(address, np.dtype(dtype), (batch, *shape), (distance, *steps))


OPERATIONS = {"fft": _fft}
