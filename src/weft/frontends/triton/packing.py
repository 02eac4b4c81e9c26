"""Packs arguments in Triton's way: constants are omitted, tuples and descriptors are flattened.

After the arguments come two pointers that Triton's compiler adds: scratch memory of the kernel
and of its profiler.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from weft.device import arrays
from weft.device.arguments import Packed, Packer
from weft.device.base import Allocation
from weft.device.ctypes_table import to_bfloat16
from weft.device.summary import KernelSummary
from weft.errors import ArgumentError, LaunchError
from weft.frontends import addresses
from weft.frontends.triton import descriptors

SCRATCH = ("global scratch", "profile scratch")

_FORMATS = {
    "i1": "<b", "i8": "<b", "i16": "<h", "i32": "<i", "i64": "<q",
    "u1": "<B", "u8": "<B", "u16": "<H", "u32": "<I", "u64": "<Q",
    "fp16": "<e", "fp32": "<f", "f32": "<f", "fp64": "<d",
}  # fmt: skip


class Leaf(NamedTuple):
    """One kernel parameter."""

    name: str
    type: str
    value: Any


class TritonPacker(Packer):
    """Packs the arguments of one compiled kernel."""

    def __init__(
        self,
        kernel: str,
        entry: KernelSummary,
        signature: Mapping[str, Any],
        maps: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """`maps`: the box of each tensor descriptor, for a target that has tensor maps."""
        super().__init__(kernel, entry.params, entry.param_bytes, None)
        self._maps = maps
        self._arguments = dict(signature) | dict.fromkeys(SCRATCH, "*i8")
        self.names = list(self._arguments)

    def signature(self) -> str:
        """The arguments with Triton's types; constants are part of the code."""
        shown = (f"{name}: {type}" for name, type in self._arguments.items() if name not in SCRATCH)
        return f"{self.kernel}({', '.join(shown)})"

    def pack(self, args: Sequence[Any]) -> Packed:
        """Pack the arguments, all in host memory."""
        leaves: list[Leaf] = []
        maps = iter(self._maps)
        for (name, type), value in zip(self._arguments.items(), args, strict=True):
            _flatten(name, type, value, leaves, maps)
        if len(leaves) != len(self.params):
            raise LaunchError(
                f"{self.kernel}: its PTX takes other arguments than this Triton passes",
                got=f"{len(leaves)} values",
                allowed=f"{len(self.params)} parameters",
                next="use a release of Triton that weft supports",
            )
        block = bytearray(self.size)
        memory = addresses.allowed()
        for leaf, param in zip(leaves, self.params, strict=True):
            data = self._bytes(leaf, memory)
            block[param.offset : param.offset + len(data)] = data
        return bytes(block), memory, (args, leaves), None

    def _bytes(self, leaf: Leaf, memory: list[Allocation]) -> bytes:
        name, type, value = leaf
        if type == descriptors.MAP:
            data, tensor = value
            self._pointer(Leaf(name, type, tensor), memory)
            return bytes(data)
        if type[0] == "*":
            return struct.pack("<Q", self._pointer(leaf, memory) & 2**64 - 1)
        try:
            if type == "bf16":
                return struct.pack("<H", to_bfloat16(float(value)))
            return struct.pack(_FORMATS[type], value)
        except (struct.error, OverflowError, TypeError, ValueError) as error:
            raise ArgumentError(
                f"argument '{name}' of {self.kernel} does not fit {type}", got=f"{value!r}: {error}"
            ) from None

    def _pointer(self, leaf: Leaf, memory: list[Allocation]) -> int:
        value = leaf.value
        if value is None:
            return 0
        # A raw address; `addresses.allow` declares its memory.
        if isinstance(value, int):
            return value
        owner = getattr(value, "base", value)  # of triton.reinterpret
        # An object of the user with `dtype` and `data_ptr`: its memory is declared as well.
        if not hasattr(owner, "is_contiguous"):
            return int(value.data_ptr())
        device = getattr(owner, "device", None)
        if device is not None and getattr(device, "type", "cpu") not in ("cpu", "meta"):
            raise ArgumentError(
                f"argument '{leaf.name}' of {self.kernel} is not in host memory",
                got=f"a tensor on {device}",
                allowed="CPU tensors on a simulated GPU, all of them or none",
                next=f"move it: {leaf.name}.cpu()",
            )
        held = addresses.extent(owner, leaf.name)
        if held.nbytes:
            memory.append(held)
        if (whole := arrays.around(owner, leaf.name)) is not None:
            memory.append(whole)
        return int(value.data_ptr())


def _flatten(name: str, type: Any, value: Any, out: list[Leaf], maps: Iterator[Any]) -> None:
    """Append the leaves of one argument; `maps` has what the compiler says of each descriptor."""
    if isinstance(type, tuple):
        for i, (t, v) in enumerate(zip(type, value, strict=True)):
            _flatten(f"{name}[{i}]", t, v, out, maps)
    elif type.startswith("tensordesc"):
        out += [Leaf(*part) for part in descriptors.parts(name, value, next(maps, None))]
    elif type != "constexpr":
        out.append(Leaf(name, type, value))
