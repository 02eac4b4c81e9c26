"""Splits a chapter's text into prose and code, as the documents' examples mark them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<code>.*?)^```$\n?", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class TextBlock:
    """A piece of a text.

    kind   "prose"; "python", "shell" or "file" for code that can be run; "output" for what the
           block before prints; "other" for code that is only shown
    name   of the file that a block "file" is written to
    """

    kind: str
    text: str
    info: str = ""
    name: str = ""


def blocks(text: str) -> Iterator[TextBlock]:
    """The pieces of a text, in order."""
    at, before = 0, ""
    for fence in _FENCE.finditer(text):
        prose = text[at : fence.start()].strip("\n")
        if prose.strip():
            yield TextBlock("prose", prose)
            before = "prose"
        info = fence["info"].strip()
        kind, name = _kind(info, before)
        yield TextBlock(kind, fence["code"].rstrip("\n"), info, name)
        at, before = fence.end(), kind
    rest = text[at:].strip("\n")
    if rest.strip():
        yield TextBlock("prose", rest)


def _kind(info: str, before: str) -> tuple[str, str]:
    if info == "python":
        return "python", ""
    if info == "sh run":
        return "shell", ""
    if "file=" in info:
        return "file", info.partition("file=")[2]
    if info == "text" and before in ("python", "shell"):
        return "output", ""
    return "other", ""
