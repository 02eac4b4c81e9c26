"""Arguments of a launch: checked against the kernel's parameters and packed as the ABI wants."""

from __future__ import annotations

import functools
import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from weft.device import argument_numbers as numbers
from weft.device import arrays, ctypes_table
from weft.device.base import Allocation, ArrayPlace, MapArgument
from weft.device.ctypes_table import CType
from weft.device.summary import ParameterSummary
from weft.errors import ArgumentError
from weft.quoting import quoted
from weft.values import Parameter

if TYPE_CHECKING:
    from weft.device.tensor_map import TensorMap

_KINDS: dict[str, type] = {**dict.fromkeys("bBhHiIqQ", int), "f": float, "d": float}
"""Python's own type for each format that `struct` packs just as C++ converts."""
Packed = tuple[bytes, list[Allocation], object, ArrayPlace | None]
"""Parameter block, memory that the kernel may access, an object that keeps this memory alive, and
the real GPU that the arrays are on: None for the host.
"""


def _remedies() -> Any:
    """The module of suggestions, which only errors need."""
    from weft.device import argument_remedies

    return argument_remedies


def _is_map(value: object) -> TypeGuard[TensorMap]:
    return isinstance(value, MapArgument)


class DeviceHandle(int):
    """An object of a device that kernels take by its number, such as a texture.

    device  the GPU that it is on; None for the simulated one
    """

    device: int | None


class Packer:
    """Checks and packs the arguments of one kernel."""

    def __init__(
        self,
        kernel: str,
        params: Sequence[ParameterSummary],
        size: int,
        types: Sequence[Parameter] | None,
    ) -> None:
        self.kernel, self.params, self.size = kernel, params, size
        known = types is not None and len(types) == len(params)
        self.types: list[CType | None] = []
        self.names: list[str] = []
        for i in range(len(params)):
            declared = types[i] if known and types is not None else None
            self.types.append(ctypes_table.parse(declared.ctype) if declared else None)
            self.names.append(declared.name if declared else f"arg{i}")
        self._seen: list[dict[np.dtype[Any], int]] = [{} for _ in params]
        self._kinds = [None if not t or t.pointer else _KINDS.get(t.format) for t in self.types]
        self.whole = self._whole_block()

    def pack(self, args: Sequence[Any]) -> Packed:
        """The arguments as the kernel takes them."""
        return self._pack_plain(args) or self._pack_any(args)

    def limits(self, i: int) -> tuple[int, int]:
        """The least and the most that an integer parameter takes."""
        want = self.types[i]
        return numbers.INTEGERS[want.format if want else numbers.UNSIGNED[self.params[i].size]]

    def _pack_plain(self, args: Sequence[Any]) -> Packed | None:
        """Pack the arguments of most launches quickly: NumPy arrays like earlier ones, int, float.

        Return None for anything else, errors included.
        """
        if self.whole is None or len(args) != len(self.params):
            return None
        values: list[Any] = []
        memory: list[Allocation] = []
        views = False
        for value, kind, seen, name in zip(args, self._kinds, self._seen, self.names, strict=True):
            # The exact type: `bool` and NumPy's scalars are converted by the slow path.
            if type(value) is kind:
                values.append(value)
                continue
            # An empty array has no buffer whose address ctypes could take.
            if type(value) is not np.ndarray or value.dtype not in seen or not value.size:
                return None
            flags = value.flags
            if not (flags.c_contiguous and flags.writeable):
                return None
            address = arrays.address(value)
            if address % seen[value.dtype]:
                return None
            values.append(address)
            known = Allocation(address, value.nbytes, True, name, value.dtype, value.shape)
            memory.append(known)
            views = views or value.base is not None
        if views:
            memory += self._around(args)
        try:
            return self.whole.pack(*values), memory, args, None
        except (struct.error, OverflowError):
            return None

    def _whole_block(self) -> struct.Struct | None:
        """The parameter block as one format, where every parameter is a pointer or a number."""
        form, end = "<", 0
        for param, want in zip(self.params, self.types, strict=True):
            code = "Q" if want and want.pointer else want.format if want else ""
            if code not in ("Q", *_KINDS) or struct.calcsize(code) != param.size:
                return None
            form += f"{param.offset - end}x{code}"
            end = param.offset + param.size
        return struct.Struct(f"{form}{self.size - end}x")

    def _pack_any(self, args: Sequence[Any]) -> Packed:
        if len(args) != len(self.params):
            raise ArgumentError(
                f"{self.kernel} takes {len(self.params)} arguments",
                got=f"{len(args)}",
                allowed=self.signature(),
            )
        block = bytearray(self.size)
        memory: list[Allocation] = []
        keep: list[object] = []
        found: dict[int, arrays.ArrayMemory] = {}
        for i, (value, param) in enumerate(zip(args, self.params, strict=True)):
            # A structured array without dimensions is a struct by value, not memory to point at.
            if isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.names:
                value = value[()]
            if _is_map(value):
                memory += self._map(i, value, param, block)
                found[i] = value.tensor
                keep.append(value)
            elif arrays.is_array(value) and not isinstance(value, np.generic):
                found[i] = a = self._array(i, value)
                struct.pack_into("<Q", block, param.offset, a.address)
                about = getattr(value, "dtype", None), tuple(getattr(value, "shape", ()))
                memory.append(Allocation(a.address, a.nbytes, a.writable, self.names[i], *about))
                keep.append(a.owner)
            else:
                self._scalar(i, value, param, block)
                if isinstance(value, DeviceHandle):  # a launch may have no array that says where
                    found[i] = arrays.ArrayMemory(0, 0, "", 1, True, True, value, value.device)
        memory += self._around(args)
        return bytes(block), memory, keep, self._place(found)

    def _map(
        self, i: int, value: TensorMap, param: ParameterSummary, block: bytearray
    ) -> list[Allocation]:
        """A tensor map by value, or by the address of a copy; returns the memory it makes known."""
        tensor = value.memory(self.names[i])
        if param.size == len(value.data):
            block[param.offset : param.offset + param.size] = value.data
            return [tensor]
        want = self.types[i]
        if param.size != 8 or (want is not None and not want.pointer):
            raise self._fail(
                i,
                "is no tensor map, but one was given",
                got=repr(value),
                allowed=want.spelling if want else f"a scalar of {param.size} bytes",
                next="declare it as `const __grid_constant__ CUtensorMap`",
            )
        copy = value.resident()
        struct.pack_into("<Q", block, param.offset, copy.address)
        return [copy, tensor]

    def _around(self, args: Sequence[Any]) -> list[Allocation]:
        """The memory around views; behind the arrays, so that messages name those first."""
        pairs = zip(args, self.names, strict=True)
        return [a for value, name in pairs if (a := arrays.around(value, name)) is not None]

    def _place(self, found: Mapping[int, arrays.ArrayMemory]) -> ArrayPlace | None:
        """The place of all arrays; the first one determines the stream."""
        first: arrays.ArrayMemory | None = None
        for i, a in found.items():
            first = first or a
            if a.device != first.device:
                raise self._fail(
                    i,
                    "is not where the other arrays are",
                    got=f"{_remedies().where(a)}, the first array {_remedies().where(first)}",
                    allowed="all arrays of a launch in one place",
                    next="move it: x.to(y.device), x.cuda(), cupy.asarray(x), or x.cpu()",
                )
        if first is None or first.device is None:
            return None
        return ArrayPlace(first.device, first.library, first.stream)

    def signature(self) -> str:
        """The parameters as a person would write them."""
        shown = [
            f"{t.spelling if t else '.' + p.type} {n}"
            for t, n, p in zip(self.types, self.names, self.params, strict=True)
        ]
        return f"{self.kernel}({', '.join(shown)})"

    def _fail(self, i: int, what: str, **more: str) -> ArgumentError:
        return ArgumentError(f"argument {i} of {self.kernel}, '{self.names[i]}': {what}", **more)

    # ---- arrays -----------------------------------------------------------------------------
    def _array(self, i: int, value: Any) -> arrays.ArrayMemory:
        want, param = self.types[i], self.params[i]
        if param.size != 8 or (want is not None and not want.pointer):
            raise self._fail(
                i,
                "is a scalar parameter, an array was given",
                got=type(value).__name__,
                allowed=want.spelling if want else f"a scalar of {param.size} bytes",
                next="pass the number itself, e.g. x.size or x.item()"
                + ("; a texture object is weft.texture(x)" if param.size == 8 else ""),
            )
        try:
            found = arrays.view(value)
        except arrays.Elsewhere as e:
            raise self._fail(
                i,
                "is neither in host memory nor on a CUDA GPU",
                got=str(e),
                allowed="NumPy arrays and CPU tensors (simulated GPU), CUDA arrays (that GPU)",
                next="move it to the CPU first: x.cpu()",
            ) from None
        except (BufferError, TypeError, RuntimeError, ValueError) as e:
            raise self._fail(
                i, "cannot be viewed as memory", got=str(e), next="pass x.detach() or a NumPy array"
            ) from None
        self._check_array(i, found, want)
        return found

    def _check_array(self, i: int, a: arrays.ArrayMemory, want: CType | None) -> None:
        if not a.contiguous:
            raise self._fail(
                i,
                "is not contiguous",
                got="an array with gaps or transposed axes",
                allowed="C-contiguous memory",
                next=self._replacement(i, a, "contiguous"),
            )
        if want is not None and want.dtypes and a.dtype not in want.dtypes and a.dtype != "struct":
            raise self._fail(
                i,
                f"dtype {a.dtype} does not fit {want.spelling}",
                got=a.dtype,
                allowed=" or ".join(want.dtypes),
                next=self._converted(i, a, want.dtypes[0]),
            )
        if want is not None and not want.const and not a.writable:
            raise self._fail(
                i,
                "is read-only, but the kernel may write to it",
                got="a read-only array",
                allowed=f"a writable array, or a parameter declared const ({want.spelling})",
            )
        # The largest power of two in the size of an element, at most 16 bytes as for float4.
        align = min(16, a.itemsize & -a.itemsize) if a.itemsize else 1
        # This dtype fits the parameter: later arrays of it take the fast path.
        if isinstance(a.owner, np.ndarray) and a.dtype in arrays.BUILTIN:
            self._seen[i][a.owner.dtype] = align
        if a.nbytes and a.address % align:
            raise self._fail(
                i,
                "is not aligned to its element size",
                got=f"address {a.address:#x}, elements of {a.itemsize} bytes",
                allowed=f"a multiple of {align}",
                next=self._replacement(i, a, "copy"),
            )

    def _converted(self, i: int, a: arrays.ArrayMemory, dtype: str) -> str:
        if dtype == "bfloat16" and a.library == "":  # NumPy knows no such dtype by itself
            name = self.names[i]
            return f"pass a tensor of torch.bfloat16, or {name}.astype(ml_dtypes.bfloat16)"
        return self._replacement(i, a, "dtype", dtype)

    def _replacement(self, i: int, a: arrays.ArrayMemory, what: str, dtype: str = "") -> str:
        """A suggestion of what to pass instead of an array; copies must be copied back."""
        want, name = self.types[i], self.names[i]
        made = _remedies().remedy(a, what, name, dtype)
        if want is not None and want.const:
            return f"pass {made}"
        back = _remedies().remedy(a, "back", name)
        return f"copy = {made}; pass copy, then take the results back: {back}"

    # ---- scalars ----------------------------------------------------------------------------
    def _scalar(self, i: int, value: Any, param: ParameterSummary, block: bytearray) -> None:
        want = self.types[i]
        if value is None and (want is None or want.pointer) and param.size == 8:
            return  # a null pointer
        if isinstance(value, np.void | bytes):
            self._struct(i, value, param, block)
            return
        if want is not None and want.pointer:
            raise self._fail(
                i,
                "is a pointer, no array was given",
                got=f"{type(value).__name__} {quoted(value)}",
                allowed=f"an array for {want.spelling}, or None",
                next=_remedies().as_array(value, want, self.names[i]),
            )
        if not isinstance(value, int | float | np.number | np.bool_):
            raise self._fail(
                i,
                "cannot be passed to a kernel",
                got=type(value).__name__,
                allowed="arrays, numbers, NumPy structured scalars, bytes",
            )
        unknown = want is None and (param.elements > 1 or param.size not in numbers.UNSIGNED)
        if unknown or (want and not (want.format or "bfloat16" in want.dtypes)):
            raise self._fail(
                i,
                f"is a struct of {param.size} bytes, a number was given",
                got=repr(value),
                next="pass a NumPy structured scalar, e.g. np.array((1, 2.0), dtype=...)[()]",
            )
        data = numbers.packed(value, want, param, functools.partial(self._fail, i))
        block[param.offset : param.offset + len(data)] = data

    def _struct(self, i: int, value: Any, param: ParameterSummary, block: bytearray) -> None:
        data = value if isinstance(value, bytes) else value.tobytes()
        if len(data) != param.size:
            raise self._fail(
                i,
                f"needs {param.size} bytes",
                got=f"{len(data)} bytes",
                next="make the dtype with align=True, as C++ lays out a struct",
            )
        block[param.offset : param.offset + param.size] = data
