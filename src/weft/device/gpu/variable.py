"""A `__device__` or `__constant__` variable on a real GPU: read and written by copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.device.gpu import memory
from weft.errors import LaunchError


class GpuVariable:
    """Indexed like an array; every access copies, after all that was launched before.

    `torch.as_tensor(v)` and `cupy.asarray(v)` see its memory itself.
    """

    def __init__(
        self,
        holders: Callable[[], list[tuple[int, int]]],
        name: str,
        dtype: np.dtype[Any],
        device: int,
    ) -> None:
        """`holders` gives address and size of the variable, then those in template instances."""
        places = holders()
        if not places:
            raise LaunchError(
                f"no variable '{name}' in the code on gpu:{device}",
                got=name,
                next="the compiler leaves out variables that no kernel uses; those of a template's "
                "instance belong to it: module.kernel('k<float>').variable(...)",
            )
        self.name, self.dtype, self.device = name, dtype, device
        self.address, self.nbytes = places[0]
        if self.nbytes % dtype.itemsize:
            raise LaunchError(
                f"'{name}' is no array of {dtype}",
                got=f"{self.nbytes} bytes",
                next="pass its dtype",
            )
        self._holders = holders  # it also keeps the code loaded that the memory belongs to

    def get(self) -> NDArray[Any]:
        """Its value now."""
        data = memory.read(self.address, self.nbytes, self.device)
        # An array over `bytes` would be read-only.
        return np.frombuffer(bytearray(data), self.dtype)

    def set(self, value: Any) -> None:
        """Assign a value: an array of its length, or one number for all."""
        whole = np.empty(len(self), self.dtype)
        whole[:] = value
        for address, nbytes in self._holders():
            if nbytes == self.nbytes:
                memory.write(address, whole.tobytes(), self.device)

    def __len__(self) -> int:
        return self.nbytes // self.dtype.itemsize

    def __getitem__(self, index: Any) -> Any:
        return self.get()[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        whole = self.get()
        whole[index] = value
        self.set(whole)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self.get().astype(dtype or self.dtype, copy=False)

    def __repr__(self) -> str:
        return f"<{self.name} on gpu:{self.device}: {self.get()!r}>"

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": (len(self),),
            "typestr": self.dtype.str,
            "data": (self.address, False),
            "version": 3,
        }
