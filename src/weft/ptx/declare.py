"""Declarations: registers, variables of every state space, parameters."""

from __future__ import annotations

import functools
import math
import re

from weft.errors import PtxError
from weft.ptx.lexer import NAME, brief
from weft.ptx.literals import literal
from weft.ptx.model import SIZES, Imm, Param, PtxVariable
from weft.ptx.scope import MAX_REGISTERS
from weft.records import dataclass

SPACES = ("global", "const", "shared", "local", "param")
POINTED_SPACES = ("global", "const", "shared", "local", "generic")
OPAQUE = {"texref": 8, "samplerref": 8, "surfref": 8}
"""Handles that the simulator does not open; they are declared so that modules still load."""

MAX_SIZE = 1 << 32
MAX_ALIGN = 1 << 16
MAX_DIMENSIONS = 16
MAX_HEAD = 1000  # characters of qualifiers: what is remembered stays small
LANES = {"v2": 2, "v4": 4, "v8": 8}

_QUALIFIER = re.compile(
    r"\s*\.([A-Za-z]\w*)(?:::\w+)?\s*(\((?:[^()]|\([^()]*\))*\)|[0-9]{1,10}(?!\w)|\[[0-9]{1,2}\])?",
    re.A,
)
_QUALIFIERS = re.compile(rf"(?:{_QUALIFIER.pattern})*", re.A)
_DECLARATOR = re.compile(rf"\s*({NAME})((?:\s*\[[^\]=]*\])*)\s*", re.A)
_REGISTER = re.compile(rf"({NAME})(?:\s*<\s*([0-9]{{1,20}})\s*>)?", re.A)
_PARAMETER = re.compile(r"\.(param|reg)(?!\w)", re.A)
_BLANKS = re.compile(r"\s*")
_BRACE = re.compile(r"[{}]")
_TYPES = " ".join(f".{name}" for name in SIZES)


@dataclass
class Qualifiers:
    """The qualifiers before the name: `.align 8 .v4 .f32`, `.b64 .ptr .global .align 16`."""

    type: str = ""
    align: int = 0
    lanes: int = 0
    managed: bool = False
    is_pointer: bool = False
    pointer_space: str = ""
    pointer_align: int = 0
    end: int = 0

    @property
    def size(self) -> int:
        return (SIZES.get(self.type) or OPAQUE[self.type]) * max(1, self.lanes)


def qualifiers(text: str) -> Qualifiers:
    """Read the qualifiers that `text` starts with; `end` is where they stop."""
    head = _QUALIFIERS.match(text)
    found = _read_qualifiers(head.group() if head and head.end() < MAX_HEAD else "")
    if not found.type:
        raise PtxError("a declaration has no type", got=brief(text) or "nothing", allowed=_TYPES)
    return found


@functools.lru_cache(maxsize=64)  # modules declare hundreds of variables with the same few heads
def _read_qualifiers(text: str) -> Qualifiers:
    found = Qualifiers()
    while mark := _QUALIFIER.match(text, found.end):
        _apply(found, mark.group(1), mark.group(2) or "")
        found.end = mark.end()
    return found


def _apply(found: Qualifiers, word: str, argument: str) -> None:
    if word == "align":
        align = int(argument) if argument.isdigit() else 0
        if not 0 < align <= MAX_ALIGN or align & (align - 1):
            raise PtxError(
                "not an alignment",
                got=f".align {brief(argument)}",
                allowed=f"a power of two up to {MAX_ALIGN}",
            )
        # After `.ptr` an alignment is that of the memory pointed at, not of the parameter.
        if found.is_pointer:
            found.pointer_align = align
        else:
            found.align = align
    elif word in SIZES or word in OPAQUE:
        found.type = word
    elif word in LANES:
        found.lanes = LANES[word]
    elif word == "attribute":
        found.managed = found.managed or "managed" in argument
    elif word == "ptr":
        found.is_pointer = True
    elif found.is_pointer and word in POINTED_SPACES:
        found.pointer_space = word
    else:
        raise PtxError("not a type", got=f".{brief(word)}", allowed=_TYPES)


def variables(space: str, text: str, linkage: str = "") -> list[PtxVariable]:
    """The variables of one declaration; `text` is what follows the space, without the `;`."""
    head = qualifiers(text)
    pos, found = head.end, []
    while True:
        mark = _declarator(text, pos)
        name, shape = mark.group(1), _shape(mark.group(2))
        pos = mark.end()
        value = ""
        if text[pos : pos + 1] == "=":
            pos, value = _initialiser(text, pos + 1)
        found.append(_variable(space, linkage, head, name, shape, value))
        if pos == len(text):
            return found
        if text[pos] != ",":
            raise PtxError(
                "a declaration is not well formed", got=brief(text[pos:]), allowed=", or ;"
            )
        pos += 1


def _declarator(text: str, pos: int) -> re.Match[str]:
    mark = _DECLARATOR.match(text, pos)
    if mark is None:
        raise PtxError("a declaration has no name", got=brief(text[pos:]) or "nothing")
    return mark


def _shape(text: str) -> tuple[int | None, ...]:
    """The extents of `[2][3]`; None for an empty outermost `[]`."""
    pieces = text.replace("[", " ").split("]")[:-1]
    if len(pieces) > MAX_DIMENSIONS:
        raise PtxError("an array has too many dimensions", allowed=f"at most {MAX_DIMENSIONS}")
    return tuple(
        None if at == 0 and not piece.strip() else _extent(piece.strip())
        for at, piece in enumerate(pieces)
    )


def _extent(text: str) -> int:
    extent = literal(text)
    if not isinstance(extent, Imm) or not 0 <= extent.value <= MAX_SIZE:
        raise PtxError("not an array size", got=brief(text), allowed=f"0 to {MAX_SIZE}")
    return extent.value


def _initialiser(text: str, pos: int) -> tuple[int, str]:
    """The end of the initialiser at `pos`, and its text."""
    start = _after_blanks(text, pos)
    if text[start : start + 1] != "{":
        end = text.find(",", start)
        end = len(text) if end < 0 else end
        return end, text[start:end]
    depth = 0
    for mark in _BRACE.finditer(text, start):
        depth += 1 if mark.group() == "{" else -1
        if depth == 0:
            return _after_blanks(text, mark.end()), text[start : mark.end()]
    raise PtxError("an initialiser is not closed", got=brief(text[start:]), allowed="{ ... }")


def _after_blanks(text: str, pos: int) -> int:
    found = _BLANKS.match(text, pos)
    return found.end() if found else pos


def _variable(
    space: str, linkage: str, head: Qualifiers, name: str, shape: tuple[int | None, ...], value: str
) -> PtxVariable:
    init: bytes = b""
    relocations: tuple[tuple[int, str, int, bool], ...] = ()
    if value and head.type in SIZES:
        from weft.ptx.initial import initial  # most modules initialise no variable

        elements = (*shape, head.lanes) if head.lanes else shape
        init, relocations = initial(value, head.type, elements)
    unsized = bool(shape) and shape[0] is None
    # The values decide the outermost extent of `x[] = {...}`, rounded up to whole rows.
    if unsized and init:
        inner = head.size * math.prod(extent or 0 for extent in shape[1:])
        shape = (-(-len(init) // max(1, inner)), *shape[1:])
        unsized = False
    return PtxVariable(
        name, space, head.type, head.align or head.size, _bytes(head, shape), unsized, init,
        relocations, linkage, head.managed,
    )  # fmt: skip


def _bytes(head: Qualifiers, shape: tuple[int | None, ...]) -> int:
    size = head.size * math.prod(extent or 0 for extent in shape)
    if size > MAX_SIZE:
        raise PtxError(
            "a variable is too large", got=f"{size} bytes", allowed=f"at most {MAX_SIZE} bytes"
        )
    return size


def parameters(text: str) -> tuple[list[Param], int]:
    """The parameters between two parentheses, laid out in order, and their total bytes."""
    found: list[Param] = []
    offset = 0
    for piece in text.split(",") if text.strip() else []:
        param = _parameter(piece.strip(), offset)
        offset = param.offset + param.size
        found.append(param)
    return found, offset


def _parameter(text: str, offset: int) -> Param:
    space = _PARAMETER.match(text)
    if space is None:
        raise PtxError(
            "not a parameter",
            got=brief(text) or "nothing",
            allowed=".param .type name, or .reg .type name",
        )
    head = qualifiers(text[space.end() :])
    tail = text[space.end() + head.end :]
    mark = _declarator(tail, 0)
    if mark.end() != len(tail):
        raise PtxError("a parameter is not well formed", got=brief(text), allowed="one name")
    shape = _shape(mark.group(2))
    # The parameter block is laid out as C lays out a struct.
    align = head.align or head.size
    return Param(
        mark.group(1), head.type, align, _bytes(head, shape), -(-offset // align) * align,
        math.prod(extent or 0 for extent in shape) * max(1, head.lanes), space.group(1) == "reg",
        head.pointer_space or ("generic" if head.is_pointer else ""), head.pointer_align,
    )  # fmt: skip


def registers(text: str) -> list[tuple[str, str, int, int | None]]:
    """Name, type, vector lanes and count (`%r<8>`) of each register of one `.reg`."""
    head = qualifiers(text)
    found: list[tuple[str, str, int, int | None]] = []
    for piece in text[head.end :].split(","):
        mark = _REGISTER.fullmatch(piece.strip())
        if mark is None:
            raise PtxError(
                "not a register", got=brief(piece) or "nothing", allowed="a name or %name<count>"
            )
        count = int(mark.group(2)) if mark.group(2) else None
        if count is not None and count > MAX_REGISTERS:
            raise PtxError(
                "too many registers",
                got=brief(piece),
                allowed=f"at most {MAX_REGISTERS} in a function",
            )
        found.append((mark.group(1), head.type, head.lanes, count))
    return found
