"""Scans CUDA C++ text for facts that the compiler does not report: included files, names of kernel
parameters, and `extern "C"` kernels.

It ignores macros and conditionals. Its results are candidates that the caller verifies.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from weft.records import dataclass

_COMMENT_OR_STRING = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\[^\n]+?|[^'\\\n])'""", re.DOTALL
)
_HEADER = r"""(?:"(?P<near>[^"\n]+)"|<(?P<far>[^>\n]+)>)"""
_INCLUDES = (
    re.compile(rf"^[ \t]*#[ \t]*include\b[ \t]*(?:{_HEADER}|(?P<computed>\S))", re.MULTILINE),
    re.compile(rf"\b__has_include\s*\(\s*(?:{_HEADER}|(?P<computed>\S))"),
)
_CALL = re.compile(r"([A-Za-z_]\w*)\s*\(")
_NOT_A_KERNEL = {
    "__launch_bounds__", "__cluster_dims__", "__block_size__", "__maxnreg__", "__attribute__",
    "alignas", "decltype",
}  # fmt: skip
_TYPE_WORDS = {
    "void", "bool", "char", "short", "int", "long", "float", "double", "signed", "unsigned",
    "const", "volatile", "auto", "size_t", "half", "__half",
}  # fmt: skip
_TEMPLATE = re.compile(r"\btemplate\s*<([^;{}]*)>\s*(?:(?:static|inline|extern)\s+)*$")
_TEMPLATE_ROOM = 500
"""Characters before a `__global__` that are searched for its template parameters."""
_OPEN, _CLOSE = "([{<", ")]}>"


@dataclass(frozen=True)
class ScannedKernel:
    """A `__global__` function as written; an unnamed parameter has the name ''.

    template  the parameters of a template, e.g. `typename T` and `int N`
    """

    name: str
    parameters: tuple[str, ...]
    extern_c: bool
    template: tuple[str, ...] = ()


@dataclass(frozen=True)
class File:
    """A file of the user in a compile, under the name that the user passed."""

    name: str
    text: str


def without_comments(text: str) -> str:
    """Replace comments by spaces; line numbers are unchanged."""

    def blank(match: re.Match[str]) -> str:
        token = match.group()
        return re.sub(r"[^\n]", " ", token) if token.startswith("/") else token

    return _COMMENT_OR_STRING.sub(blank, text)


def files(main: File, folders: Sequence[str]) -> tuple[list[File], bool]:
    """(the main file and all files that it can include, whether the list is complete).

    It is incomplete if an include is computed by a macro or a file cannot be read. Includes under a
    false condition are listed as well: a cache key from these files may change needlessly, but it
    never stays equal when an input changes.
    """
    by_path = {os.path.abspath(main.name): main}
    waiting, complete = [main], True
    # Breadth of includes is unknown: files are visited once, by absolute path.
    while waiting:
        file = waiting.pop()
        for match in _includes(file.text):
            if match["computed"]:
                complete = False
                continue
            where = [os.path.dirname(file.name), *folders] if match["near"] else folders
            header = _first(where, match["near"] or match["far"])
            if header is None or os.path.abspath(header) in by_path:
                continue
            try:
                waiting.append(read(header))
            except OSError:  # the compiler reports it if it needs the file
                complete = False
                continue
            by_path[os.path.abspath(header)] = waiting[-1]
    return list(by_path.values()), complete


def read(path: str) -> File:
    """Read a source file; bytes that are not UTF-8 are preserved for the compiler."""
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return File(path, file.read())


def kernels(text: str) -> list[ScannedKernel]:
    """Every `__global__` function with a parameter list in the text."""
    text = without_comments(text)
    regions = list(_extern_c_regions(text))
    result = []
    for match in re.finditer(r"\b__global__\b", text):
        start = match.end()
        call = _kernel_call(text, start)
        if call is not None:
            end = _matching(text, call.end() - 1)
            names = tuple(map(_declared, _split(text[call.end() : end])))
            inside = any(first <= start <= last for first, last in regions)
            # A bounded search keeps the scan linear.
            before = text[max(0, match.start() - _TEMPLATE_ROOM) : match.start()]
            template = _TEMPLATE.search(before)
            parameters = _split(template[1]) if template else []
            result.append(
                ScannedKernel(call[1], names, inside, tuple(p.strip() for p in parameters))
            )
    return result


def _includes(text: str) -> Iterator[re.Match[str]]:
    text = without_comments(text)
    for pattern in _INCLUDES:
        yield from pattern.finditer(text)


def _first(folders: Sequence[str], name: str) -> str | None:
    paths = (os.path.join(folder, name) for folder in folders)
    return next((path for path in paths if os.path.isfile(path)), None)


def _extern_c_regions(text: str) -> Iterator[tuple[int, int]]:
    for match in re.finditer(r'\bextern\s+"C"\s*(\{)?', text):
        if match[1]:
            yield match.start(), _matching(text, match.end() - 1)
        else:
            body = re.compile(r"[;{]").search(text, match.end())
            yield match.start(), body.start() if body else len(text)


def _kernel_call(text: str, start: int) -> re.Match[str] | None:
    """The `name(` after a `__global__`, skipping attributes with arguments."""
    while call := _CALL.search(text, start):
        if re.search(r"[;{}]", text[start : call.start()]):
            return None
        if call[1] not in _NOT_A_KERNEL:
            return call
        start = _matching(text, call.end() - 1) + 1
    return None


def _matching(text: str, opening: int) -> int:
    """The position of the closing bracket, or the end of the text."""
    pair = {"(": "()", "{": "{}"}[text[opening]]
    depth = 0
    for at in range(opening, len(text)):
        if text[at] in pair:
            depth += 1 if text[at] == pair[0] else -1
            if depth == 0:
                return at
    return len(text)


def _split(parameters: str) -> list[str]:
    """Split a parameter list at its outermost commas."""
    parts, depth = [""], 0
    for letter in parameters:
        depth += (letter in _OPEN) - (letter in _CLOSE)
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [] if parts == ["void"] or not "".join(parts).strip() else parts


def _declared(parameter: str) -> str:
    """The name a parameter declares: `const float* x = 0` -> `x`."""
    parameter = parameter.split("=")[0]
    if pointer := re.search(r"\(\s*[*&]\s*(\w+)\s*\)", parameter):
        return pointer[1]
    name = re.search(r"[\w\s>*&](?<!\w)([A-Za-z_]\w*)\s*(?:\[[^\]]*\]\s*)*$", parameter.strip())
    return name[1] if name and name[1] not in _TYPE_WORDS else ""
