"""Reads the functions, variables and types of a PTX text from its DWARF sections.

NVRTC writes them with the option `-G`. A register is encoded in a location as a number whose bytes
are the characters of its name, e.g. 0x256631 for `%f1`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from weft.ptx.debug_info.entries import Address, At, Entry, LocationList, Reader, Tag, entries
from weft.ptx.debug_info.sections import Section, lines_of_labels, sections
from weft.ptx.debug_info.types import UNKNOWN, Field, Kind, Type, array_of
from weft.ptx.debug_info.variables import Location, Scope, Variable

_SAME = (Tag.TYPEDEF, Tag.CONST, Tag.VOLATILE, Tag.RESTRICT)
_STRUCTURES = (Tag.STRUCTURE, Tag.CLASS, Tag.UNION)
_ENCODINGS = {2: (Kind.BOOLEAN, False), 4: (Kind.FLOAT, False), 5: (Kind.INTEGER, True)}
_ENCODINGS |= {6: (Kind.INTEGER, True), 7: (Kind.INTEGER, False), 8: (Kind.INTEGER, False)}
_ADDR, _REGX, _PLUS = 0x03, 0x90, 0x23
_NO_END = 1 << 60


@dataclass
class DebugInfo:
    """The functions of a PTX text by their linkage name, the variables of its file scope, and its
    structures by name.
    """

    functions: dict[str, Scope] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    types: dict[str, Type] = field(default_factory=dict)

    def function_at(self, line: int) -> Scope | None:
        """The function that the instruction of a PTX line belongs to."""
        return next((f for f in self.functions.values() if f.holds(line)), None)


def read(text: str) -> DebugInfo:
    """Read the debug information of a PTX text; it is empty where there is none."""
    found = sections(text)
    if "debug_info" not in found:
        return DebugInfo()
    return _Units(found, lines_of_labels(text)).info


class _Units:
    def __init__(self, found: dict[str, Section], lines: dict[str, int]) -> None:
        self.found, self.lines = found, lines
        self.info, self.types = DebugInfo(), dict[int, Type]()
        units = list(entries(found))
        self.by_offset = {e.offset: e for unit in units for e in unit.walk()}
        for unit in units:
            for entry in unit.children:
                self._top(entry)

    def _top(self, entry: Entry) -> None:
        if entry.tag == Tag.VARIABLE:
            self.info.variables.append(self._variable(entry))
        elif entry.tag == Tag.FUNCTION and At.LOW in entry.attributes:
            scope = self._scope(entry)
            self.info.functions[scope.linkage or scope.name] = scope
        elif entry.tag in _STRUCTURES:
            made = self._type(entry.offset)
            self.info.types[made.name] = made
        elif entry.tag != Tag.FUNCTION:  # a namespace
            for child in entry.children:
                self._top(child)

    # ---- scopes and variables ---------------------------------------------------------------
    def _get(self, entry: Entry, attribute: int) -> Any:
        """An attribute of an entry, or of the declaration that it completes."""
        while attribute not in entry.attributes:
            origin = entry.attributes.get(At.ORIGIN) or entry.attributes.get(At.SPECIFICATION)
            if origin is None or origin not in self.by_offset:
                return None
            entry = self.by_offset[origin]
        return entry.attributes[attribute]

    def _line(self, value: Any, default: int) -> int:
        return self.lines.get(value.symbol, default) if isinstance(value, Address) else default

    def _scope(self, entry: Entry) -> Scope:
        first = self._line(entry.attributes.get(At.LOW), 0)
        end = self._line(entry.attributes.get(At.HIGH), _NO_END)
        linkage = self._get(entry, At.LINKAGE) or self._get(entry, At.LINKAGE_NAME) or ""
        scope = Scope(first, end, self._get(entry, At.NAME) or "", linkage)
        for child in entry.children:
            if child.tag in (Tag.VARIABLE, Tag.PARAMETER):
                scope.variables.append(self._variable(child))
            elif child.tag in (Tag.BLOCK, Tag.INLINED):
                scope.inner.append(self._scope(child))
        return scope

    def _variable(self, entry: Entry) -> Variable:
        constant = entry.attributes.get(At.CONSTANT)
        return Variable(
            self._get(entry, At.NAME) or "",
            self._type(self._get(entry, At.TYPE)),
            tuple(self._locations(entry.attributes.get(At.LOCATION))),
            constant if isinstance(constant, int) else None,
            self._get(entry, At.LINE) or 0,
            entry.tag == Tag.PARAMETER,
        )

    def _locations(self, value: Any) -> list[Location]:
        if isinstance(value, tuple):
            place = self._expression(Reader(self.found["debug_info"], value[0]), value[1])
            return [] if place is None else [Location(0, _NO_END, *place)]
        lists = self.found.get("debug_loc")
        if not isinstance(value, LocationList) or lists is None:
            return []
        out, reader = [], Reader(lists, value.offset)
        while reader.at + 16 <= len(lists.data):
            begin, end = reader.address(), reader.address()
            if not begin.symbol and not end.symbol:
                break
            size = reader.number(2)
            place = self._expression(reader, reader.at + size)
            if place is not None:
                first = self._line(begin, 0)
                out.append(Location(first, self._line(end, _NO_END), *place))
        return out

    def _expression(self, reader: Reader, end: int) -> tuple[str, str, int] | None:
        """Register, symbol and offset of a location; None for other expressions."""
        register = symbol = ""
        offset = 0
        while reader.at < end:
            operation = reader.number(1)
            if operation == _REGX:
                number = reader.leb()
                name = number.to_bytes((number.bit_length() + 7) // 8, "big")
                register = name.decode("ascii", "replace")
            elif operation == _ADDR:
                symbol = reader.address().symbol
            elif operation == _PLUS:
                offset += reader.leb()
            else:
                reader.at = end
                return None
        return (register, symbol, offset) if register or symbol else None

    # ---- types ------------------------------------------------------------------------------
    def _type(self, offset: Any) -> Type:
        if offset is None or offset not in self.by_offset:
            return UNKNOWN
        if offset not in self.types:
            entry = self.by_offset[offset]
            if entry.tag in _STRUCTURES:
                self._structure(entry)
            else:
                self.types[offset] = UNKNOWN  # an incomplete chain ends
                self.types[offset] = self._make(entry)
        return self.types[offset]

    def _make(self, entry: Entry) -> Type:
        name, size = entry.attributes.get(At.NAME, ""), entry.attributes.get(At.SIZE, 0)
        inner = entry.attributes.get(At.TYPE)
        if entry.tag in _SAME:
            return self._type(inner)
        if entry.tag == Tag.BASE:
            kind, signed = _ENCODINGS.get(
                entry.attributes.get(At.ENCODING, 0), (Kind.UNKNOWN, False)
            )
            return Type(kind, name, size, signed)
        if entry.tag == Tag.ENUMERATION:
            return Type(Kind.INTEGER, name, size or 4, signed=True)
        if entry.tag in (Tag.POINTER, Tag.REFERENCE, Tag.RVALUE):
            of, reference = self._type(inner), entry.tag != Tag.POINTER
            mark = "&" if reference else "*"
            return Type(Kind.POINTER, f"{of.name}{mark}", 8, of=of, reference=reference)
        if entry.tag == Tag.ARRAY:
            return array_of(self._type(inner), [_count(c) for c in entry.children])
        return UNKNOWN

    def _structure(self, entry: Entry) -> None:
        name, size = entry.attributes.get(At.NAME, ""), entry.attributes.get(At.SIZE, 0)
        made = self.types[entry.offset] = Type(Kind.STRUCT, name, size)
        members = [c for c in entry.children if c.tag in (Tag.MEMBER, Tag.INHERITANCE)]
        fields = [self._field(c) for c in members]  # they may point to the structure
        made.fields = tuple(f for f in fields if f is not None)

    def _field(self, entry: Entry) -> Field | None:
        place, offset = entry.attributes.get(At.OFFSET, 0), 0
        if isinstance(place, tuple):
            reader = Reader(self.found["debug_info"], place[0])
            if reader.number(1) != _PLUS:
                return None
            offset = reader.leb()
        elif isinstance(place, int):
            offset = place
        kind = self._type(entry.attributes.get(At.TYPE))
        return Field(entry.attributes.get(At.NAME, kind.name), kind, offset)


def _count(entry: Entry) -> int:
    """The elements of one dimension of an array."""
    if At.COUNT in entry.attributes:
        return int(entry.attributes[At.COUNT])
    upper = entry.attributes.get(At.UPPER)
    return int(upper) + 1 if isinstance(upper, int) else 0
