"""Files of an editor and the sources of kernels: a Python file may hold the text of a kernel."""

from __future__ import annotations

import ast
import functools
import os
from collections.abc import Iterable
from pathlib import Path

from weft.debug.dap.messages import Message
from weft.device.sim.tools.debugger.source_map import SourceMap
from weft.errors import Error


class Sources:
    """The sources of launched kernels, as an editor opens them."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        """Files of the editor that may hold texts of kernels."""
        self._texts: list[str] = []

    def text(self, reference: int) -> str:
        """The text of a source that is in no file."""
        if not 1 <= reference <= len(self._texts):
            raise Error("no such source", got=str(reference), allowed="a reference of a frame")
        return self._texts[reference - 1]

    def place(self, source: SourceMap, file: str, line: int) -> tuple[Message, int]:
        """The source of the protocol, and the line in it, of a kernel's line."""
        text = source.sources.get(file, "")
        for path in sorted(self.files):
            offset = offset_of(text, path)
            if offset is not None:
                return {"name": os.path.basename(path), "path": path}, line + offset
        if os.path.isfile(file):
            return {"name": os.path.basename(file), "path": os.path.abspath(file)}, line
        if text not in self._texts:
            self._texts.append(text)
        return {"name": file, "sourceReference": self._texts.index(text) + 1}, line

    def lines(self, source: SourceMap, given: Message, line: int) -> tuple[str, int] | None:
        """The kernel's file and line for a line of the editor; None where it has no code."""
        path, reference = given.get("path", ""), given.get("sourceReference", 0)
        for file, text in self._own(source):
            at = line
            if reference:
                if text != self.text(reference):
                    continue
            elif not _same(file, path):
                offset = offset_of(text, path)
                if offset is None:
                    continue
                at = line - offset
            if source.stops(at, file):
                return file, at
        return None

    def _own(self, source: SourceMap) -> Iterable[tuple[str, str]]:
        files = {at[0] for ins in source.code if (at := source.line_of(ins)) is not None}
        return [(file, source.sources.get(file, "")) for file in sorted(files)]


def _same(file: str, path: str) -> bool:
    return bool(path) and os.path.exists(file) and os.path.realpath(file) == os.path.realpath(path)


def offset_of(text: str, path: str) -> int | None:
    """Lines before the text of a kernel that is a string of a Python file; None for others."""
    return _strings(path).get(text) if path.endswith(".py") else None


@functools.cache
def _strings(path: str) -> dict[str, int]:
    """The strings of a Python file that have the file's lines, and the lines before each."""
    try:
        source = Path(path).read_text(encoding="utf-8")
        tree = ast.parse(source)
    except (OSError, SyntaxError, ValueError):
        return {}
    lines, found = source.splitlines(), dict[str, int]()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        joined = lines[node.lineno - 1].endswith("\\")  # the text begins on the next line
        height = (node.end_lineno or 0) - node.lineno - joined
        if height and height == node.value.count("\n"):
            found[node.value] = node.lineno - 1 + joined
    return found
