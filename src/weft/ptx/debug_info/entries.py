"""Entries of DWARF 2 to 4, the format of debug information: tags, attributes, children."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from weft.ptx.debug_info.sections import Section

ADDRESS_BYTES = 8


class Tag:
    """Kinds of entries."""

    ARRAY, ENUMERATION, PARAMETER, BLOCK, MEMBER, POINTER = 0x01, 0x04, 0x05, 0x0B, 0x0D, 0x0F
    REFERENCE, STRUCTURE, TYPEDEF, UNION, INLINED = 0x10, 0x13, 0x16, 0x17, 0x1D
    RANGE, CLASS, BASE, CONST, FUNCTION, VARIABLE = 0x21, 0x02, 0x24, 0x26, 0x2E, 0x34
    VOLATILE, INHERITANCE, RVALUE, RESTRICT = 0x35, 0x1C, 0x42, 0x37


class At:
    """Attributes."""

    LOCATION, NAME, SIZE, LOW, HIGH, CONSTANT = 0x02, 0x03, 0x0B, 0x11, 0x12, 0x1C
    UPPER, ORIGIN, COUNT, OFFSET, LINE, ENCODING = 0x2F, 0x31, 0x37, 0x38, 0x3B, 0x3E
    SPECIFICATION, TYPE, LINKAGE, RANGES, LINKAGE_NAME = 0x47, 0x49, 0x2007, 0x55, 0x6E


@dataclass(frozen=True)
class Address:
    """A word that names a symbol of the code, or a number."""

    symbol: str
    number: int


@dataclass(frozen=True)
class LocationList:
    """An offset in `.debug_loc`."""

    offset: int


@dataclass
class Entry:
    """An entry; `expression`s are slices (start, end) of the section."""

    offset: int
    tag: int
    attributes: dict[int, Any] = field(default_factory=dict)
    children: list[Entry] = field(default_factory=list)

    def walk(self) -> Iterator[Entry]:
        """Itself and all entries inside."""
        yield self
        for child in self.children:
            yield from child.walk()


class Reader:
    """Reads numbers of a section from a position on."""

    def __init__(self, section: Section, at: int = 0) -> None:
        self.section, self.at = section, at

    def number(self, size: int) -> int:
        self.at += size
        return int.from_bytes(self.section.data[self.at - size : self.at], "little")

    def address(self, size: int = ADDRESS_BYTES) -> Address:
        symbol = self.section.symbols.get(self.at, "")
        return Address(symbol, self.number(size))

    def leb(self, *, signed: bool = False) -> int:
        value = shift = 0
        while True:
            byte = self.number(1)
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        return value - (1 << shift) if signed and byte & 64 else value

    def string(self) -> str:
        end = self.section.data.index(0, self.at)
        text = self.section.data[self.at : end].decode("utf-8", "replace")
        self.at = end + 1
        return text

    def block(self, size: int) -> tuple[int, int]:
        self.at += size
        return self.at - size, self.at


def entries(found: dict[str, Section]) -> Iterator[Entry]:
    """The compilation units of `.debug_info`."""
    info, abbreviations = found.get("debug_info"), found.get("debug_abbrev")
    if info is None or abbreviations is None:
        return
    reader = Reader(info)
    while reader.at + 11 <= len(info.data):
        start = reader.at
        end = start + 4 + reader.number(4)
        version = reader.number(2)
        shapes = _abbreviations(Reader(abbreviations, reader.address(4).number))
        reader.at += 1  # bytes of an address
        if not 2 <= version <= 4:
            return
        yield from _tree(reader, shapes, start, min(end, len(info.data)), found)
        reader.at = end


_Shape = tuple[int, bool, list[tuple[int, int]]]


def _abbreviations(reader: Reader) -> dict[int, _Shape]:
    shapes: dict[int, _Shape] = {}
    while reader.at < len(reader.section.data) and (code := reader.leb()):
        tag, children, attributes = reader.leb(), bool(reader.number(1)), []
        while (pair := (reader.leb(), reader.leb())) != (0, 0):
            attributes.append(pair)
        shapes[code] = tag, children, attributes
    return shapes


def _tree(
    reader: Reader, shapes: dict[int, _Shape], unit: int, end: int, found: dict[str, Section]
) -> Iterator[Entry]:
    open_entries: list[Entry] = []
    while reader.at < end:
        offset, code = reader.at, reader.leb()
        if code == 0:
            if not open_entries:
                return
            done = open_entries.pop()
            if not open_entries:
                yield done
            continue
        tag, children, attributes = shapes[code]
        entry = Entry(offset, tag)
        for name, form in attributes:
            entry.attributes[name] = _value(reader, form, unit, found)
        if open_entries:
            open_entries[-1].children.append(entry)
        if children:
            open_entries.append(entry)
        elif not open_entries:
            yield entry
    if open_entries:
        yield open_entries[0]


def _value(reader: Reader, form: int, unit: int, found: dict[str, Section]) -> Any:
    match form:
        case 0x01:
            return reader.address()
        case 0x03 | 0x04 | 0x0A | 0x09 | 0x18:  # blocks and expressions
            size = {0x03: 2, 0x04: 4, 0x0A: 1}.get(form)
            return reader.block(reader.leb() if size is None else reader.number(size))
        case 0x05 | 0x07 | 0x0B | 0x0C:
            return reader.number({0x05: 2, 0x07: 8}.get(form, 1))
        case 0x06 | 0x17:
            word, lists = reader.address(4), found.get("debug_loc")
            if lists is not None and word.symbol in lists.labels:  # as LLVM names a list
                return LocationList(lists.labels[word.symbol] + word.number)
            return LocationList(word.number) if word.symbol == ".debug_loc" else word.number
        case 0x08:
            return reader.string()
        case 0x0D:
            return reader.leb(signed=True)
        case 0x0E:
            strings, word = found.get("debug_str"), reader.address(4)
            if strings is None:
                return ""
            start = strings.labels.get(word.symbol, 0) + word.number
            return Reader(strings, start).string()
        case 0x0F:
            return reader.leb()
        case 0x10:
            return reader.address(4).number
        case 0x11 | 0x12 | 0x13 | 0x14:
            return unit + reader.number({0x11: 1, 0x12: 2, 0x13: 4, 0x14: 8}[form])
        case 0x19:
            return True
    raise ValueError(f"DWARF form {form:#x}")
