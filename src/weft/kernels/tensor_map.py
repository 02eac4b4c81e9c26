"""`weft.tensor_map` and `weft.im2col_map`: maps of tensors for tensor copies (TMA)."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from weft.device import arrays
from weft.device.tensor_map import TensorMap
from weft.device.tensor_map_encoding import MapRequest
from weft.device.tensor_map_layout import TYPES, ElementType
from weft.device.tensor_map_limits import check
from weft.errors import ArgumentError
from weft.quoting import quoted

_TYPES = {t.name: t for t in TYPES}
_OF_ARRAYS = {
    "uint8": "u8", "int8": "u8", "bool": "u8", "float8_e4m3fn": "u8", "float8_e5m2": "u8",
    "float8_e8m0fnu": "u8", "uint16": "u16", "int16": "u16", "uint32": "u32", "int32": "s32",
    "uint64": "u64", "int64": "s64", "float16": "f16", "float32": "f32", "float64": "f64",
    "bfloat16": "bf16",
}  # fmt: skip
"""The element type of each dtype of arrays."""
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
_INTERLEAVES = {0: 0, 16: 1, 32: 2}
_L2 = {0: 0, 64: 1, 128: 2, 256: 3}
_FILLS = {"zero": False, "nan": True}


def tensor_map(
    tensor: Any,
    box: Sequence[int],
    *,
    swizzle: int = 0,
    interleave: int = 0,
    element_strides: Sequence[int] | None = None,
    fill: str = "zero",
    l2: int = 0,
    dtype: str | None = None,
) -> TensorMap:
    """Make a tensor map: what `cp.async.bulk.tensor` needs to know of a tensor and of its boxes.

    tensor           an array of 1 to 5 dimensions, in host memory or on a GPU; the rows of a view
                     may be apart
    box              the sizes of a box, in the order of the tensor's shape; up to 256 each
    swizzle          bytes within which shared memory is swizzled: 0, 32, 64 or 128
    interleave       0; or the tensor is (n, slices, w, c), (n, slices, h, w, c) or
                     (n, slices, d, h, w, c), where c is a slice of 16 or 32 bytes of channels. The
                     box leaves out c and has 1 slice: a copy takes one of each pixel. 32 needs
                     swizzle=32
    element_strides  a box takes every n-th element of a dimension; in the order of the shape
    fill             what elements outside the tensor are read as: "zero" or "nan"
    l2               bytes that L2 fetches at least: 0, 64, 128 or 256
    dtype            another type of elements of the same size, e.g. "tf32" for float32

    The map is for the simulated GPU where the tensor is in host memory, else for the tensor's own
    GPU. Coordinates in a kernel begin with the innermost dimension.

    >>> table = np.arange(32, dtype=np.float32).reshape(4, 8)
    >>> corner = weft.tensor_map(table, box=(2, 4))
    >>> print(corner.nbytes)
    32
    """
    layout = _layout(swizzle, interleave, l2, fill)
    shape = _shape_of(tensor, interleave)
    rank = len(shape.sizes)
    steps = element_strides if element_strides is not None else (1,) * rank
    request = MapRequest(
        _type(shape, dtype), shape.memory.address, shape.sizes, shape.strides,
        _backwards("element_strides", steps, rank), _backwards("box", box, rank), **layout,
    )  # fmt: skip
    if interleave and request.box[-2] != 1:
        raise ArgumentError(
            "a box of an interleaved tensor has one slice of channels",
            got=f"box {tuple(box)}",
            allowed="1 in its second dimension",
            next="copy each slice by itself: its index is the coordinate before the last",
        )
    check(request)
    return TensorMap(request, shape.memory, shape.span)


def im2col_map(
    tensor: Any,
    *,
    lower: Sequence[int],
    upper: Sequence[int],
    channels: int,
    pixels: int,
    swizzle: int = 0,
    interleave: int = 0,
    element_strides: Sequence[int] | None = None,
    fill: str = "zero",
    l2: int = 0,
    dtype: str | None = None,
) -> TensorMap:
    """Make a tensor map for im2col copies: pixels of images, as a convolution reads them.

    tensor           an array (n, w, c), (n, h, w, c) or (n, d, h, w, c); with `interleave` as for
                     `weft.tensor_map`
    lower, upper     the corners of the box of pixels, in the order of the shape: its first pixel,
                     and the distance of its last one from the last of the tensor
    channels         channels of a pixel that a copy takes; with `interleave` those of a slice
    pixels           pixels that a copy takes
    swizzle, interleave, element_strides, fill, l2, dtype   as for `weft.tensor_map`

    >>> images = np.zeros((2, 6, 6, 16), np.float16)
    >>> windows = weft.im2col_map(images, lower=(-1, -1), upper=(-1, -1), channels=16, pixels=32)
    >>> print(windows.nbytes)
    1024
    """
    layout = _layout(swizzle, interleave, l2, fill)
    shape = _shape_of(tensor, interleave)
    rank = len(shape.sizes)
    steps = element_strides if element_strides is not None else (1,) * rank
    if interleave and channels * shape.memory.itemsize != interleave:
        raise ArgumentError(
            "an im2col copy of an interleaved tensor takes one slice of channels",
            got=f"channels={channels}",
            allowed=f"{interleave // shape.memory.itemsize}: {interleave} bytes",
        )
    request = MapRequest(
        _type(shape, dtype), shape.memory.address, shape.sizes, shape.strides,
        _backwards("element_strides", steps, rank), **layout,
        lower=_backwards("lower", lower, rank - 2), upper=_backwards("upper", upper, rank - 2),
        channels=int(channels), pixels=int(pixels),
    )  # fmt: skip
    check(request)
    return TensorMap(request, shape.memory, shape.span)


class _Shape(NamedTuple):
    """A tensor's memory, its sizes and strides from the innermost dimension on, and its bytes."""

    memory: arrays.ArrayMemory
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    span: int


def _shape_of(tensor: Any, interleave: int) -> _Shape:
    """The dimensions of a tensor for a map."""
    if not arrays.is_array(tensor):
        raise ArgumentError(
            "a tensor map is made of an array",
            got=type(tensor).__name__,
            allowed="an array of NumPy, PyTorch or CuPy",
        )
    try:
        memory = arrays.view(tensor)
    except arrays.Elsewhere as error:
        raise ArgumentError(
            "a tensor map needs a tensor in host memory or on a CUDA GPU",
            got=str(error),
            next="move it: x.cpu() or x.cuda()",
        ) from None
    size = memory.itemsize
    shape = tuple(int(n) for n in tensor.shape)[::-1]
    strides = _strides(tensor, size)[::-1]
    if not shape or 0 in shape:
        raise ArgumentError(
            "a tensor map needs a tensor with elements",
            got=f"shape {tuple(tensor.shape)}",
            allowed="1 to 5 dimensions, none of them empty",
        )
    if shape[0] > 1 and strides[0] != size:
        raise ArgumentError(
            "the innermost dimension of a tensor map is contiguous",
            got=f"{strides[0]} bytes from element to element of {size} bytes",
            next="transpose the tensor, or copy it: x.contiguous() or np.ascontiguousarray(x)",
        )
    span = size + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    found = _Shape(memory, shape, _used(shape, strides, size), span)
    return _sliced(found, interleave) if interleave else found


def _sliced(shape: _Shape, nbytes: int) -> _Shape:
    """The dimensions of an interleaved tensor, which begin with W: its last one is a slice."""
    inner = shape.sizes[0] * shape.memory.itemsize
    if inner != nbytes or not 4 <= len(shape.sizes) <= 6:
        raise ArgumentError(
            "an interleaved tensor has slices of channels in its last dimension",
            got=f"shape {shape.sizes[::-1]}, {inner} bytes in the last dimension",
            allowed=f"(n, slices, w, c), (n, slices, h, w, c) or (n, slices, d, h, w, c), with "
            f"{nbytes} bytes of channels in c",
            next="x.reshape(n, slices, c, h, w) and its channels moved to the end, contiguous",
        )
    if shape.sizes[1] > 1 and shape.strides[0] != nbytes:
        raise ArgumentError(
            "the slices of neighbouring pixels are contiguous",
            got=f"{shape.strides[0]} bytes from pixel to pixel",
            allowed=f"{nbytes} bytes",
            next="copy the tensor: x.contiguous() or np.ascontiguousarray(x)",
        )
    return shape._replace(sizes=shape.sizes[1:], strides=shape.strides[1:])


def _strides(tensor: Any, size: int) -> tuple[int, ...]:
    """Bytes from index to index of each dimension."""
    if arrays.library(tensor) == "torch":
        return tuple(int(s) * size for s in tensor.stride())
    if isinstance(tensor, np.ndarray):
        return tuple(int(s) for s in tensor.strides)
    strides = getattr(tensor, "strides", None)
    if strides is None:  # the protocols leave out those of contiguous arrays
        shape = tuple(tensor.shape)
        strides = tuple(size * int(np.prod(shape[i + 1 :], dtype=int)) for i in range(len(shape)))
    return tuple(int(s) for s in strides)


def _used(shape: Sequence[int], strides: Sequence[int], size: int) -> tuple[int, ...]:
    """The strides of a map; a dimension of length 1 has whatever its library likes."""
    found: list[int] = []
    before = size * shape[0]
    for n, s in zip(shape[1:], strides[1:], strict=True):
        found.append(s if n > 1 else -(-before // 32) * 32)
        before = found[-1] * n
    return tuple(found)


def _type(shape: _Shape, dtype: str | None) -> ElementType:
    name = dtype if dtype is not None else _OF_ARRAYS.get(shape.memory.dtype)
    kind = _TYPES.get(str(name))
    if kind is None:
        raise ArgumentError(
            "a tensor map has no such type of elements",
            got=quoted(shape.memory.dtype if dtype is None else dtype),
            allowed=", ".join(_TYPES) if dtype is not None else ", ".join(_OF_ARRAYS),
            next="view the tensor as integers of the same size" if dtype is None else "",
        )
    if kind.size != shape.memory.itemsize:
        raise ArgumentError(
            "dtype= has elements of another size",
            got=f"{kind.name} of {kind.size} bytes, the tensor's have {shape.memory.itemsize}",
            allowed=", ".join(t.name for t in TYPES if t.size == shape.memory.itemsize),
        )
    return kind


def _backwards(name: str, values: Sequence[int], count: int) -> tuple[int, ...]:
    """Sizes in the driver's order."""
    try:
        found = tuple(operator.index(v) for v in values)
    except TypeError:
        found = ()
    if len(found) != count:
        raise ArgumentError(
            f"{name}= has one number for each dimension it is for",
            got=quoted(values),
            allowed=f"{max(count, 0)} numbers",
        )
    return found[::-1]


def _layout(swizzle: int, interleave: int, l2: int, fill: str) -> dict[str, Any]:
    numbers: dict[str, Any] = {}
    options: tuple[tuple[str, Any, dict[Any, Any]], ...] = (
        ("swizzle", swizzle, _SWIZZLES),
        ("interleave", interleave, _INTERLEAVES),
        ("l2", l2, _L2),
        ("fill", fill, _FILLS),
    )
    for name, value, allowed in options:
        if not isinstance(value, int | str) or value not in allowed:
            raise ArgumentError(
                f"a tensor map has no such {name}=",
                got=quoted(value),
                allowed=", ".join(str(x) for x in allowed),
            )
        numbers["nan" if name == "fill" else name] = allowed[value]
    return numbers
