"""Texture and surface objects for kernels that Python launches."""

from __future__ import annotations

import ctypes
import functools
import weakref
from collections.abc import Sequence
from typing import Any, TypeVar

from weft.device import arrays
from weft.device.arguments import DeviceHandle
from weft.errors import ArgumentError
from weft.frontends.textures.memory import Api, Shape, Texels, shape_of
from weft.frontends.textures.structures import (
    ADDRESSES,
    FILTERS,
    NORMALIZED,
    READ_AS_INTEGER,
    SRGB,
    Sampler,
)  # fmt: skip

_READS = ("element", "normalized")
_T = TypeVar("_T", "Texture", "Surface")


class Texture(DeviceHandle):
    """A texture object. It is its handle, a number, which kernels take as `cudaTextureObject_t`.

    texels   the memory that it reads

    >>> lines = weft.texture(np.zeros(3, np.float32), filter="linear")
    >>> lines.update(np.array([4, 8, 16], np.float32))
    >>> smooth[1, 4](lines, sampled)
    >>> print(sampled)
    [ 4.  6.  8. 12.]
    """

    texels: Texels
    _owner: _Owner  # a number has no finalizer of its own

    def __repr__(self) -> str:
        return f"<weft.Texture {int(self)}: {_described(self.texels.shape)}>"

    def update(self, array: Any) -> None:
        """Copies an array of the same shape and type to the texture."""
        _copy(self.texels, array)


class Surface(DeviceHandle):
    """A surface object. It is its handle, a number, which kernels take as `cudaSurfaceObject_t`.

    texels   the memory that it reads and writes

    >>> marks = weft.surface(picture)
    >>> marks.update(np.ones((2, 3), np.int32))
    >>> mark[1, (1, 2)](marks)
    >>> print(marks.read(picture).tolist())
    [[7, 1, 1], [7, 1, 1]]
    """

    texels: Texels
    _owner: _Owner  # a number has no finalizer of its own

    def __repr__(self) -> str:
        return f"<weft.Surface {int(self)}: {_described(self.texels.shape)}>"

    def update(self, array: Any) -> None:
        """Copies an array of the same shape and type to the surface."""
        _copy(self.texels, array)

    def read(self, array: Any) -> Any:
        """Copies the surface to an array of the same shape and type, which it returns."""
        _copy(self.texels, array, back=True)
        return array


def texture(
    source: Any,
    *,
    address: str | Sequence[str] = "clamp",
    filter: str = "nearest",
    normalized: bool = False,
    read: str = "element",
    border: float | Sequence[float] = 0.0,
    channels: int = 1,
    layered: bool = False,
    cube: bool = False,
    linear: bool = False,
    srgb: bool = False,
) -> Texture:
    """Makes a texture object from an array: a kernel gets it as `cudaTextureObject_t`.

    source      an array of (x), (y, x) or (z, y, x), which is copied; or a surface, which is shared
    address     what coordinates outside mean: "clamp", "wrap", "mirror", "border"; or one per axis
    filter      "nearest" or "linear"
    normalized  coordinates are from 0 to 1
    read        "element", or "normalized": integers are read as floats from 0 or -1 to 1
    border      the value outside with address="border", or one per channel
    channels    2 or 4: the last dimension has the channels of a texel
    layered     the first dimension has layers
    cube        the first dimension has the six faces of a cube
    linear      linear memory, for `tex1Dfetch`, or rows of linear memory for `tex2D`
    srgb        bytes are colours in sRGB, which are read as linear intensities

    The texture is on the simulated GPU for an array in host memory, else on the array's own GPU.

    >>> smooth = weft.cuda('''
    ... __global__ void sample(cudaTextureObject_t t, float* y) {
    ...     y[threadIdx.x] = tex1D<float>(t, 0.5f * threadIdx.x + 0.5f);
    ... }''').sample
    >>> sampled = np.zeros(4, np.float32)
    >>> smooth[1, 4](weft.texture(np.array([0, 10, 20], np.float32), filter="linear"), sampled)
    >>> print(sampled)
    [ 0.  5. 10. 15.]
    """
    if isinstance(source, Surface):
        texels = source.texels
    else:
        texels = _filled(source, channels, layered, cube, linear)
    axes = len(texels.shape.sizes)
    sampler = _sampler(address, axes, border)
    sampler.filter = _index("filter", filter, FILTERS)
    sampler.flags = READ_AS_INTEGER * (1 - _index("read", read, _READS))
    sampler.flags |= NORMALIZED * bool(normalized) | SRGB * bool(srgb)
    _check(texels.shape, sampler, linear)
    made = _object(texels, "cuTexObject", ctypes.byref(sampler), None)
    return _kept(Texture(made), texels, "cuTexObjectDestroy")


def surface(
    source: Any, *, channels: int = 1, layered: bool = False, cube: bool = False
) -> Surface:
    """Makes a surface object, which kernels read and write, from a copy of an array.

    source      an array of (x), (y, x) or (z, y, x)
    channels    2 or 4: the last dimension has the channels of an element
    layered     the first dimension has layers
    cube        the first dimension has the six faces of a cube

    `read` copies the surface back to an array.

    >>> mark = weft.cuda('''
    ... __global__ void mark(cudaSurfaceObject_t s) {
    ...     surf2Dwrite(7, s, threadIdx.x * sizeof(int), threadIdx.y);
    ... }''').mark
    >>> picture = np.zeros((2, 3), np.int32)
    >>> marks = weft.surface(picture)
    >>> mark[1, (2, 2)](marks)
    >>> print(marks.read(picture).tolist())
    [[7, 7, 0], [7, 7, 0]]
    """
    texels = _filled(source, channels, layered, cube, False)
    made = _object(texels, "cuSurfObject")
    return _kept(Surface(made), texels, "cuSurfObjectDestroy")


# ---- making an object ---------------------------------------------------------------------------


@functools.cache
def _api(device: int | None) -> Api:
    return Api(device)


def _filled(source: Any, channels: int, layered: bool, cube: bool, linear: bool) -> Texels:
    if not arrays.is_array(source):
        raise ArgumentError(
            "a texture is made from an array", got=type(source).__name__,
            allowed="an array of NumPy, PyTorch or CuPy, or weft.surface",
        )  # fmt: skip
    shape, memory = shape_of(source, channels, layered, cube)
    if linear and (shape.slices > 1 or layered or len(shape.sizes) > 2):
        raise ArgumentError(
            "linear memory has one or two dimensions", got=str(tuple(source.shape)),
            allowed="(x) or (y, x), without layers",
        )  # fmt: skip
    texels = Texels(_api(memory.device), shape, layered=layered, linear=linear)
    texels.copy(memory)
    return texels


def _object(texels: Texels, name: str, *more: Any) -> int:
    handle, resource = ctypes.c_uint64(), texels.resource()
    with texels.api.current:
        texels.api.call(f"{name}Create", ctypes.byref(handle), ctypes.byref(resource), *more)
    return handle.value


class _Owner:
    """Destroys an object when nothing uses it any more; its texels stay until then."""

    def __init__(self, texels: Texels, release: str, handle: int) -> None:
        weakref.finalize(self, _destroy, texels, release, handle).atexit = False


def _destroy(texels: Texels, release: str, handle: int) -> None:
    texels.api.free(release, ctypes.c_uint64(handle))


def _kept(made: _T, texels: Texels, release: str) -> _T:
    made.texels, made._owner = texels, _Owner(texels, release, int(made))
    made.device = texels.api.device
    return made


def _copy(texels: Texels, array: Any, *, back: bool = False) -> None:
    memory, shape = arrays.view(array), texels.shape
    size = shape.row * shape.rows * shape.slices
    if (memory.dtype, memory.nbytes, memory.contiguous) != (shape.dtype, size, True):
        raise ArgumentError(
            "the array does not have the texels' shape or type",
            got=f"{memory.dtype}, {memory.nbytes} bytes",
            allowed=f"{shape.dtype}, {size} bytes, contiguous",
        )  # fmt: skip
    if memory.device != texels.api.device:
        raise ArgumentError("the array is not where the texels are", got=str(memory.device))
    texels.copy(memory, back=back)


# ---- samplers -----------------------------------------------------------------------------------


def _sampler(address: object, axes: int, border: object) -> Sampler:
    """Axes that the texels do not have clamp: a GPU would blend a row with a border beside it."""
    sampler = Sampler()
    modes = [*_several("address", address, axes), "clamp", "clamp", "clamp"][:3]
    sampler.address = tuple(_index("address", mode, ADDRESSES) for mode in modes)
    colour = [*_several("border", border, 4), 0.0, 0.0, 0.0]
    try:
        sampler.border = tuple(map(float, colour[:4]))
    except (TypeError, ValueError, OverflowError) as e:
        raise ArgumentError("border= has numbers", got=repr(border)[:80]) from e
    return sampler


def _several(what: str, value: object, count: int) -> Sequence[Any]:
    """A tuple or list of at most so many values, or one value as often."""
    if not isinstance(value, tuple | list):
        return [value] * count
    if not 0 < len(value) <= count:
        raise ArgumentError(
            f"{what}= has too few or too many", got=str(len(value)), allowed=f"1 to {count}"
        )
    return value


def _index(what: str, value: object, allowed: Sequence[str]) -> int:
    if not isinstance(value, str) or value not in allowed:
        raise ArgumentError(f"{what}= is unknown", got=repr(value)[:80], allowed=", ".join(allowed))
    return allowed.index(value)


def _check(shape: Shape, sampler: Sampler, linear: bool) -> None:
    """Raises for what CUDA would silently do otherwise, or refuse with a number."""
    floats, raw = shape.dtype.startswith("float"), sampler.flags & READ_AS_INTEGER
    unnormalized = not sampler.flags & NORMALIZED
    if not raw and (floats or shape.item == 4):
        raise ArgumentError('read="normalized" is for integers of 8 and 16 bits', got=shape.dtype)
    if sampler.filter and raw and not floats:
        raise ArgumentError(
            "integers are not filtered", got=shape.dtype, next='read="normalized", or floats'
        )
    repeats = [m for m in sampler.address[: len(shape.sizes)] if ADDRESSES[m] in ("wrap", "mirror")]
    if repeats and unnormalized:
        raise ArgumentError(
            f'address="{ADDRESSES[repeats[0]]}" needs normalized coordinates: a GPU clamps instead',
            got="normalized=False", next="normalized=True, with coordinates from 0 to 1",
        )  # fmt: skip
    if linear and len(shape.sizes) == 1 and (sampler.filter or not unnormalized):
        raise ArgumentError(
            "a texture of linear memory is read by texel number alone",
            got="filter='linear' or normalized=True", next="linear=False",
        )  # fmt: skip


def _described(shape: Shape) -> str:
    sizes = " x ".join(map(str, shape.sizes))
    layers = f", {shape.layers} layers" if shape.layers else ""
    return f"{sizes}{layers}, {shape.channels} x {shape.dtype}"
