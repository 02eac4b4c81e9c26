"""Splits a source into the directives that include its headers, and the rest."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from weft.source.scan import without_comments

_LARGE = re.compile(r'^\s*#\s*include\s*[<"](thrust|cub|torch|ATen|c10|cutlass|cute)/', re.M)
_DIRECTIVE = re.compile(r"\s*#\s*(\w+)")


class Split(NamedTuple):
    """The directives before the code, without comments; the rest, and its first line.

    options  of the compiler, for headers that are searched in the folder of the source
    """

    headers: str
    rest: str
    line: int
    options: tuple[str, ...]


def split(source: str) -> Split | None:
    """Split a source after its last #include; None if it has no large headers, or has code before
    that line."""
    text = Path(source).read_text("utf-8", errors="replace")
    if not _LARGE.search(text):
        return None
    plain = without_comments(text).split("\n")
    end = depth = 0
    for number, line in enumerate(plain, 1):
        directive = _DIRECTIVE.match(line)
        word = directive[1] if directive else ""
        if line.strip() and (not word or line.endswith("\\")):
            break
        depth += word.startswith("if") - (word == "endif")
        # An #endif may end a condition on includes.
        if depth == 0 and word in ("include", "endif"):
            end = number
    if any(re.match(r"\s*#\s*include", line) for line in plain[end:]) or not end:
        return None
    headers = "".join(f"{line}\n" for line in plain[:end] if line.strip())
    is_quoted = re.search(r'^\s*#\s*include\s*"', headers, re.M)
    options = ("-iquote", os.path.dirname(source)) if is_quoted else ()
    return Split(headers, "\n".join(text.split("\n")[end:]), end + 1, options)
