"""`cupy.fft.config.set_cufft_callbacks`: functions of CUDA C++ around transforms.

cuFFT calls one for each element that it loads, and one for each that it stores. Here a kernel calls
them for all elements, before and after the transform of NumPy.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.errors import Error
from weft.frontends.cupy import memory
from weft.frontends.cupy.compiled import compiled
from weft.frontends.cupy.host_objects import HostObject, to_device

_INCLUDE = re.compile(r"#\s*include\s*[<\"]cufft(Xt)?\.h[>\"]")
_TYPES = {"f": "cufftReal", "d": "cufftDoubleReal", "F": "cufftComplex", "D": "cufftDoubleComplex"}
_DEFAULT = {"load": "d_loadCallbackPtr", "store": "d_storeCallbackPtr"}
_CALLS = {
    "load": "out[i] = {function}(in, i, info, nullptr)",
    "store": "{function}(out, i, in[i], info, nullptr)",
}
_BLOCK = 256
_KERNEL = """#include <cupy/cufft_callbacks.cuh>
{source}
extern "C" __global__ void weft_callback({type} *in, {type} *out, void *info, size_t n) {{
    size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i < n) {call};
}}
"""
_COMPLEX = ("fft", "ifft", "fft2", "ifft2", "fftn", "ifftn")
_FROM_REAL = ("rfft", "rfft2", "rfftn")
_TO_REAL = ("irfft", "irfft2", "irfftn")
TRANSFORMS = (*_COMPLEX, *_FROM_REAL, *_TO_REAL)
_active: list[set_cufft_callbacks] = []


class set_cufft_callbacks:
    """Call functions of CUDA C++ for the elements of the transforms in a `with` block.

    cb_load, cb_store  sources that define `d_loadCallbackPtr` and `d_storeCallbackPtr`, or, with
                       cb_ver="jit", the functions `cb_load_name` and `cb_store_name`
    cb_load_data, cb_store_data  memory whose address the functions are given
    """

    def __init__(
        self, cb_load: str | None = None, cb_store: str | None = None,
        cb_load_aux_arr: Any = None, *, cb_store_aux_arr: Any = None,
        cb_load_name: str | None = None, cb_store_name: str | None = None,
        cb_load_data: Any = None, cb_store_data: Any = None, cb_ver: str = "legacy",
        nvrtc_options: Sequence[str] = (),
    ) -> None:  # fmt: skip
        if not cb_load and not cb_store:
            raise ValueError("need to specify cb_load or cb_store")
        self._options = tuple(nvrtc_options)
        loads, stores = (cb_load_aux_arr, cb_load_data), (cb_store_aux_arr, cb_store_data)
        self._load = self._function("load", cb_load, cb_load_name, cb_ver, loads)
        self._store = self._function("store", cb_store, cb_store_name, cb_ver, stores)

    def _function(
        self, kind: str, source: str | None, name: str | None, version: str, data: Sequence[Any]
    ) -> Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]:
        if not source:
            return lambda array: array
        if version not in ("legacy", "jit"):
            raise ValueError(f"cb_ver must be 'legacy' or 'jit', got {version!r}")
        if version == "jit" and not name:
            raise Error(
                f"cupy.fft does not infer the name of a {kind} callback",
                got=f"cb_{kind}_name=None",
                next=f"cb_{kind}_name='the function of cb_{kind}'",
            )
        function = name if version == "jit" and name else _DEFAULT[kind]
        given = next((each for each in data if each is not None), None)
        return functools.partial(_called, kind, source, function, self._options, given)

    def __enter__(self) -> set_cufft_callbacks:
        _active.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _active.pop()

    def transform(self, name: str, x: np.ndarray[Any, Any], *args: Any, **options: Any) -> Any:
        """Transform an array between calls of both functions; scale the result after them."""
        function = getattr(np.fft, name)
        axes, sizes, norm = _sizes(name, x, *args, **options)
        single = np.dtype(x.dtype).char in "efFbBhH"
        real, complex_ = (np.float32, np.complex64) if single else (np.float64, np.complex128)
        x = self._load(np.ascontiguousarray(x, real if name in _FROM_REAL else complex_))
        # The norm that scales the other direction alone.
        unscaled = "forward" if name.startswith("i") else "backward"
        flat = name.endswith("fft")
        where = {"axis": axes[0], "n": sizes[0]} if flat else {"axes": axes, "s": sizes}
        y = np.ascontiguousarray(function(x, norm=unscaled, **where))
        y = self._store(y.astype(real if name in _TO_REAL else complex_, copy=False))
        if norm == "ortho":
            y *= 1 / np.sqrt(np.prod(sizes))
        elif norm != unscaled:
            y *= 1 / np.prod(sizes)
        return to_device(y)


def around(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    """Make a transform that calls the functions of the `with` block around it."""

    @functools.wraps(plain)
    def transform(a: Any, *args: Any, **options: Any) -> Any:
        if not _active:
            return plain(a, *args, **options)
        x = a._host if isinstance(a, HostObject) else np.asarray(a)
        return _active[-1].transform(name, x, *args, **options)

    return transform


def _sizes(
    name: str, x: np.ndarray[Any, Any], s: Any = None, axis: Any = None, norm: str | None = None,
    **options: Any,
) -> tuple[list[int], list[int], str]:  # fmt: skip
    """The axes of a transform, its sizes along them, and which direction is scaled."""
    s, axis = options.get("n", s), options.get("axes", axis)
    default: Any = -1 if name.endswith("fft") else (-2, -1) if name.endswith("2") else None
    if axis is None:
        axis = range(x.ndim) if default is None else default
    axes = [int(each) for each in np.atleast_1d(np.array(axis))]
    there = [x.shape[each] for each in axes]
    sizes = [*there[:-1], 2 * (there[-1] - 1)] if name in _TO_REAL else there
    if s is not None:
        wanted = [int(each) for each in np.atleast_1d(np.array(s))]
        needed = [*wanted[:-1], wanted[-1] // 2 + 1] if name in _TO_REAL else wanted
        if needed != there:
            raise Error(
                "cupy.fft calls callbacks only where the array is not cut or padded",
                got=f"{name} of size {wanted} of an array of shape {x.shape}",
                next="cut or pad the array before the transform",
            )
        sizes = wanted
    return axes, sizes, norm or "backward"


def _called(
    kind: str, source: str, function: str, options: tuple[str, ...], data: Any,
    array: np.ndarray[Any, Any],
) -> np.ndarray[Any, Any]:  # fmt: skip
    """Call the function for each element of an array; the result is a new array."""
    type_ = _TYPES[array.dtype.char]
    kernel = _compiled(kind, source, function, type_, options).weft_callback
    out = np.empty_like(array)
    blocks = -(-array.size // _BLOCK)
    if blocks:
        kernel[blocks, _BLOCK](array, out, _bytes(data), np.uint64(array.size))
    return out


def _bytes(data: Any) -> np.ndarray[Any, Any]:
    """The memory that the function is given; one byte where it is given none."""
    if data is None:
        return np.zeros(1, np.uint8)
    if isinstance(data, HostObject):
        held: np.ndarray[Any, Any] = data._host
        return held
    start: memory.MemoryPointer = data
    return start.mem.bytes[start.offset :]


@functools.cache
def _compiled(kind: str, source: str, function: str, type_: str, options: tuple[str, ...]) -> Any:
    call = _CALLS[kind].format(function=function)
    text = _KERNEL.format(source=_INCLUDE.sub("", source), type=type_, call=call)
    return compiled(text, options)
