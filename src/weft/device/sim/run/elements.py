"""Addresses as elements of arrays, for messages.

Every message that names an address uses this module: faults, the sanitizer's findings and the
reports of checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.device.base import Allocation

NEAR = 2**20
"""Bytes beyond an array in which an address is still taken for an element of it."""


def indexed(name: str, index: Sequence[int]) -> str:
    """`y[3, 40]`; a name that is a description gets brackets: `(memory of cudaMalloc)[100]`."""
    whole = name if name.isidentifier() else f"({name})"
    return f"{whole}[{', '.join(str(i) for i in index)}]"


def element(a: Allocation, address: int, width: int = 1) -> str:
    """`y[1000] of 1000 float32`: `width` bytes at an address as elements of an array.

    Where the array's dtype is not known, e.g. of a `__device__` variable, elements are as large as
    the access.
    """
    size = item_size(a, width)
    first, rest = divmod(address - a.address, size)
    last = (address + width - 1 - a.address) // size
    shape = a.shape or (a.nbytes // size,)
    text = indexed(a.name, _unravelled(first, shape))
    text += f" + {rest} bytes" if rest else ""
    text += f" to {indexed(a.name, _unravelled(last, shape))}" if last > first else ""
    return f"{text} of {counted(a, width)}"


def counted(a: Allocation, width: int = 1) -> str:
    """`1000 float32`, `(32, 32) float32`, or `100 elements of 4 bytes`."""
    size = item_size(a, width)
    count = str(a.shape) if len(a.shape) > 1 else str(a.nbytes // size)
    return f"{count} {_dtype(a)}" if a.dtype is not None else f"{count} elements of {size} bytes"


def is_near(a: Allocation, address: int) -> bool:
    """Return whether this address is in the array, or near enough to be a wrong index of it."""
    reach = max(NEAR, a.nbytes)
    return a.address - reach <= address < a.address + a.nbytes + reach


def item_size(a: Allocation, width: int) -> int:
    """Bytes of an element; of the access, where the array has no dtype."""
    return max(1, int(getattr(a.dtype, "itemsize", 0)) or width)


def _dtype(a: Allocation) -> str:
    """`float32` of NumPy's and of PyTorch's dtype; a structure's fields would be too long."""
    name = str(a.dtype).removeprefix("torch.")
    return name if name.isidentifier() else f"structs of {item_size(a, 1)} bytes"


def _unravelled(flat: int, shape: Sequence[int]) -> list[int]:
    """Indices of an element in C order; the first one goes beyond its size where the element does.

    `np.unravel_index` refuses such elements, which are the ones that faults are about.
    """
    index = []
    for n in reversed(shape[1:]):
        flat, i = divmod(flat, max(n, 1))
        index.append(i)
    return [flat, *reversed(index)]
