"""Tensor maps that a comment of a source asks for, as arguments of its kernels.

    // map: a = A[128, 64] swizzle 128

`a` is a parameter `const __grid_constant__ weft::TensorMap a`, `A` an array, and the sizes of a box
are expressions of the sizes. A box of more dimensions than the array has takes it as one of many:
`A[1, 128, 64]`. The dimensions of an array may be taken in another order, that of its numbers:
`A:0213[1, 64, 1, 64]` exchanges the second and the third.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from weft.errors import ArgumentError
from weft.kernels.tensor_map import tensor_map
from weft.measure.expressions import wholes

_MAP = re.compile(r"(\w+)\s*=\s*(\w+)(?::(\d+))?\[(.+)\](?:\s+swizzle\s+(\d+))?$")
_COMMENT = re.compile(r"^// map:\s*(.*?)\s*$", re.MULTILINE)


class MapSpec(NamedTuple):
    """The map of an array: its name, the array's, the sizes of a box, and the swizzle's bytes.

    order  numbers of the array's dimensions in the order of the box; "": as they are
    """

    name: str
    array: str
    box: str
    swizzle: int
    order: str = ""

    def made(self, values: Mapping[str, Any], sizes: Mapping[str, int | float]) -> Any:
        """The map of an array of `values`."""
        if self.array not in values:
            raise ArgumentError(
                f"the map '{self.name}' is of an array that is not there",
                got=self.array,
                allowed=", ".join(values),
            )
        array, box = self._ordered(values[self.array]), wholes(self.box, sizes)
        array = array[(None,) * (len(box) - array.ndim)]
        return tensor_map(array, box, swizzle=self.swizzle)

    def _ordered(self, array: Any) -> Any:
        order = tuple(map(int, self.order)) if self.order else tuple(range(array.ndim))
        if sorted(order) != list(range(array.ndim)):
            raise ArgumentError(
                f"the map '{self.name}' has an order that is none of its array's dimensions",
                got=f"{self.array}:{self.order}, of {array.ndim} dimensions",
                allowed="".join(map(str, range(array.ndim))) + " in any order",
            )
        permute = getattr(array, "permute", array.transpose)  # PyTorch's, else NumPy's
        return permute(order)


def read(text: str, where: str) -> MapSpec:
    """Read the words after `map:`."""
    match = _MAP.match(text)
    if match is None:
        raise ArgumentError(
            "a map cannot be read",
            where=where,
            got=text,
            allowed="NAME = ARRAY[ROWS, COLUMNS], and swizzle 32, 64 or 128 behind it",
        )
    return MapSpec(match[1], match[2], match[4], int(match[5] or 0), match[3] or "")


def in_source(source: str, where: str) -> Iterator[MapSpec]:
    """The maps that a source asks for."""
    for line in _COMMENT.finditer(source):
        yield read(line[1], where)
