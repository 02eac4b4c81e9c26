"""C++ types as debug information describes them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """The kinds of types whose values a debugger shows."""

    INTEGER = "integer"
    BOOLEAN = "boolean"
    FLOAT = "float"
    POINTER = "pointer"
    STRUCT = "struct"
    ARRAY = "array"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Field:
    """A member of a structure, and its distance from the structure's start."""

    name: str
    type: Type
    offset: int


@dataclass(eq=False)
class Type:
    """A type without its typedefs, `const` and `volatile`. A structure may point to itself.

    of      what a pointer points to, or the element of an array
    count   elements of an array; 0 where they are not known
    """

    kind: Kind
    name: str
    size: int
    signed: bool = False
    of: Type | None = None
    count: int = 0
    fields: tuple[Field, ...] = ()
    reference: bool = False

    def field(self, name: str) -> Field | None:
        """The member of this name."""
        return next((f for f in self.fields if f.name == name), None)


UNKNOWN = Type(Kind.UNKNOWN, "an unknown type", 4)
INT = Type(Kind.INTEGER, "int", 4, signed=True)
LONG = Type(Kind.INTEGER, "long", 8, signed=True)
DOUBLE = Type(Kind.FLOAT, "double", 8)

BASIC = {
    "float": Type(Kind.FLOAT, "float", 4),
    "double": DOUBLE,
    "__half": Type(Kind.FLOAT, "__half", 2),
    "half": Type(Kind.FLOAT, "half", 2),
    "char": Type(Kind.INTEGER, "char", 1, signed=True),
    "unsigned char": Type(Kind.INTEGER, "unsigned char", 1),
    "short": Type(Kind.INTEGER, "short", 2, signed=True),
    "unsigned short": Type(Kind.INTEGER, "unsigned short", 2),
    "int": INT,
    "unsigned": Type(Kind.INTEGER, "unsigned", 4),
    "unsigned int": Type(Kind.INTEGER, "unsigned int", 4),
    "long": LONG,
    "long long": Type(Kind.INTEGER, "long long", 8, signed=True),
    "unsigned long long": Type(Kind.INTEGER, "unsigned long long", 8),
    "bool": Type(Kind.BOOLEAN, "bool", 1),
}
"""Types by their spelling in a source: of shared variables, which compilers do not describe."""


def array_of(element: Type, sizes: list[int]) -> Type:
    """The array with these sizes, the outermost first."""
    for count in reversed(sizes):
        name = f"{element.name}[{count or ''}]"
        element = Type(Kind.ARRAY, name, element.size * count, of=element, count=count)
    return element


def pointer_to(of: Type) -> Type:
    """A pointer of 64 bits."""
    return Type(Kind.POINTER, f"{of.name}*", 8, of=of)
