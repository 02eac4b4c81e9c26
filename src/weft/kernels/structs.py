"""Structs that a kernel takes, declared once: in Python.

A subclass of `Struct` is a dataclass whose annotations are C types. It renders its C declaration
and packs itself as C lays it out, so the two cannot differ:

>>> from dataclasses import dataclass
>>> from typing import Annotated
>>> import numpy as np
>>> import weft
>>> from weft.kernels.structs import Float, Int, LongLong, Struct, array
>>> @dataclass(frozen=True)
... class Affine(Struct):
...     n: Int
...     scale: Annotated[Float, "of every element"]
...     strides: Annotated[tuple[int, ...], array(LongLong, 2)]
>>> print(Affine.declaration())
struct Affine {
    int n;
    float scale;  // of every element
    long long strides[2];
};
>>> module = weft.cuda('''
... STRUCT_AFFINE
... __global__ void k(float* y, const float* x, const Affine p) {
...     int i = threadIdx.x;
...     if (i < p.n) y[i * p.strides[0]] = x[i * p.strides[1]] * p.scale;
... }''', defines=Affine.define())
>>> y = np.zeros(4, np.float32)
>>> module.k[1, 32](y, np.arange(8, dtype=np.float32), Affine(4, 10.0, (1, 2)).pack())
>>> print(y)
[ 0. 20. 40. 60.]
"""

from __future__ import annotations

import dataclasses
import struct
import sys
from collections.abc import Callable, Iterator
from typing import Annotated, Any, TypeAlias, get_args, get_origin, get_type_hints

from weft.errors import ArgumentError


def _bfloat16(value: float) -> int:
    """The bits of the nearest bfloat16, ties to even; a NaN stays one."""
    if value != value:
        return 0x7FFF
    bits = int(struct.unpack("<I", struct.pack("<f", value))[0])
    return bits + 0x7FFF + (bits >> 16 & 1) >> 16


def _address(value: Any) -> int:
    """The address of a tensor, of None (0), or the number itself."""
    if value is None:
        return 0
    return int(value.data_ptr()) if hasattr(value, "data_ptr") else int(value)


@dataclasses.dataclass(frozen=True)
class CType:
    """A type of C: its name, its letter in the formats of `struct`, its size in bytes.

    encode  makes a value of Python one that the letter takes; None where it is one already
    """

    name: str
    letter: str
    size: int
    encode: Callable[[Any], Any] | None = None


@dataclasses.dataclass(frozen=True)
class _Array:
    """A number of elements of a C type, of a struct, or of another array."""

    element: Type
    count: int


Type: TypeAlias = "CType | type[Struct] | _Array"

Bool = Annotated[bool, CType("bool", "?", 1)]
Byte = Annotated[int, CType("signed char", "b", 1)]
UnsignedByte = Annotated[int, CType("unsigned char", "B", 1)]
Short = Annotated[int, CType("short", "h", 2)]
UnsignedShort = Annotated[int, CType("unsigned short", "H", 2)]
Int = Annotated[int, CType("int", "i", 4)]
Unsigned = Annotated[int, CType("unsigned", "I", 4)]
LongLong = Annotated[int, CType("long long", "q", 8)]
UnsignedLongLong = Annotated[int, CType("unsigned long long", "Q", 8)]
Half = Annotated[float, CType("__half", "e", 2)]
BFloat16 = Annotated[float, CType("__nv_bfloat16", "H", 2, _bfloat16)]
Float = Annotated[float, CType("float", "f", 4)]
Double = Annotated[float, CType("double", "d", 8)]


def pointer(ctype: str) -> CType:
    """A pointer, e.g. pointer("const float"). Its value is an address, a tensor, or None."""
    return CType(f"{ctype}*", "Q", 8, _address)


def array(element: Any, count: int) -> _Array:
    """An array of C: `Annotated[tuple[int, ...], array(LongLong, 3)]` is `long long x[3]`.

    element  a C type, a subclass of Struct, or an array
    """
    if count < 1:
        raise ArgumentError("an array of C has elements", got=str(count), allowed="1 or more")
    return _Array(_ctype("an element of an array", element), count)


@dataclasses.dataclass(frozen=True)
class _Member:
    name: str
    type: Type
    comment: str


@dataclasses.dataclass(frozen=True)
class _Layout:
    """The members, the format that packs their scalars with the padding of C, size, alignment."""

    members: tuple[_Member, ...]
    packer: struct.Struct
    alignment: int

    @property
    def size(self) -> int:
        return self.packer.size


class Struct:
    """A struct of C. Its fields are dataclass fields, annotated with types of this module; a string
    in an annotation is a comment of the declaration."""

    @classmethod
    def declaration(cls) -> str:
        """Return the C declaration, without those of nested structs."""
        lines = [
            f"    {_declared(m.type, m.name)};" + (f"  // {m.comment}" if m.comment else "")
            for m in _layout(cls).members
        ]
        return "\n".join([f"struct {cls.__name__} {{", *lines, "};"])

    @classmethod
    def define(cls) -> dict[str, str]:
        """Return a macro, STRUCT_<NAME>, for `defines` of `weft.cuda`: the declaration, after those
        of nested structs. A source writes the macro where the struct is to be declared."""
        return defines(cls)

    @classmethod
    def sizeof(cls) -> int:
        """Return sizeof(struct) in bytes."""
        return _layout(cls).size

    def pack(self) -> bytes:
        """Return the bytes of the struct, as a kernel's argument."""
        layout = _layout(type(self))
        try:
            return layout.packer.pack(*_scalars(self, layout))
        except (struct.error, OverflowError) as error:
            raise ArgumentError(
                f"a value does not fit its field of {type(self).__name__}: {error}", got=repr(self)
            ) from None


def defines(*structs: type[Struct]) -> dict[str, str]:
    """Return the macros of several structs, for a source that writes them in this order.

    A struct that several contain is declared by the macro of the first.
    """
    made: dict[str, str] = {}
    declared: set[type[Struct]] = set()
    for cls in structs:
        new = [s for s in dict.fromkeys(_nested(cls)) if s not in declared]
        declared.update(new)
        made[f"STRUCT_{cls.__name__.upper()}"] = " ".join(map(_in_one_line, new))
    return made


def _in_one_line(cls: type[Struct]) -> str:
    members = " ".join(f"{_declared(m.type, m.name)};" for m in _layout(cls).members)
    return f"struct {cls.__name__} {{ {members} }};"


_known: dict[type[Struct], _Layout] = {}


def _layout(cls: type[Struct]) -> _Layout:
    if cls not in _known:
        _known[cls] = _laid_out(cls)
    return _known[cls]


def _laid_out(cls: type[Struct]) -> _Layout:
    """Place the members as C does: each at a multiple of its alignment."""
    members = tuple(_members(cls))
    text, at, most = "<", 0, 1
    for member in members:
        alignment = _alignment(member.type)
        gap = -at % alignment
        text += "x" * gap + _format(member.type)
        at += gap + _size(member.type)
        most = max(most, alignment)
    return _Layout(members, struct.Struct(text + "x" * (-at % most)), most)


def _members(cls: type[Struct]) -> Iterator[_Member]:
    if "__dataclass_fields__" not in vars(cls):
        raise ArgumentError(
            f"{cls.__name__} is not a dataclass", next="add @dataclass(frozen=True)"
        )
    # Code that is no module, as in a notebook or a document, may have names that none knows.
    names = globals() | vars(sys.modules.get(cls.__module__, struct))
    hints = get_type_hints(cls, names, include_extras=True)
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        hint = hints[field.name]
        extras = hint.__metadata__ if get_origin(hint) is Annotated else ()
        comment = " ".join(extra for extra in extras if isinstance(extra, str))
        yield _Member(field.name, _ctype(f"{cls.__name__}.{field.name}", hint), comment)


def _ctype(what: str, hint: Any) -> Type:
    """The type of C that an annotation names."""
    plain = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    extras = hint.__metadata__ if get_origin(hint) is Annotated else ()
    for found in (*extras, plain):
        if isinstance(found, CType | _Array) or (
            isinstance(found, type) and issubclass(found, Struct)
        ):
            return found
    raise ArgumentError(
        f"{what} has no type of C",
        got=repr(hint),
        allowed="a type of weft.kernels.structs: Int, LongLong, Float, array(Int, 3), ...",
    )


def _size(ctype: Type) -> int:
    if isinstance(ctype, _Array):
        return ctype.count * _size(ctype.element)
    return ctype.size if isinstance(ctype, CType) else _layout(ctype).size


def _alignment(ctype: Type) -> int:
    if isinstance(ctype, _Array):
        return _alignment(ctype.element)
    return ctype.size if isinstance(ctype, CType) else _layout(ctype).alignment


def _format(ctype: Type) -> str:
    if isinstance(ctype, _Array):
        return ctype.count * _format(ctype.element)
    if isinstance(ctype, CType):
        return ctype.letter
    return str(_layout(ctype).packer.format)[1:]


def _declared(ctype: Type, name: str) -> str:
    """The declarator of a member: `long long x[3]`."""
    dimensions = ""
    while isinstance(ctype, _Array):
        dimensions += f"[{ctype.count}]"
        ctype = ctype.element
    word = ctype.name if isinstance(ctype, CType) else ctype.__name__
    return f"{word} {name}{dimensions}"


def _nested(cls: type[Struct]) -> Iterator[type[Struct]]:
    """The structs that it contains, each after those that it contains itself, and it."""
    for member in _layout(cls).members:
        ctype = member.type
        while isinstance(ctype, _Array):
            ctype = ctype.element
        if not isinstance(ctype, CType):
            yield from _nested(ctype)
    yield cls


def _scalars(value: Struct, layout: _Layout) -> Iterator[Any]:
    for member in layout.members:
        yield from _flat(
            f"{type(value).__name__}.{member.name}", member.type, getattr(value, member.name)
        )


def _flat(what: str, ctype: Type, value: Any) -> Iterator[Any]:
    if isinstance(ctype, CType):
        yield ctype.encode(value) if ctype.encode else value
    elif isinstance(ctype, _Array):
        if len(value) != ctype.count:
            raise ArgumentError(
                f"{what} has another number of elements",
                got=str(len(value)),
                allowed=str(ctype.count),
            )
        for one in value:
            yield from _flat(what, ctype.element, one)
    else:
        if not isinstance(value, ctype):
            raise ArgumentError(
                f"{what} is another struct", got=repr(value), allowed=ctype.__name__
            )
        yield from _scalars(value, _layout(ctype))
