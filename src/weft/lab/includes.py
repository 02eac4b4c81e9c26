"""Refuses kernel sources that include files outside of the lab's folders of headers.

A shared link brings a source of another author. The compiler quotes the lines of a file that
it cannot compile, so an include would show any file that the user can read. The command line does
not restrict includes.

Directives are looked for in the bare text as well, comments and strings included: a raw string can
make a comment look open that is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from weft.errors import CompileError
from weft.source import scan

_SPLICE = re.compile(r"\\[ \t\r\f\v]*\n")
_SPELT = (("%:", "#"), ("??=", "#"), ("??/", "\\"))
"""Other spellings of characters that make a directive."""
_GAP = r"(?:[ \t\r\f\v]|/\*(?:[^*]|\*(?!/))*\*/)*"
_NAME = r"""(?:"(?P<near>[^"\n]*)"|<(?P<far>[^>\n]*)>|(?P<computed>[^\s"<]?))"""
_INCLUDE = re.compile(rf"#{_GAP}include{_GAP}{_NAME}")
_ASKS = re.compile(rf"\b__has_include{_GAP}\({_GAP}{_NAME}")
_OTHER = re.compile(rf"#{_GAP}(include_next|import|embed)\b|\b(__has_include_next|__has_embed)\b")
_NEXT = "include headers by name, from the CUDA toolkit or from the folder of the file"


def refuse(source: str, file: str, folders: Sequence[str]) -> None:
    """Raise CompileError for an include that may reach a file outside of these folders."""
    text = source
    for spelling, character in _SPELT:
        text = text.replace(spelling, character)
    text = _SPLICE.sub("", text)
    bare = scan.without_comments(text)
    # Only outside of comments, unless it cannot be told what a comment is.
    strict = (text, bare)['R"' not in text]
    for match in _OTHER.finditer(strict):
        raise _refusal(source, file, f"#{match[1] or match[2]}", "it searches for files")
    for name, _ in _names(text):
        if name and _is_outside(name, folders):
            raise _refusal(source, file, name, "it is outside of the folders of headers")
    for _, computed in _names(strict):
        if computed:
            raise _refusal(source, file, computed, "a macro makes its name")


def outside(text: str, folders: Iterable[str]) -> str:
    """The first file outside of these folders that a message of the compiler names; "" for none."""
    roots = [Path(folder) for folder in folders]
    for place in _PLACES.findall(text):
        if not any(_is_in(Path(place), root) for root in roots):
            return str(place)
    return ""


def hidden(place: str, file: str) -> CompileError:
    """The error in place of one that names, and may quote, a file outside of the folders."""
    return CompileError(
        "the lab does not show files outside of the folders of headers",
        where=file,
        got=place,
        next=_NEXT,
    )


_PLACES = re.compile(r"(?<![\w./])(/[^\s:()]+)(?:\(\d+\)|:\d+)")
"""Absolute paths with a line."""


def _names(text: str) -> Iterator[tuple[str, str]]:
    """(name, macro that makes it) of each include and of each question for a header."""
    for pattern in (_INCLUDE, _ASKS):
        for match in pattern.finditer(text):
            yield match["near"] or match["far"] or "", match["computed"] or ""


def _is_outside(name: str, folders: Sequence[str]) -> bool:
    if name.startswith(("/", "~")) or "\\" in name:
        return True
    found = [Path(folder, name) for folder in folders if Path(folder, name).exists()]
    if ".." in name.split("/") and not found:
        return True
    # A link in a folder may lead out of it, and `..` from one folder to another.
    roots = [Path(folder) for folder in folders]
    return any(not any(_is_in(path, root) for root in roots) for path in found)


def _is_in(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())


def _refusal(source: str, file: str, what: str, why: str) -> CompileError:
    lines = source.split("\n")
    number = next((i for i, line in enumerate(lines, 1) if what.lstrip("#") in line), 1)
    return CompileError(
        f"the lab does not include this: {why}",
        where=f"{file}:{number}",
        got=what,
        allowed="headers of the CUDA toolkit and of the folder of the file",
        next=f"{_NEXT}; `weft run` on the command line includes any file",
    )
