"""Allocates guarded arrays in the array library that the kernel is called with.

A guard is memory before and after an array, filled with random bytes that must not change.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.errors import ArgumentError, MissingDependency
from weft.measure import dtypes
from weft.measure.dtypes import Array, DType

GUARD = 1024
"""Bytes of a guard: more than a block overshoots when each thread writes one float too far."""


@dataclass(frozen=True)
class Library:
    """The functions that a check needs of an array library.

    empty  allocates bytes on the device, as a one-dimensional uint8 array
    bring  copies such an array to NumPy, in stream order
    view   (bytes, type, shape) -> the array that is passed to a kernel
    put    (bytes, NumPy bytes): overwrites the bytes
    wait   waits for all work on all streams of the device
    """

    name: str
    empty: Callable[[int], Any]
    bring: Callable[[Any], Array]
    view: Callable[[Any, DType, tuple[int, ...]], Any]
    put: Callable[[Any, Array], None]
    wait: Callable[[], None]


class Guarded:
    """One array between two guards; `guards` has the 2 x GUARD bytes of both."""

    def __init__(
        self, library: Library, dtype: DType, shape: tuple[int, ...], guards: Array
    ) -> None:
        self.library, self.dtype, self.shape = library, dtype, shape
        self.nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.numpy.itemsize
        self._whole = library.empty(self.nbytes + 2 * GUARD)
        # Written in one piece: on a GPU each copy is a round trip.
        inside = np.zeros(self.nbytes, np.uint8)
        library.put(self._whole, np.concatenate([guards[:GUARD], inside, guards[GUARD:]]))
        self._inner = self._whole[GUARD : GUARD + self.nbytes]
        self.array = library.view(self._inner, dtype, shape)

    def write(self, stored: Array) -> None:
        self.library.put(self._inner, np.ascontiguousarray(stored).reshape(-1).view(np.uint8))

    def read(self) -> Array:
        """The contents of the array."""
        return self.library.bring(self._inner).view(self.dtype.numpy).reshape(self.shape)

    def guards(self) -> Array:
        """The current bytes of both guards."""
        whole = self.library.bring(self._whole)
        return np.concatenate([whole[:GUARD], whole[GUARD + self.nbytes :]])


def new_guards() -> Array:
    """Unpredictable bytes for the guards of one array.

    No byte is 0 or 255: most stray writes have these values and would go unnoticed.
    """
    return np.frombuffer(secrets.token_bytes(2 * GUARD), np.uint8) % 254 + 1


# ---- libraries -------------------------------------------------------------------------------
def _aligned(nbytes: int) -> Array:
    # cudaMalloc aligns to 256 bytes; kernels may rely on that.
    raw = np.empty(nbytes + 256, np.uint8)
    start = -raw.ctypes.data % 256
    return raw[start : start + nbytes]


def _numpy_put(there: Array, data: Array) -> None:
    there[...] = data


def _alone(a: Array) -> Array:
    """The same memory as an array of its own: a kernel may not read the guards around it."""
    return np.asarray(a.data)


NUMPY = Library(
    "NumPy",
    empty=_aligned,
    bring=lambda a: a.copy(),
    view=lambda a, dtype, shape: _alone(a).view(dtype.numpy).reshape(shape),
    put=_numpy_put,
    wait=lambda: None,
)


def torch(device: str) -> Library:
    """PyTorch tensors on a device. The caller must have imported torch."""
    t = sys.modules.get("torch")
    if t is None:
        raise MissingDependency("PyTorch is not imported", next="import torch before the check")
    cuda = device.startswith("cuda")
    try:
        t.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:  # a build without CUDA raises AssertionError
        raise ArgumentError(
            "PyTorch has no such device",
            got=f"{device!r}: {str(error).partition(chr(10))[0]}",
            allowed='"sim", or "gpu" and "gpu:1" where PyTorch has CUDA and finds the GPU',
        ) from None

    def view(a: Any, dtype: DType, shape: tuple[int, ...]) -> Any:
        alone = a if cuda else t.from_numpy(_alone(a.numpy()))
        return alone.view(getattr(t, dtype.torch)).view(shape)

    return Library(
        f"PyTorch on {device}",
        empty=lambda n: t.empty(n, dtype=t.uint8, device=device),
        # On the CPU, numpy() shares memory with the tensor: copy it.
        bring=lambda a: a.cpu().numpy().copy(),
        view=view,
        put=lambda there, data: there.copy_(t.from_numpy(np.array(data))),
        wait=t.cuda.synchronize if cuda else lambda: None,
    )


def cupy() -> Library:
    """CuPy arrays on the current device."""
    c = sys.modules["cupy"]
    return Library(
        "CuPy",
        empty=lambda n: c.empty(n, dtype=c.uint8),
        bring=lambda a: c.asnumpy(a),
        view=lambda a, dtype, shape: a.view(dtype.numpy).reshape(shape),
        put=lambda there, data: there.set(np.ascontiguousarray(data)),
        wait=lambda: c.cuda.Device().synchronize(),
    )


def copied(stored: Array, dtype: DType, library: Library) -> Any:
    """A new array of a library with these contents."""
    made = Guarded(library, dtype, stored.shape, new_guards())
    made.write(stored)
    return made.array


def library_of(array: Any) -> Library:
    """The library an array belongs to."""
    root = type(array).__module__.split(".")[0]
    if root == "torch":
        return torch(str(array.device))
    return cupy() if root == "cupy" else NUMPY


def on_host(array: Any) -> Any:
    """The array in host memory. Tensors stay tensors; CuPy arrays become NumPy arrays."""
    if hasattr(array, "detach"):
        return array.detach().cpu()
    return array.get() if hasattr(array, "get") else array


def dtype_of(array: Any) -> DType:
    """The element type of an array: torch.bfloat16 is bf16."""
    dtype = getattr(array, "dtype", None)
    return dtypes.find(str(np.asarray(array).dtype if dtype is None else dtype))


def bits(array: Any) -> Array:
    """A NumPy copy of the stored bits of an array of any library."""
    library = library_of(array)
    if library is NUMPY:
        return np.array(array)
    plain = array.detach() if hasattr(array, "detach") else array
    # NumPy has no bfloat16, so the bits travel as int16.
    if str(plain.dtype) == "torch.bfloat16":
        t = sys.modules["torch"]
        return np.asarray(plain.contiguous().view(t.int16).cpu().numpy()).view(np.uint16).copy()
    return np.array(library.bring(plain))
