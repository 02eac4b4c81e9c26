"""Memory of the texture unit: CUDA arrays and linear memory, and copies to and from them."""

from __future__ import annotations

import contextlib
import ctypes
import weakref
from dataclasses import dataclass
from typing import Any

from weft.device import arrays, driver
from weft.errors import ArgumentError, DeviceError
from weft.frontends.textures.structures import (
    ARRAY,
    CUBEMAP,
    DEVICE,
    FORMATS,
    HOST,
    LAYERED,
    RESOURCES,
    SURFACE,
    ArrayDescriptor,
    Resource,
    TextureCopy,
)

_PITCH = 512
"""Rows of linear memory begin at multiples of it, which every GPU takes."""
_RUNTIME = {
    "cuMemAlloc_v2": "cudaMalloc",
    "cuMemFree_v2": "cudaFree",
    "cuCtxSynchronize": "cudaDeviceSynchronize",
}
"""The runtime calls to use on the simulated GPU: its driver interface takes long to compile."""


class Api:
    """Functions of the CUDA driver: those of a real GPU, or of the simulated one."""

    def __init__(self, device: int | None) -> None:
        self.device = device
        if device is None:
            from weft.frontends.program import parts, process  # needs nvcc and a C++ compiler
            from weft.frontends.program.textures import serve

            self._library: Any = process.start(parts=parts.needed(["cuTexObjectCreate"]))
            serve()
        else:
            self._library = driver.library()

    @property
    def current(self) -> contextlib.AbstractContextManager[None]:
        """The GPU's context is current inside of a `with` block."""
        return contextlib.nullcontext() if self.device is None else driver.current(self.device)

    def call(self, name: str, *args: Any) -> None:
        """Call a function of the driver; raise for an error."""
        simulated = self.device is None
        code = getattr(self._library, _RUNTIME.get(name, name) if simulated else name)(*args)
        if code:
            raise DeviceError(f"{name} failed", got=f"{self._error(code)} ({code})")

    def _error(self, code: int) -> str:
        """The name of an error; both interfaces have the same numbers."""
        if self.device is None:
            name = self._library.cudaGetErrorName
            name.restype = ctypes.c_char_p
            return str(name(code).decode())
        text = ctypes.c_char_p()
        self._library.cuGetErrorName(code, ctypes.byref(text))
        return (text.value or b"?").decode()

    def free(self, name: str, value: Any) -> None:
        """Free something that no kernel may use any more: work under way ends first."""
        with self.current:
            self.call("cuCtxSynchronize")
            self.call(name, value)


@dataclass(frozen=True)
class Shape:
    """An array of texels: sizes from the first coordinate on, layers, channels, type."""

    sizes: tuple[int, ...]
    layers: int
    channels: int
    dtype: str
    item: int
    cube: bool

    @property
    def row(self) -> int:
        """Bytes of a row."""
        return self.sizes[0] * self.channels * self.item

    @property
    def rows(self) -> int:
        return self.sizes[1] if len(self.sizes) > 1 else 1

    @property
    def slices(self) -> int:
        return self.layers or (self.sizes[2] if len(self.sizes) > 2 else 1)


def shape_of(
    value: Any, channels: int, layered: bool, cube: bool
) -> tuple[Shape, arrays.ArrayMemory]:
    """The texels of an array, and its memory."""
    memory = arrays.view(value)
    sizes = list(value.shape)
    if memory.dtype not in FORMATS:
        raise _wrong("texels cannot have this type", memory.dtype, ", ".join(FORMATS))
    if not memory.contiguous:
        raise _wrong("the array is not contiguous", "strides", "a contiguous array")
    if not isinstance(channels, int) or channels not in (1, 2, 4):
        raise _wrong("channels= is none that a texel can have", repr(channels)[:80], "1, 2 or 4")
    if channels > 1 and (len(sizes) < 2 or sizes.pop() != channels):
        raise _wrong(
            f"the last dimension must have {channels} channels",
            str(tuple(value.shape)),
            f"a shape that ends in {channels}",
        )
    layers = sizes.pop(0) if (layered or cube) and sizes else 0
    if cube and (len(sizes) != 2 or sizes[0] != sizes[1] or layers % 6 or not layers):
        raise _wrong(
            "this is not the shape of the faces of a cube",
            str(tuple(value.shape)),
            "(6, n, n), with layered=True also (6 * cubes, n, n)",
        )
    if not 1 <= len(sizes) <= (2 if layered or cube else 3) or 0 in (*sizes, memory.nbytes):
        raise _wrong(
            "an array of this shape cannot be a texture",
            str(tuple(value.shape)),
            "one to three dimensions without a zero; with layers, one or two more",
        )
    shape = Shape(tuple(sizes[::-1]), layers, channels, memory.dtype, memory.itemsize, cube)
    return shape, memory


def _wrong(what: str, got: str, allowed: str) -> ArgumentError:
    return ArgumentError(what, got=got, allowed=allowed)


class Texels:
    """Texels on one device, as a CUDA array, or in linear memory."""

    def __init__(self, api: Api, shape: Shape, *, layered: bool = False, linear: bool = False):
        self.api, self.shape = api, shape
        self.pitch = -(-shape.row // _PITCH) * _PITCH if linear and shape.rows > 1 else shape.row
        handle = ctypes.c_uint64() if linear else ctypes.c_void_p()
        with api.current:
            if linear:
                size = ctypes.c_size_t(self.pitch * shape.rows)
                api.call("cuMemAlloc_v2", ctypes.byref(handle), size)
            else:
                described = self._descriptor(layered)
                api.call("cuArray3DCreate_v2", ctypes.byref(handle), ctypes.byref(described))
        self.handle, self.linear = handle, linear
        release = "cuMemFree_v2" if linear else "cuArrayDestroy"
        weakref.finalize(self, api.free, release, handle).atexit = False

    def _descriptor(self, layered: bool) -> ArrayDescriptor:
        shape = self.shape
        flags = SURFACE | LAYERED * layered | CUBEMAP * shape.cube
        height = shape.rows if len(shape.sizes) > 1 else 0
        depth = shape.slices if shape.layers or len(shape.sizes) > 2 else 0
        return ArrayDescriptor(
            shape.sizes[0], height, depth, FORMATS[shape.dtype], shape.channels, flags
        )

    def resource(self) -> Resource:
        """The resource descriptor of a texture or surface object."""
        shape = self.shape
        out = Resource()
        if not self.linear:
            out.of.array = self.handle.value
            return out
        memory = out.of.memory
        memory.address, memory.format = self.handle.value, FORMATS[shape.dtype]
        memory.channels = shape.channels
        flat = len(shape.sizes) == 1
        out.kind = RESOURCES["linear" if flat else "pitch"]
        memory.sizes = (shape.row, 0, 0) if flat else (*shape.sizes, self.pitch)
        return out

    def copy(self, memory: arrays.ArrayMemory, *, back: bool = False) -> None:
        """Copy an array of the same shape to the texels, or the texels to it."""
        shape, asked = self.shape, TextureCopy()
        outside, inside = (asked.to, asked.source) if back else (asked.source, asked.to)
        outside.kind = HOST if memory.device is None else DEVICE
        outside.host = outside.device = memory.address
        outside.pitch, outside.height = shape.row, shape.rows
        inside.kind = DEVICE if self.linear else ARRAY
        if self.linear:
            inside.device, inside.pitch, inside.height = self.handle.value, self.pitch, shape.rows
        else:
            inside.array = self.handle.value
        asked.width, asked.height, asked.depth = shape.row, shape.rows, shape.slices
        with self.api.current:
            # The array may be the result of kernels on any stream; kernels on any may come next.
            self.api.call("cuCtxSynchronize")
            self.api.call("cuMemcpy3D_v2", ctypes.byref(asked))
            self.api.call("cuCtxSynchronize")
