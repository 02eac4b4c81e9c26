"""Debug information: `.file`, `.loc` and the names in `.debug_str`, as source lines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from weft.ptx.lexer import NAME
from weft.values import SourceLine

_PLACE = r"[0-9]{1,9}\s+[0-9]{1,9}\s+[0-9]{1,9}"
_NAMED = rf"function_name\s+{NAME}(?:\s*\+\s*[0-9]{{1,9}})?"
LOC = rf"\.loc\s+{_PLACE}(?:\s*,\s*{_NAMED}\s*,\s*inlined_at\s+{_PLACE})?(?![\w.])"
"""A whole `.loc`, which no `;` ends."""

_LOC = re.compile(
    rf"\.loc\s+({_PLACE})(?:\s*,\s*function_name\s+({NAME})(?:\s*\+\s*([0-9]+))?"
    rf"\s*,\s*inlined_at\s+({_PLACE}))?",
    re.A,
)
_FILE = re.compile(r'^[ \t]*\.file[ \t]+([0-9]{1,9})[ \t]+"([^"\n]*)"', re.M | re.A)
_STRINGS = re.compile(r"\.section\s+\.debug_str\s*\{([^{}]*)\}", re.A)
_STRING_ITEM = re.compile(rf"({NAME})\s*:|\.b8((?:[\s,]*[0-9]{{1,3}}(?![0-9]))+)", re.A)

_Place = tuple[int, int, int]


class SourceLines:
    """The source lines of one module.

    Compilers write `.file` and the strings at the end, so they are looked for beforehand.
    """

    def __init__(self, text: str, sources: Mapping[str, str] = MappingProxyType({})) -> None:
        """`sources` maps the user's files, as `.file` spells them, to their text."""
        self.files = {int(number): name for number, name in _FILE.findall(text)}
        self._texts = {name: text.splitlines() for name, text in sources.items()}
        self._bytes = bytearray()
        self._labels: dict[str, int] = {}
        self._spelled: dict[str, tuple[_Place, _Place | None, str]] = {}
        self._latest: dict[_Place, SourceLine] = {}
        self._made: dict[tuple[str, _Place, int], SourceLine] = {}
        for section in _STRINGS.findall(text):
            self._read_strings(section)

    def _read_strings(self, section: str) -> None:
        for label, values in _STRING_ITEM.findall(section):
            if label:
                self._labels[label] = len(self._bytes)
            else:
                self._bytes += bytes(int(v) & 255 for v in values.replace(",", " ").split())

    def start_function(self) -> None:
        """Discard the inlined calls: chains do not reach across functions."""
        self._latest.clear()

    def at(self, loc: str) -> SourceLine | None:
        """The source line of one `.loc`; None for line 0, code that no line stands for.

        The place of an `inlined_at` is itself the last `.loc` with these numbers, which gives
        the rest of the chain.
        """
        # The same `.loc` stands at many places of a body: its text is read once.
        if loc not in self._spelled:
            self._spelled[loc] = self._read(loc)
        place, call, function = self._spelled[loc]
        if place[1] == 0:
            return None
        outer = None
        if call is not None:
            outer = self._latest.get(call) or self._line(call, None, "")
        line = self._latest[place] = self._line(place, outer, function)
        return line

    def _line(self, place: _Place, outer: SourceLine | None, function: str) -> SourceLine:
        key = (function, place, id(outer))  # the line that is kept keeps `outer` alive
        if key not in self._made:
            file, line, column = place
            name = self.files.get(file, f"file {file}")
            text = self._texts.get(name, ())
            quote = text[line - 1].strip() if 0 < line <= len(text) else ""
            self._made[key] = SourceLine(name, line, column, outer, function, quote)
        return self._made[key]

    def _read(self, loc: str) -> tuple[_Place, _Place | None, str]:
        found = _LOC.match(loc)
        assert found is not None, "LOC matches only what _LOC reads"
        place, label, offset, call = found.groups()
        name = self._string(label, int(offset or 0)) if label else ""
        return _place(place), _place(call) if call else None, name

    def _string(self, label: str, offset: int) -> str:
        if label not in self._labels:
            return ""
        start = self._labels[label] + offset
        end = self._bytes.find(0, start)
        return self._bytes[start : end if end >= 0 else None].decode("utf-8", "replace")


def _place(text: str) -> _Place:
    file, line, column = map(int, text.split())
    return file, line, column
