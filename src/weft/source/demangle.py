"""Demangles C++ names: the kernel's name and the types of its parameters.

The grammar is the Itanium C++ ABI's (https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling),
as far as kernels need it. Other names (lambdas, expressions) raise `Unreadable`.
Types are spelled the way `c++filt` does: `float const*`.

The C++ runtime's `__cxa_demangle` reads more, but has no limit: a name of 184 characters, each type
a template of the one before, becomes 3.4 million, and 100 characters more a thousand times that.
Names come from PTX of any origin, so they are read here, up to MAX_SPELLING.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from weft.records import dataclass

BUILTIN = {
    "v": "void", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char",
    "s": "short", "t": "unsigned short", "i": "int", "j": "unsigned int", "l": "long",
    "m": "unsigned long", "x": "long long", "y": "unsigned long long", "n": "__int128",
    "o": "unsigned __int128", "f": "float", "d": "double", "e": "long double",
    "g": "__float128", "w": "wchar_t", "z": "...", "Dh": "half", "DF16_": "_Float16",
    "DF16b": "std::bfloat16_t", "Dn": "decltype(nullptr)", "Di": "char32_t",
    "Ds": "char16_t", "Du": "char8_t",
}  # fmt: skip
STANDARD = {
    "Sa": "std::allocator", "Sb": "std::basic_string", "Ss": "std::string",
    "Si": "std::istream", "So": "std::ostream", "Sd": "std::iostream",
}  # fmt: skip
POINTERS = {"P": "*", "R": "&", "O": "&&"}
QUALIFIERS = {"K": " const", "V": " volatile", "r": " __restrict"}
LITERALS = {
    "int": "{}", "unsigned int": "{}u", "long": "{}l", "unsigned long": "{}ul",
    "long long": "{}ll", "unsigned long long": "{}ull",
}  # fmt: skip
MAX_DEPTH = 100
MAX_SPELLING = 10_000  # nested substitutions can expand to gigabytes


class Unreadable(Exception):
    """A name that this grammar does not cover."""


class DemangledFunction(NamedTuple):
    """A demangled function: `saxpy<float>` and ('float', 'float const*', ...)."""

    name: str
    parameters: tuple[str, ...]


def function(mangled: str) -> DemangledFunction:
    """The name and the parameter types of a mangled function name."""
    reader = _MangledReader(mangled)
    reader.expect("_Z")
    name, arguments = reader.nested(whole=False) if reader.peek("N") else reader.unscoped()
    if arguments is not None:
        reader.template_arguments = arguments
        reader.type()  # the mangled name of a template includes its return type
    return DemangledFunction(name, reader.parameters())


def probed_parameters(mangled: str) -> tuple[str, ...]:
    """The parameter types of `void F(...)`, from the mangled name of a variable `probe<F*>`."""
    reader = _MangledReader(mangled)
    reader.expect("_Z")
    reader.remember(_Type(reader.source_name()))
    reader.expect("IP")
    reader.take("Do")  # noexcept is part of the type
    reader.expect("F")
    reader.take("Y")
    reader.expect("v")
    return reader.parameters()


@dataclass(frozen=True)
class _Type:
    """A type as the text left and right of a declared name.

    `bare` functions and arrays get parentheses before they get a `*`; `pack` holds the types of a
    template parameter pack.
    """

    left: str
    right: str = ""
    bare: bool = False
    pack: tuple[_Type, ...] | None = None

    def __str__(self) -> str:
        if self.pack is not None:
            return ", ".join(map(str, self.pack))
        return f"{self.left} {self.right}" if self.bare else self.left + self.right

    def wrap(self, suffix: str) -> _Type:
        """Add a `*`, a `&` or a qualifier next to the declared name."""
        if self.pack is not None:
            return replace(self, pack=tuple(item.wrap(suffix) for item in self.pack))
        if self.bare and suffix in POINTERS.values():
            gap = "" if self.right.startswith("(") else " "
            return _Type(f"{self.left} ({suffix}", f"){gap}{self.right}")
        if suffix.startswith("&") and self.left.endswith("&"):  # references collapse
            both = suffix == "&&" and self.left.endswith("&&")
            return replace(self, left=self.left.rstrip("&") + ("&&" if both else "&"))
        if suffix in QUALIFIERS.values() and self.left.endswith(suffix):  # const const is const
            return self
        return replace(self, left=self.left + suffix)


class _MangledReader:
    """A cursor over one mangled name, and the substitutions seen so far."""

    def __init__(self, text: str) -> None:
        if not text.isascii():
            raise Unreadable(text)
        self.text, self.at, self.depth = text, 0, 0
        self.seen: list[_Type] = []
        self.template_arguments: list[_Type] = []

    def peek(self, text: str) -> bool:
        return self.text.startswith(text, self.at)

    def take(self, text: str) -> bool:
        matches = self.peek(text)
        self.at += len(text) * matches
        return matches

    def expect(self, text: str) -> None:
        if not self.take(text):
            raise Unreadable(self.text)

    def take_while(self, allowed: Callable[[str], bool]) -> str:
        start = self.at
        while self.at < len(self.text) and allowed(self.text[self.at]):
            self.at += 1
        return self.text[start : self.at]

    def remember(self, type: _Type) -> _Type:
        if (
            len(type.left) + len(type.right) + sum(len(t.left) for t in type.pack or ())
            > MAX_SPELLING
        ):
            raise Unreadable(self.text)
        self.seen.append(type)
        return type

    def recall(self, of: list[_Type]) -> _Type:
        """`_` is the first item of a list, `0_` the second, in base 36."""
        # Longer numbers cannot be valid indices, and int() of huge texts is slow.
        digits = self.take_while(str.isalnum)[:6]
        self.expect("_")
        index = int(digits, 36) + 1 if digits else 0
        if index >= len(of):
            raise Unreadable(self.text)
        return of[index]

    # names

    def source_name(self) -> str:
        self.take("L")  # internal linkage: a static kernel
        length = int(self.take_while(str.isdecimal)[:6] or 0)
        name = self.text[self.at : self.at + length]
        self.at += length
        if not length or len(name) < length:
            raise Unreadable(self.text)
        if self.take("B"):  # an ABI tag is not part of the C++ spelling
            self.source_name()
        return "(anonymous namespace)" if name.startswith("_GLOBAL__N_") else name

    def unscoped(self) -> tuple[str, list[_Type] | None]:
        name = ("std::" if self.take("St") else "") + self.source_name()
        if not self.peek("I"):
            return name, None
        self.remember(_Type(name))
        return self.instance(name)

    def nested(self, *, whole: bool) -> tuple[str, list[_Type] | None]:
        """`N prefix... E`; `whole` also remembers the last part, as types require."""
        self.expect("N")
        self.take_while(QUALIFIERS.__contains__)
        name, arguments = "", None
        while not self.take("E"):
            new = True
            if self.peek("I"):
                name, arguments = self.instance(name)
            elif self.peek("T"):
                name, arguments = str(self.template_parameter()), None
                new = False
            elif self.take("St"):
                name, new = "std", False
            elif self.peek("S"):
                name, arguments, new = str(self.substitution()), None, False
            else:
                name, arguments = (f"{name}::" if name else "") + self.source_name(), None
            if new and (whole or not self.peek("E")):
                self.remember(_Type(name))
        return name, arguments

    def instance(self, name: str) -> tuple[str, list[_Type]]:
        """`name<arguments>` and the arguments."""
        self.expect("I")
        arguments = self.until_end(self.argument)
        spelled = ", ".join(text for text in map(str, arguments) if text)
        return f"{name}<{spelled}>", arguments

    def argument(self) -> _Type:
        if self.take("J"):
            return _Type("", pack=tuple(self.until_end(self.element)))
        return self.element()

    def element(self) -> _Type:
        return self.literal() if self.take("L") else self.type()

    def literal(self) -> _Type:
        kind = str(self.type())
        value = self.take_while(lambda c: c != "E").replace("n", "-")
        self.expect("E")
        if kind == "bool":
            return _Type("true" if value == "1" else "false")
        return _Type(LITERALS.get(kind, f"({kind}){{}}").format(value))

    def until_end(self, read: Callable[[], _Type]) -> list[_Type]:
        items = []
        while not self.take("E"):
            items.append(read())
        return items

    # types

    def parameters(self) -> tuple[str, ...]:
        """Types up to the end of the text or of the function type, packs spread out."""
        types: list[_Type] = []
        while self.at < len(self.text) and not self.peek("E"):
            type = self.type()
            types += (type,) if type.pack is None else type.pack
        return () if types == [_Type("void")] else tuple(map(str, types))

    def type(self) -> _Type:
        self.depth += 1
        if self.depth > MAX_DEPTH or self.at >= len(self.text):
            raise Unreadable(self.text)
        try:
            return self.compound()
        finally:
            self.depth -= 1

    def compound(self) -> _Type:
        letter = self.text[self.at]
        if letter in QUALIFIERS:
            qualifiers = self.take_while(QUALIFIERS.__contains__)
            qualified = self.type()
            for qualifier in reversed(qualifiers):
                qualified = qualified.wrap(QUALIFIERS[qualifier])
            return self.remember(qualified)
        if letter in POINTERS:
            self.at += 1
            return self.remember(self.type().wrap(POINTERS[letter]))
        readers = {"F": self.function_type, "A": self.array, "T": self.template_parameter,
                   "S": self.abbreviated, "N": self.nested_type}  # fmt: skip
        if letter in readers:
            return readers[letter]()
        if letter.isdecimal():
            return self.instances(self.remember(_Type(self.source_name())))
        return self.vector_or_pack() if letter == "D" else self.builtin(1)

    def builtin(self, width: int) -> _Type:
        code = self.text[self.at : self.at + width]
        if code not in BUILTIN:
            raise Unreadable(self.text)
        self.at += width
        return _Type(BUILTIN[code])

    def vector_or_pack(self) -> _Type:
        if self.take("Dp"):
            return self.remember(self.type())
        if self.take("Dv"):
            count = self.take_while(str.isdecimal)
            self.expect("_")
            return self.remember(self.type().wrap(f" __vector({count})"))
        return self.builtin(5 if self.peek("DF") else 2)

    def function_type(self) -> _Type:
        self.expect("F")
        self.take("Y")
        result, parameters = self.type(), ", ".join(self.parameters())
        self.expect("E")
        return self.remember(_Type(str(result), f"({parameters})", bare=True))

    def array(self) -> _Type:
        self.expect("A")
        extent = self.take_while(str.isdecimal)
        if self.take("T"):  # a value: unlike types, it is not a substitution candidate
            extent = str(self.recall(self.template_arguments))
        self.expect("_")
        item = self.type()
        inner = item.right if item.bare else ""
        return self.remember(_Type(item.left, f"[{extent}]{inner}", bare=True))

    def template_parameter(self) -> _Type:
        self.expect("T")
        return self.instances(self.remember(self.recall(self.template_arguments)))

    def abbreviated(self) -> _Type:
        if self.take("St"):
            return self.instances(self.remember(_Type(f"std::{self.source_name()}")))
        return self.instances(self.substitution())

    def substitution(self) -> _Type:
        code = self.text[self.at : self.at + 2]
        if code in STANDARD:
            self.at += 2
            return _Type(STANDARD[code])
        self.expect("S")
        return self.recall(self.seen)

    def nested_type(self) -> _Type:
        name, _ = self.nested(whole=True)
        return _Type(name)

    def instances(self, template: _Type) -> _Type:
        """The type itself, or the instance of it when template arguments follow."""
        if not self.peek("I"):
            return template
        name, _ = self.instance(str(template))
        return self.remember(_Type(name))
