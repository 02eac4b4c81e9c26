"""Translates messages of the grader by a table: `languages/de.toml`.

    [messages]
    "{fact} is {value}; this exercise asks for {rule}." = "{fact} ist {value}; ..."

A name in braces stands for any words of a line, and is kept. What no row of the table matches
stays in English.
"""

from __future__ import annotations

import functools
import re
import tomllib
from pathlib import Path

from weft.errors import ArgumentError

HOME = Path(__file__).parent / "languages"
_NAME = re.compile(r"\{(\w+)\}")


def languages() -> list[str]:
    """The codes of the languages that have a table."""
    return sorted(path.stem for path in HOME.glob("*.toml"))


def translated(words: str, language: str) -> str:
    """A message in a language, as far as its table has it."""
    for pattern, text in _rows(language):
        words = pattern.sub(functools.partial(_filled, text), words)
    return words


def read(path: Path) -> list[tuple[re.Pattern[str], str]]:
    """The rows of a table: a pattern of the English message, and the translation."""
    rows = []
    table = tomllib.loads(path.read_text("utf-8"))["messages"]
    # Long messages first: a short one may match a part of them.
    for english, other in sorted(table.items(), key=lambda row: -len(row[0])):
        if set(_NAME.findall(english)) != set(_NAME.findall(other)):
            raise ArgumentError(
                "a translation names other words than its message",
                where=path.name,
                got=other,
                allowed=", ".join(f"{{{name}}}" for name in _NAME.findall(english)) or "none",
            )
        rows.append((_pattern(english), other))
    return rows


@functools.cache
def _rows(language: str) -> list[tuple[re.Pattern[str], str]]:
    return read(HOME / f"{language}.toml") if language in languages() else []


def _pattern(english: str) -> re.Pattern[str]:
    """The message as a pattern; it begins at the start of a line or of a sentence."""
    parts = _NAME.split(english)
    literal = [re.escape(part) for part in parts[::2]]
    names = [rf"(?P<{name}>[^\n]+?)" for name in parts[1::2]]
    text = "".join(a + b for a, b in zip(literal, [*names, ""], strict=True))
    return re.compile(rf"(?m)(?:^|(?<=[.?;:,] )){text}" + ("$" if not parts[-1] else ""))


def _filled(text: str, match: re.Match[str]) -> str:
    return _NAME.sub(lambda name: match[name[1]], text)
