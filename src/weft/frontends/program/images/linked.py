"""Links relocatable device code: the PTX modules of a program's files into one module.

It works like a device linker, on text: declarations are resolved by name, the first of several weak
definitions is kept, equal file-local names are made unique, and source files are renumbered.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from weft.errors import PtxError

_HEAD = re.compile(r"\s*\.(version|target|address_size)\b[^\n]*")
_FILE_LINE = re.compile(r'\s*\.file\s+(\d+)\s+("[^"\n]*")[^\n]*')
_TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"[^"\n]*"|[{};]', re.DOTALL)
_NAME = re.compile(
    r"\.(?:entry|func)\s*(?:\([^)]*\)\s*)?([\w$]+)"
    r"|\.(?:global|const|shared)\b(?:\s*\.attribute\([^)]*\))?(?:\s*\.align\s+\d+)?\s*\.\w+\s+([\w$]+)"
)
_PLACES = re.compile(r"(\.loc\s+|\binlined_at\s+)(\d+)")
_LABEL = re.compile(r"\$L__info_string\d+")


@dataclass(frozen=True)
class _Statement:
    """One statement at the top level of a module."""

    text: str
    name: str
    defines: bool
    linkage: str


def link(texts: Sequence[str]) -> str:
    """Link PTX modules."""
    if len(texts) == 1:
        return texts[0]
    units = [list(_statements(text)) for text in texts]
    file_local = Counter(s.name for unit in units for s in unit if _is_own(s))
    defined: dict[str, str] = {}
    files: dict[str, int] = {}
    out = [match[0] for match in _HEAD.finditer(texts[0])]
    for number, (text, unit) in enumerate(zip(texts, units, strict=True)):
        apart = {s.name for s in unit if _is_own(s) and file_local[s.name] > 1}
        local = {match[1]: match[2] for match in _FILE_LINE.finditer(text)}
        for quoted in local.values():
            files.setdefault(quoted, len(files) + 1)
        for statement in unit:
            if _is_kept(statement, defined):
                out.append(_moved(statement.text, number, apart, local, files))
    declared = [s for unit in units for s in unit if not s.defines and s.name not in defined]
    # After the three header lines: declarations precede their uses.
    out[3:3] = list({s.name: s.text for s in declared}.values())
    out += [f"\t.file\t{n} {quoted}" for quoted, n in files.items()]
    return "\n".join(out) + "\n"


def _is_own(s: _Statement) -> bool:
    return s.defines and bool(s.name) and not s.linkage


def _is_kept(s: _Statement, defined: dict[str, str]) -> bool:
    """True for a definition to keep; records it."""
    if not s.name:
        return True
    if not s.defines:
        return False
    before = defined.get(s.name)
    if before is not None and s.linkage:
        if "weak" in (before, s.linkage) or "common" in (before, s.linkage):
            return False
        raise PtxError(
            f"two files of the program define '{s.name}'", next="make one of them static"
        )
    defined[s.name] = s.linkage
    return True


def _moved(
    text: str, number: int, apart: set[str], local: dict[str, str], files: dict[str, int]
) -> str:
    """A statement with names and file numbers that are unique in the linked module."""
    text = _LABEL.sub(lambda m: f"{m[0]}_{number}", text)
    text = _PLACES.sub(lambda m: f"{m[1]}{files[local[m[2]]] if m[2] in local else m[2]}", text)
    if apart:
        names = "|".join(map(re.escape, sorted(apart, key=len, reverse=True)))
        text = re.sub(rf"(?<![\w$%])({names})(?![\w$])", rf"\1__{number}", text)
    return text


def _statements(text: str) -> Iterator[_Statement]:
    """The statements of a module, without its head and its list of source files."""
    text = _FILE_LINE.sub("", _HEAD.sub("", text))
    start = depth = 0
    for token in _TOKEN.finditer(text):
        depth += {"{": 1, "}": -1}.get(token[0], 0)
        body = token[0] == "}" and "=" not in text[start : text.find("{", start)]
        if depth == 0 and (token[0] == ";" or body):
            yield _statement(text[start : token.end()])
            start = token.end()


def _statement(text: str) -> _Statement:
    code = re.sub(r"//[^\n]*", "", text)
    head = code.partition("{")[0]
    named = _NAME.search(head)
    linkage = re.search(r"\.(visible|weak|extern|common)\b", head)
    is_function = ".func" in head or ".entry" in head
    word = linkage[1] if linkage else ""
    defines = word != "extern" and (not is_function or "{" in code)
    if word == "extern" and ".shared" in head:  # dynamic shared memory has no definition
        return _Statement(text, (named[2] or "") if named else "", True, "weak")
    return _Statement(text, (named[1] or named[2]) if named else "", defines, word)
