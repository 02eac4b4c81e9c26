"""Tensor maps of the driver API: checked as the driver checks them, and encoded."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping, Sequence

from weft.device.tensor_map_encoding import DRIVER_TYPES, MapRequest, encode
from weft.device.tensor_map_layout import MAP_ALIGN
from weft.device.tensor_map_limits import problems

_SUCCESS, _INVALID_VALUE = 0, 1
_HEAD = 8
"""Numbers before the arrays: map, type, rank, address, interleave, swizzle, L2 promotion, fill."""


def _tiled(numbers: Sequence[int]) -> int:
    rank = numbers[2]
    dims, strides, steps, box = _lists(numbers, (rank, rank - 1, rank, rank))
    return _made(numbers, MapRequest, dims, strides, steps, box=box)


def _columns(numbers: Sequence[int]) -> int:
    rank = numbers[2]
    counts = (rank, rank - 1, rank, rank - 2, rank - 2, 2)
    dims, strides, steps, lower, upper, (channels, pixels) = _lists(numbers, counts)
    return _made(
        numbers, MapRequest, dims, strides, steps, lower=lower, upper=upper, channels=channels,
        pixels=pixels,
    )  # fmt: skip


def _lists(numbers: Sequence[int], counts: Sequence[int]) -> list[tuple[int, ...]]:
    found, at = [], _HEAD
    for count in counts:
        found.append(tuple(numbers[at : at + count]))
        at += count
    return found


def _made(
    numbers: Sequence[int], make: Callable[..., MapRequest], *sizes: tuple[int, ...], **more: object
) -> int:
    """Write the map; print the reason where the driver would only return an error."""
    at, kind, _, address, interleave, swizzle, l2, fill = numbers[:_HEAD]
    if at % MAP_ALIGN:
        return _refused(f"it is at {at:#x}; allowed: a multiple of {MAP_ALIGN}")
    if kind not in DRIVER_TYPES or fill not in (0, 1):
        return _refused(f"type {kind}, fill {fill}; allowed: those of sm_90")
    request = make(
        DRIVER_TYPES[kind], address & (1 << 64) - 1, *sizes, interleave=interleave,
        swizzle=swizzle, l2=l2, nan=bool(fill), **more,
    )  # fmt: skip
    for problem in problems(request):
        return _refused(f"{problem.what}: {problem.got}; allowed: {problem.allowed}")
    ctypes.memmove(at, encode(request), 128)
    return _SUCCESS


def _refused(why: str) -> int:
    print(f"weft: a tensor map is refused: {why}", file=sys.stderr, flush=True)
    return _INVALID_VALUE


OPERATIONS: Mapping[str, Callable[[Sequence[int]], int]] = {
    "tensor_map": _tiled,
    "im2col_map": _columns,
}
