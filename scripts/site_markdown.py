"""Adapts the Markdown of a document to the site: links, code blocks and lists.

Documents are written for GitHub. The site is made by Python-Markdown, which needs a name after a
fence, nested lists that are indented by four columns, and no comment right above a table.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_FENCE = re.compile(r"^(?P<fence>```+)(?P<info>[^\n`]*)\n(?P<code>.*?)^(?P=fence)$", re.S | re.M)
_LINK = re.compile(
    r"(?P<code>(?P<tick>`+)[^`].*?(?P=tick))|\]\((?P<target>[^)\s]+)\)|\](?=\[)", re.S
)
_MARK = re.compile(r"^<!--.*?-->\n", re.M)
"""The marks of generated tables."""
_NESTED = re.compile(r"^ {2,3}(?=(?:[-*]|\d+\.) )", re.M)
_LANGUAGES = {"c++": "cpp", "py": "python"}


def adapted(text: str, link: Callable[[str], str]) -> str:
    """The text for the site; `link` gives the new target of a link to another file."""
    parts, at = [], 0
    for block in _FENCE.finditer(text):
        parts += [_prose(text[at : block.start()], link), _code(block["info"], block["code"])]
        at = block.end()
    return "".join([*parts, _prose(text[at:], link)])


def code(text: str, language: str, title: str = "") -> str:
    """A block of code, with the name of its file above it."""
    mark = "```"
    while mark in text:
        mark += "`"
    named = f' title="{title}"' if title else ""
    return f"{mark}{language}{named}\n{text.rstrip()}\n{mark}"


def plain(text: str) -> str:
    """A text in which no character has a meaning in Markdown."""
    return re.sub(r"[^\w\s.,:;()'/=+?-]", lambda found: f"&#{ord(found[0])};", text)


def folded(kind: str, title: str, text: str) -> str:
    """A part of a page that a click opens."""
    return f'??? {kind} "{title}"\n\n{indented(text)}'


def indented(text: str) -> str:
    """Text inside of a block of Python-Markdown."""
    return "\n".join(f"    {line}" if line.strip() else "" for line in text.splitlines())


def _code(info: str, text: str) -> str:
    """A block whose info is a language, with `file=NAME` as its title."""
    language, _, rest = info.strip().partition(" ")
    return code(text, _LANGUAGES.get(language, language), rest.partition("file=")[2])


def _prose(text: str, link: Callable[[str], str]) -> str:
    def replaced(found: re.Match[str]) -> str:
        target = found["target"]
        if found[0] == "]":  # of two indices, not of a reference
            return "&#93;"
        if target is None or re.match(r"\w+:|#", target):
            return found[0]
        return f"]({link(target)})"

    return _NESTED.sub("    ", _MARK.sub("", _LINK.sub(replaced, text)))
