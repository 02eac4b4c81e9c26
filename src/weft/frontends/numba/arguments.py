"""Packs arguments for Numba kernels.

    array    meminfo, parent, elements, bytes of one, address, shape..., strides...
    tuple    its members, one after the other
    complex  two numbers
    record   its address
    enum     its value
    None, a default that was not overridden    nothing

A `Field` packs one argument; `part` has a rule for each kind of Numba type.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numba.cuda import types
from numba.cuda.args import ArgHint, In
from numba.cuda.cudadrv.devicearray import DeviceNDArrayBase

from weft.device import arrays
from weft.device.arguments import Packed
from weft.device.base import Allocation
from weft.device.summary import ParameterSummary
from weft.errors import ArgumentError, PtxError

Value = Any


class PackedValues(NamedTuple):
    """The packed arguments of one launch, their memory, and objects to keep alive."""

    values: list[int | float]
    memory: list[Allocation]
    keep: list[object]


class Field(NamedTuple):
    """Packs one argument: the formats of its parameters, and the function that adds values."""

    format: str
    put: Callable[[Value, PackedValues], None]


class Packer:
    """Packs the arguments of one compiled kernel."""

    def __init__(
        self,
        kernel: str,
        names: Sequence[str],
        argument_types: Sequence[Any],
        params: Sequence[ParameterSummary],
        size: int,
        captured: Sequence[Any],
        reachable: Callable[[], list[Allocation]],
    ) -> None:
        """`captured`: arrays whose addresses are embedded in the code.

        `reachable`: memory that the kernel may know by address only.
        """
        self.kernel, self.names, self.argument_types = kernel, names, argument_types
        self._params, self._size, self._reachable = params, size, reachable
        self._captured = [_extent(a.__cuda_array_interface__, "captured array") for a in captured]
        self._parts = [part(ty, name) for ty, name in zip(argument_types, names, strict=True)]
        self._block = self._whole_block("".join(p.format for p in self._parts))

    def pack(self, args: Sequence[Value]) -> Packed:
        """Pack the arguments; their memory is accessible to the simulated GPU."""
        packed = PackedValues([], list(self._captured), [args])
        for value, (_, put) in zip(args, self._parts, strict=True):
            put(value, packed)
        memory = [*packed.memory, *self._reachable()]
        return self._block.pack(*packed.values), memory, packed.keep, None

    def signature(self) -> str:
        """The parameters with Numba's type names."""
        shown = [f"{n}: {t}" for n, t in zip(self.names, self.argument_types, strict=True)]
        return f"{self.kernel}({', '.join(shown)})"

    def _whole_block(self, formats: str) -> struct.Struct:
        """The format of the parameter block; raises if it does not match the PTX."""
        form, end = "<", 0
        for code, param in zip(formats, self._params, strict=False):
            form += f"{param.offset - end}x{code}"
            end = param.offset + param.size
        sizes = [struct.calcsize(code) for code in formats]
        if sizes != [param.size for param in self._params]:
            raise PtxError(
                f"{self.kernel}: the PTX does not take its arguments as Numba passes them",
                got=f"parameters of {[p.size for p in self._params]} bytes",
                allowed=f"{sizes} bytes",
                next="this is a bug of weft, or a version of Numba that it does not know",
            )
        return struct.Struct(f"{form}{self._size - end}x")


@functools.singledispatch
def part(ty: Any, name: str) -> Field:
    """The `Field` for an argument of a Numba type."""
    raise ArgumentError(
        f"argument '{name}' has a type that kernels cannot take",
        got=str(ty),
        allowed="arrays, numbers, tuples, records, enums, dates",
    )


@part.register(types.Array)
def _array(ty: Any, name: str) -> Field:
    def put(value: Value, packed: PackedValues) -> None:
        value = _unwrapped(value, packed)
        # The exact type test is much faster and usually true.
        if type(value) is np.ndarray or isinstance(value, np.ndarray):
            _put_host(value, name, packed)
        else:
            _put_device(value, name, packed)

    return Field("QQqqQ" + "q" * (2 * ty.ndim), put)


def _put_host(a: np.ndarray[Any, Any], name: str, packed: PackedValues) -> None:
    """A host array, passed in place: the simulated GPU accesses the same memory."""
    shape, strides, address = a.shape, a.strides, a.ctypes.data
    packed.values.extend((0, 0, a.size, a.itemsize, address, *shape, *strides))
    # The shape is known to error messages only for dense arrays: offsets map to indices.
    if a.flags.c_contiguous:
        low, high, shape_known = address, address + a.nbytes, shape
    else:
        (low, high), shape_known = np.lib.array_utils.byte_bounds(a), ()
    if a.size:
        memory = Allocation(low, high - low, a.flags.writeable, name, a.dtype, shape_known)
        packed.memory.append(memory)
    if a.base is not None and (whole := arrays.around(a, name)) is not None:
        packed.memory.append(whole)


def _put_device(a: Any, name: str, packed: PackedValues) -> None:
    """An array of the simulated device, an object with __cuda_array_interface__, or cuda.core's."""
    interface = _interface(a)
    memory = _extent(interface, name)
    shape, item = interface["shape"], np.dtype(interface["typestr"]).itemsize
    strides = a.strides if isinstance(a, DeviceNDArrayBase) else _strides(interface)
    size = int(np.prod(shape, dtype=np.int64))
    packed.values.extend((0, 0, size, item, interface["data"][0], *shape, *strides))
    if memory.nbytes:
        packed.memory.append(memory)


def _interface(a: Any) -> dict[str, Any]:
    """The array interface of an argument; that of Numba's arrays is built without a warning."""
    if not isinstance(a, DeviceNDArrayBase):
        facts: dict[str, Any] | None = getattr(a, "__cuda_array_interface__", None)
        return _of_core(a) if facts is None else facts
    dense = {"strides": None if a.is_c_contiguous() else a.strides}
    data = a.device_ctypes_pointer.value or 0, False
    return {"shape": a.shape, "typestr": a.dtype.str, "data": data, **dense}


def _of_core(a: Any) -> dict[str, Any]:
    """The array interface of a `Buffer` (bytes) or a `StridedMemoryView` of cuda.core."""
    if not hasattr(a, "ptr"):
        return {"shape": (a.size,), "typestr": "|u1", "data": (int(a.handle), False)}
    dtype = np.dtype(a.dtype)
    strides = a.strides and tuple(dtype.itemsize * step for step in a.strides)
    data = int(a.ptr), bool(a.readonly)
    return {"shape": a.shape, "typestr": dtype.str, "data": data, "strides": strides}


def _extent(interface: dict[str, Any], name: str) -> Allocation:
    """The memory of an array, including gaps."""
    shape, strides = interface["shape"], _strides(interface)
    address, read_only = interface["data"]
    if 0 in shape:
        return Allocation(address, 0, not read_only, name)
    reach = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    low = sum(r for r in reach if r < 0)
    dtype = np.dtype(interface["typestr"])
    high = sum(r for r in reach if r > 0) + dtype.itemsize
    dense_shape = tuple(shape) if interface.get("strides") is None else ()
    return Allocation(address + low, high - low, not read_only, name, dtype, dense_shape)


def _strides(interface: dict[str, Any]) -> Sequence[int]:
    declared: Sequence[int] | None = interface.get("strides")
    if declared is not None:
        return declared
    strides, step = [], np.dtype(interface["typestr"]).itemsize
    for n in reversed(interface["shape"]):
        strides.append(step)
        step *= n
    return strides[::-1]


def _unwrapped(value: Value, packed: PackedValues) -> Value:
    """Unwrap `cuda.In(array)` and the like; an `In` is copied, so writes to it are lost."""
    if not isinstance(value, ArgHint):
        return value
    if isinstance(value, In) and isinstance(value.value, np.ndarray | np.void):
        copied = value.value.copy()
        packed.keep.append(copied)
        return copied
    return value.value


@part.register(types.Record)
def _record(ty: Any, name: str) -> Field:
    def put(value: Value, packed: PackedValues) -> None:
        value = _unwrapped(value, packed)
        cuda = hasattr(value, "__cuda_array_interface__")
        about = value.__cuda_array_interface__ if cuda else value.__array_interface__
        address = about["data"][0]
        packed.values.append(address)
        packed.memory.append(Allocation(address, ty.size, True, name))

    return Field("Q", put)


@part.register(types.BaseTuple)
def _tuple(ty: Any, name: str) -> Field:
    members = [part(t, f"{name}[{i}]") for i, t in enumerate(ty)]

    def put(value: Value, packed: PackedValues) -> None:
        for member, (_, put_member) in zip(value, members, strict=True):
            put_member(member, packed)

    return Field("".join(m.format for m in members), put)


_INTEGERS = {8: "b", 16: "h", 32: "i", 64: "q"}


@part.register(types.Integer)
def _integer(ty: Any, name: str) -> Field:
    code, bits = _INTEGERS[ty.bitwidth], ty.bitwidth
    low = -(1 << bits - 1) if ty.signed else 0

    def put(value: Value, packed: PackedValues) -> None:
        number = int(value)
        packed.values.append((number - low) % (1 << bits) + low)  # as C converts

    return Field(code if ty.signed else code.upper(), put)


@part.register(types.Boolean)
def _boolean(ty: Any, name: str) -> Field:
    return Field("B", lambda value, packed: packed.values.append(int(bool(value))))


@part.register(types.Float)
def _float(ty: Any, name: str) -> Field:
    if ty.bitwidth == 16:
        return Field(
            "H", lambda v, packed: packed.values.append(int(np.float16(v).view(np.uint16)))
        )
    if ty.bitwidth == 32:  # NumPy rounds what is too large to infinity; struct would refuse it
        return Field("f", lambda value, packed: packed.values.append(float(np.float32(value))))
    return Field("d", lambda value, packed: packed.values.append(float(value)))


@part.register(types.Complex)
def _complex(ty: Any, name: str) -> Field:
    code = "ff" if ty.bitwidth == 64 else "dd"
    return Field(code, lambda value, packed: packed.values.extend((value.real, value.imag)))


@part.register(types.NPDatetime)
@part.register(types.NPTimedelta)
def _date(ty: Any, name: str) -> Field:
    return Field("q", lambda value, packed: packed.values.append(int(value.view(np.int64))))


@part.register(types.EnumMember)
def _enum(ty: Any, name: str) -> Field:
    inner = part(ty.dtype, name)
    return Field(inner.format, lambda value, packed: inner.put(value.value, packed))


@part.register(types.CPointer)
def _pointer(ty: Any, name: str) -> Field:
    return Field("Q", lambda value, packed: packed.values.append(int(value)))


@part.register(types.NoneType)
@part.register(types.Omitted)
def _nothing(ty: Any, name: str) -> Field:
    return Field("", lambda value, packed: None)
