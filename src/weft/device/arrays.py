"""Arrays of any library as plain memory: address, dtype, place, through the common protocols."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np

from weft.device.base import Allocation
from weft.records import dataclass

HOST_DEVICES, CUDA_DEVICES = (1, 3), (2, 13)
"""DLPack's numbers for host memory (pageable, pinned) and CUDA memory (plain, managed)."""

BUILTIN = frozenset(np.dtype(c).name for c in "?bBhHiIlLqQefdFD")
"""Dtypes whose arrays give their address away quickly."""
_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}
_ARRAYS = {"torch": "Tensor", "cupy": "ndarray"}
"""Packages with a current stream of their own, and the class of their arrays."""
_LIBRARIES: dict[type, str] = {}
_LEGACY_STREAM = 1
"""DLPack's number for CUDA's default stream."""


@dataclass(frozen=True, slots=True)
class ArrayMemory:
    """Memory of an array; `owner` keeps it alive.

    device   the GPU it is on, None for the host
    library  the package that the array comes from, whose current stream counts
    stream   the stream on which its contents are ready, where the array names one
    """

    address: int
    nbytes: int
    dtype: str
    itemsize: int
    contiguous: bool
    writable: bool
    owner: object
    device: int | None = None
    library: str = ""
    stream: int | None = None


class Elsewhere(Exception):
    """Error: the array is neither on the host nor on a CUDA GPU; the message says where it is."""


class _DlDevice(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("id", ctypes.c_int32))


class DlTensor(ctypes.Structure):
    """DLPack's description of a tensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _DlDevice),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
capsule_pointer.restype = ctypes.c_void_p
capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


class Exchange(NamedTuple):
    """Two functions of DLPack's C exchange interface: describe an array, get the current stream."""

    describe: int
    work_stream: int

    def dtype(self, value: object) -> int:
        """The dtype of an array as DLPack's 32 bits."""
        tensor = DlTensor()
        ask = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(self.describe)
        if ask(value, ctypes.addressof(tensor)):
            raise BufferError("the array does not describe itself")
        return int(tensor.code | tensor.bits << 8 | tensor.lanes << 16)


NO_EXCHANGE = Exchange(0, 0)


def exchange(capsule: object) -> Exchange:
    """The interface that a type of arrays offers as a capsule."""
    table = capsule_pointer(capsule, b"dlpack_exchange_api")
    words = (ctypes.c_uint64 * 7).from_address(table)
    return Exchange(words[5], words[6])  # behind the header and three other functions


def is_array(value: object) -> bool:
    """Return whether the value offers its memory through one of the protocols."""
    return isinstance(value, np.ndarray) or any(
        hasattr(value, name)
        for name in ("__dlpack__", "__array_interface__", "__cuda_array_interface__")
    )


def address(a: Any) -> int:
    """The address of a NumPy array that is writable and not empty; `ctypes.data` is slow."""
    return ctypes.addressof(ctypes.c_char.from_buffer(a))


def library(value: object) -> str:
    """The package that an array comes from: `torch` for every subclass of its Tensor."""
    kind = type(value)
    # A subclass of Tensor, such as torch.nn.Parameter, is found by its base class.
    if kind not in _LIBRARIES:
        homes = ((c.__module__.partition(".")[0], c.__name__) for c in kind.__mro__)
        found = [package for package, name in homes if _ARRAYS.get(package) == name]
        _LIBRARIES[kind] = found[0] if found else ""
    return _LIBRARIES[kind]


def view(value: Any) -> ArrayMemory:
    """The memory of an array; raises Elsewhere, BufferError or TypeError."""
    if isinstance(value, np.ndarray):
        return _numpy(value)
    if library(value) == "torch":
        return _torch(value)
    if hasattr(value, "__weft_array__"):  # weft.cupy: host memory that stands for a GPU's
        return _numpy(value.__weft_array__())
    if hasattr(value, "__cuda_array_interface__"):
        return _cuda(value)
    if hasattr(value, "__dlpack__"):
        return _dlpack(value)
    return _numpy(np.asarray(value))


def around(value: Any, name: str) -> Allocation | None:
    """The host memory that a view is a part of, such as `x` for `x[1:]`; None for a whole array.

    A kernel may read it, e.g. the neighbours of the first element, but not write it.
    """
    whole = None
    if isinstance(value, np.ndarray):
        base = value.base
        if isinstance(base, np.ndarray) and base.size:
            low, high = np.lib.array_utils.byte_bounds(base)
            whole = low, high - low
    elif library(value) == "torch" and value.device.type == "cpu":
        storage = value.untyped_storage()
        whole = int(storage.data_ptr()), int(storage.nbytes())
    if whole is None or whole[1] <= value.nbytes:
        return None
    return Allocation(*whole, False, f"the array of the view {name}", value.dtype, around=True)


def _numpy(a: np.ndarray[Any, Any]) -> ArrayMemory:
    dtype = a.dtype
    # The name of a dtype hides its byte order: a byte-swapped array must not pass as a native one.
    name = "struct" if dtype.names else dtype.name if dtype.isnative else dtype.str
    return ArrayMemory(
        a.ctypes.data, a.nbytes, name, a.itemsize, a.flags.c_contiguous, a.flags.writeable, a
    )


def _torch(value: Any) -> ArrayMemory:
    """Read a tensor's attributes: DLPack is five times slower and refuses what requires a grad."""
    where = value.device
    if where.type not in ("cpu", "cuda"):
        raise Elsewhere(f"a tensor on {where}")
    # The operation is a flag of the tensor: its memory still has the other values.
    if value.is_conj() or value.is_neg():
        raise BufferError("a tensor that is conjugated or negated lazily")
    return ArrayMemory(
        value.data_ptr(),
        value.nbytes,
        str(value.dtype).removeprefix("torch."),
        value.element_size(),
        value.is_contiguous(),
        True,
        value,
        where.index if where.type == "cuda" else None,
        "torch",
    )


def _cuda(value: Any) -> ArrayMemory:
    """Read `__cuda_array_interface__`, which CuPy, Numba and many more offer."""
    from weft.device.driver import device_of  # arrays in host memory need no driver

    facts = value.__cuda_array_interface__
    start, read_only = facts["data"]
    dtype, shape = np.dtype(facts["typestr"]), facts["shape"]
    strides = facts.get("strides")
    dense = strides is None or _dense(list(shape), [s // max(dtype.itemsize, 1) for s in strides])
    count = 1
    for n in shape:
        count *= n
    name = "struct" if dtype.names or facts["typestr"][1] == "V" else dtype.name
    stream = facts.get("stream")
    return ArrayMemory(
        start or 0,
        count * dtype.itemsize,
        name,
        dtype.itemsize,
        dense,
        not read_only,
        value,
        device_of(start or 0),
        library(value),
        None if stream is None else int(stream),
    )


def _dlpack(value: Any) -> ArrayMemory:
    kind, number = value.__dlpack_device__()
    if kind not in HOST_DEVICES + CUDA_DEVICES:
        raise Elsewhere(f"device {int(kind)}:{int(number)}")
    on_gpu = kind in CUDA_DEVICES
    # The producer makes the contents ready on the stream that it is given.
    capsule = value.__dlpack__(stream=_LEGACY_STREAM) if on_gpu else value.__dlpack__()
    t = DlTensor.from_address(capsule_pointer(capsule, b"dltensor"))
    shape = [t.shape[i] for i in range(t.ndim)]
    count = 1
    for n in shape:
        count *= n
    itemsize = (t.bits * t.lanes + 7) // 8
    dense = not t.strides or _dense(shape, [t.strides[i] for i in range(t.ndim)])
    family = _CODES.get(t.code, f"type{t.code}")
    name = family if family == "bool" else f"{family}{t.bits}"
    start = (t.data or 0) + t.byte_offset
    nbytes, owner = count * itemsize, (value, capsule)
    device = int(number) if on_gpu else None
    return ArrayMemory(start, nbytes, name, itemsize, dense, True, owner, device)


def _dense(shape: list[int], strides: list[int]) -> bool:
    if 0 in shape:
        return True
    expected = 1
    for n, s in zip(reversed(shape), reversed(strides), strict=True):
        # Libraries give an axis of length 1 any stride: it is never used.
        if n != 1 and s != expected:
            return False
        expected *= n
    return True
