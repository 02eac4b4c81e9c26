"""A tensor map as an argument of kernels: 128 bytes, and the tensor that they describe."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.device import arrays
from weft.device.arrays import ArrayMemory
from weft.device.base import Allocation, MapArgument
from weft.device.tensor_map_encoding import MapRequest, encode
from weft.device.tensor_map_layout import MAP_ALIGN, MAP_BYTES, MapFields

if TYPE_CHECKING:  # it takes a while to import
    from numpy.typing import NDArray


class TensorMap(MapArgument):
    """A map of a tensor for tensor copies (TMA). `weft.tensor_map` and `weft.im2col_map` make it.

    A kernel takes it by value, as `const __grid_constant__ CUtensorMap`, or by its address, as
    `const CUtensorMap*`. The map keeps its tensor alive.

    nbytes   bytes of a box in shared memory: what the mbarrier of a copy expects

    >>> print(weft.tensor_map(np.zeros((4, 8), np.float32), box=(2, 4)))
    <weft.TensorMap of 4x8 f32, box 2x4, 32 bytes>
    """

    def __init__(self, request: MapRequest, tensor: ArrayMemory, span: int) -> None:
        self.request, self.tensor = request, tensor
        self.device = tensor.device
        self.nbytes = request.nbytes
        self.data = encode(request) if tensor.device is None else _by_driver(request, tensor.device)
        self._span = span
        self._copy: Any = None

    def __repr__(self) -> str:
        r = self.request
        shape = "x".join(map(str, reversed(r.dims)))
        box = "x".join(map(str, reversed(r.box))) or f"{r.pixels} pixels x {r.channels} channels"
        return f"<weft.TensorMap of {shape} {r.kind.name}, box {box}, {self.nbytes} bytes>"

    def __bytes__(self) -> bytes:
        return self.data

    def memory(self, name: str) -> Allocation:
        """The memory of the tensor."""
        t = self.tensor
        return Allocation(t.address, self._span, t.writable, f"{name}'s tensor")

    def resident(self) -> Allocation:
        """A copy of the map in the memory of the device, which lives as long as the map."""
        if self._copy is None:
            self._copy = _host_copy(self.data) if self.device is None else _gpu_copy(self)
        address = self._copy.ctypes.data if self.device is None else int(self._copy)
        return Allocation(address, MAP_BYTES, True, "the tensor map")


def over(request: MapRequest, tensor: Any) -> TensorMap:
    """The map of a request whose address is the first element of a one-dimensional tensor."""
    from weft.device import tensor_map_limits  # a first launch needs no maps

    memory = arrays.view(tensor)
    placed = replace(request, address=memory.address)
    tensor_map_limits.check(placed)
    return TensorMap(placed, memory, tensor.nbytes)


OPEN_ADDRESS = 1 << 20
"""Stands for the address of a map that is made before its tensor is there."""


def open_map(request: MapRequest, device: int) -> bytes:
    """The map as a GPU's driver encodes it; its first eight bytes are those of the address."""
    from weft.device import tensor_map_limits  # a first launch needs no maps

    placed = replace(request, address=OPEN_ADDRESS)
    tensor_map_limits.check(placed)  # its errors name the argument, those of the driver do not
    data = _by_driver(placed, device)
    at = MapFields.ADDRESS
    assert data[at : at + 8] == OPEN_ADDRESS.to_bytes(8, "little"), "the driver's maps have changed"
    return data


def _host_copy(data: bytes) -> NDArray[np.uint8]:
    room = np.zeros(MAP_BYTES + MAP_ALIGN, np.uint8)
    start = -room.ctypes.data % MAP_ALIGN
    copy = room[start : start + MAP_BYTES]
    copy[:] = np.frombuffer(data, np.uint8)
    return copy


class _DeviceCopy(int):
    """Memory of a GPU, by its address; freed with the object."""

    def __del__(self) -> None:
        from weft.device import driver

        driver.library().cuMemFree_v2(ctypes.c_uint64(self))


def _gpu_copy(made: TensorMap) -> _DeviceCopy:
    from weft.device import driver  # maps of host memory need no driver

    assert made.device is not None
    lib, address = driver.library(), ctypes.c_uint64()
    with driver.current(made.device):
        driver.check(lib.cuMemAlloc_v2(ctypes.byref(address), MAP_BYTES), "allocating a tensor map")
        code = lib.cuMemcpyHtoD_v2(address, made.data, ctypes.c_size_t(MAP_BYTES))
    copy = _DeviceCopy(address.value)
    driver.check(code, "copying a tensor map")
    return copy


def _by_driver(r: MapRequest, device: int) -> bytes:
    """The map that the driver encodes."""
    from weft.device import driver  # maps of host memory need no driver

    with driver.current(device):
        code, data = ask_driver(driver.library(), r)
    driver.check(code, "encoding a tensor map")
    return data


def ask_driver(lib: Any, r: MapRequest) -> tuple[int, bytes]:
    """The answer of a driver's library to a request, and the bytes of the map."""
    room = ctypes.create_string_buffer(MAP_BYTES + MAP_ALIGN)
    at = -(-ctypes.addressof(room) // MAP_ALIGN) * MAP_ALIGN

    def words(kind: Any, values: tuple[int, ...]) -> Any:
        return (kind * max(len(values), 1))(*values)

    head = (
        ctypes.c_void_p(at), ctypes.c_int(r.kind.driver), ctypes.c_uint(r.rank),
        ctypes.c_void_p(r.address), words(ctypes.c_uint64, r.dims),
        words(ctypes.c_uint64, r.strides),
    )  # fmt: skip
    tail = (
        words(ctypes.c_uint32, r.steps), ctypes.c_int(r.interleave), ctypes.c_int(r.swizzle),
        ctypes.c_int(r.l2), ctypes.c_int(r.nan),
    )  # fmt: skip
    if r.lower is None:
        code = lib.cuTensorMapEncodeTiled(*head, words(ctypes.c_uint32, r.box), *tail)
    else:
        code = lib.cuTensorMapEncodeIm2col(
            *head, words(ctypes.c_int, r.lower), words(ctypes.c_int, r.upper),
            ctypes.c_uint(r.channels), ctypes.c_uint(r.pixels), *tail,
        )  # fmt: skip
    return int(code), ctypes.string_at(at, MAP_BYTES)
