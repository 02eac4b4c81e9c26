"""The array of the device. NumPy computes; every result is an array of the device again."""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np

from weft.frontends import activity
from weft.frontends.cupy import array_memory, memory
from weft.frontends.cupy.device import Device
from weft.frontends.cupy.host_objects import (
    HostObject,
    device_class,
    forward,
    forwarded,
    to_device,
    to_host,
)
from weft.frontends.cupy.indices import within
from weft.frontends.cupy.pinned import is_pinned
from weft.values.time import timeline

_HOST_ONLY = frozenset({
    "ctypes", "data", "dump", "dumps", "getfield", "resize", "searchsorted", "setfield", "setflags",
    "to_device",
})  # fmt: skip
"""Attributes that CuPy's arrays lack or define otherwise."""


class ndarray(HostObject, holds=np.ndarray):
    """An array in memory of the device, which is host memory here."""

    __slots__ = ("_memory",)
    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self, shape: Any, dtype: Any = float, memptr: Any = None, strides: Any = None,
        order: str = "C",
    ) -> None:  # fmt: skip
        if memptr is None:
            self._host = np.ndarray(shape, dtype, strides=strides, order=order)  # type: ignore[arg-type]
        else:
            self._host = np.ndarray(
                shape,
                dtype,
                memptr.mem.bytes,
                memptr.offset,
                strides,
                order,  # type: ignore[arg-type]
            )
            array_memory.register(memptr.mem)
        self._memory = array_memory.memory_of(self._host)

    @classmethod
    def of(cls, host: Any) -> Any:
        """Return the array of the device for one of NumPy, which is not copied."""
        made = cls.__new__(cls)
        made._host, made._memory = host, array_memory.memory_of(host)
        return made

    # ---- to and from the host ------------------------------------------------------------------
    def get(
        self, stream: object = None, order: str = "C", out: Any = None, blocking: bool = True
    ) -> np.ndarray[Any, Any]:
        """Copy to an array of NumPy."""
        self._record(timeline.TO_HOST, out, stream, blocking)
        if out is None:
            return np.array(self._host, order="K" if order == "A" else order)  # type: ignore[call-overload,no-any-return]
        if not isinstance(out, np.ndarray):
            raise TypeError("Only numpy.ndarray can be obtained from cupy.ndarray")
        if out.dtype != self._host.dtype:
            raise TypeError(f"{out.dtype} array cannot be obtained from {self._host.dtype} array")
        if out.shape != self._host.shape:
            raise ValueError(
                f"Shape mismatch. Expected shape: {self._host.shape}, got: {out.shape}"
            )
        out[...] = self._host
        return out

    def set(self, arr: Any, stream: object = None) -> None:
        """Copy an array of NumPy to this one."""
        if not isinstance(arr, np.ndarray):
            raise TypeError("Only numpy.ndarray can be set to cupy.ndarray")
        if arr.dtype != self._host.dtype:
            raise TypeError(f"{arr.dtype} array cannot be set to {self._host.dtype} array")
        if arr.shape != self._host.shape:
            raise ValueError(f"Shape mismatch. Old shape: {self._host.shape}, new: {arr.shape}")
        self._record(timeline.TO_DEVICE, arr, stream, False)
        self._host[...] = arr

    def _record(self, direction: str, host: Any, stream: object, blocking: bool) -> None:
        """Record a copy from or to an array of NumPy, for a timeline."""
        if activity.current is None:
            return
        pageable = not is_pinned(host)
        with activity.call("cudaMemcpyAsync"):
            activity.copied(
                direction, self._host.nbytes, stream=activity.handle(stream), pageable=pageable,
                memory=int(self._host.ctypes.data), waits=blocking or pageable,
            )  # fmt: skip

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. "
            "Please use `.get()` to construct a NumPy array explicitly."
        )

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *args: Any, **options: Any) -> Any:
        return forwarded(getattr(ufunc, method))(*args, **options)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        return forwarded(function)(*args, **options)

    def __dlpack__(self, **options: Any) -> Any:
        options.pop("stream", None)  # all work is complete
        return self._host.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        """Report host memory, which other libraries can use without a GPU."""
        return self._host.__dlpack_device__()

    def toDlpack(self) -> Any:
        return self.__dlpack__()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        array = self._host
        return {
            "shape": array.shape, "typestr": array.dtype.str, "descr": array.dtype.descr,
            "stream": 1, "version": 3, "data": (self.data.ptr, False),
            "strides": None if array.flags.c_contiguous else array.strides,
        }  # fmt: skip

    def __weft_array__(self) -> np.ndarray[Any, Any]:
        """Give weft's own kernels the memory."""
        host: np.ndarray[Any, Any] = self._host
        return host

    def __reduce__(self) -> Any:
        return _restored, (self._host,)

    # ---- its memory ----------------------------------------------------------------------------
    @property
    def data(self) -> memory.MemoryPointer:
        """The address of its first element."""
        return array_memory.pointer(self._host, self._memory)

    @property
    def base(self) -> Any:
        return None if self._host.base is None else to_device(array_memory.owner(self._host))

    @property
    def device(self) -> Device:
        return Device(0)

    def reduced_view(self, dtype: Any = None) -> ndarray:
        """Return a view with as few axes as possible."""
        return self.ravel() if self._host.flags.c_contiguous else self.view()  # type: ignore[no-any-return]

    # ---- items ---------------------------------------------------------------------------------
    def __getitem__(self, key: Any) -> Any:
        found = self._host[within(to_host(key), self._host)]
        return to_device(found)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._host[within(to_host(key), self._host)] = to_host(value)

    def __iter__(self) -> Any:
        if self._host.ndim == 0:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self._host)))

    # ---- as Python's own values ----------------------------------------------------------------
    def __bool__(self) -> bool:
        return bool(self._host)

    def __int__(self) -> int:
        return int(self._host)

    def __float__(self) -> float:
        return float(self._host)

    def __complex__(self) -> complex:
        return complex(self._host)

    def __index__(self) -> int:
        return operator.index(self._host)

    def __bytes__(self) -> bytes:
        return bytes(self._host)

    def __str__(self) -> str:
        return str(self._host)

    def __format__(self, spec: str) -> str:
        return format(self._host, spec)

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: object) -> Any:
        return self.copy()


def _restored(host: np.ndarray[Any, Any]) -> Any:
    return ndarray.of(host)


def _attribute(name: str) -> property:
    """Make a property that reads and writes an attribute of NumPy's array."""

    def read(self: ndarray) -> Any:
        return to_device(getattr(self._host, name))

    def write(self: ndarray, value: Any) -> None:
        setattr(self._host, name, to_host(value))

    return property(read, write)


def _define() -> None:
    """Give the array NumPy's methods and attributes."""
    for name, found in vars(np.ndarray).items():
        if name.startswith("_") or name in _HOST_ONLY or name in vars(ndarray):
            continue
        if callable(found):
            forward(ndarray, np.ndarray, [name])
        else:
            setattr(ndarray, name, _attribute(name))
    ndarray.__module__ = "cupy"


_define()
flatiter = device_class(np.flatiter)


class ufunc(HostObject, holds=np.ufunc):
    """A function of elements; unlike NumPy's it does not take lists."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        for value in args:
            if isinstance(value, list):
                raise TypeError(
                    f"Unsupported type {type(value)}: cupy.{self.__name__} takes arrays"
                )
        return forwarded(self._host)(*args, **options)

    def at(self, a: ndarray, indices: Any, b: Any = None) -> None:
        """Update items one after the other, so that each index counts that occurs again."""
        values = () if b is None else (to_host(b),)
        self._host.at(a._host, within(to_host(indices), a._host), *values)

    @property
    def __name__(self) -> str:
        return str(self._host.__name__)

    def __repr__(self) -> str:
        return f"<ufunc 'cupy_{self.__name__}'>"


@functools.singledispatch
def asnumpy(
    a: Any, stream: object = None, order: str = "C", out: Any = None, blocking: bool = True
) -> Any:
    """Copy an array of the device to NumPy; make an array of anything else."""
    if out is not None:
        out[...] = a
        return out
    return np.asarray(a, order=order)  # type: ignore[call-overload]


@asnumpy.register
def _(a: HostObject, *args: Any, **options: Any) -> Any:
    return a.get(*args, **options)
