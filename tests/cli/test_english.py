"""The English of documents, help, docstrings, comments and messages, as far as a list can test it.

The lists have phrases of earlier versions that are hard to understand. Add a phrase when you find
one; do not remove any.
"""

from __future__ import annotations

import ast
import re
import sys
import tokenize
from pathlib import Path

import pytest
from typer.main import get_command

from folders import ROOT
from weft.cli import NAMES, app

sys.path.insert(0, str(ROOT / "scripts"))

import tables

PHRASES = (
    "how manieth",
    "were it nothing",
    "say it and end",
    "is anybody still",
    "who knows of whose",
    "let nobody",
    "lets nobody",
    "of the four numbers in every lane two",
    "is said, and is no error",
    "who stops has not asked",
    "a rung for an idea",
    "is told when it",
    "looks over a kernel's shoulder",
    "for better or worse",
    "believe in a gpu",
)
"""Nowhere: neither in documents nor in sources."""
PEOPLE = ("nobody", "anybody", "somebody", "whoever")
"""Nowhere either: threads, lanes, users and tools are what these stand for."""
WORDS = (
    "tells",
    "mends",
    "mended",
    "speaks",
    "for ever",
    "is said",
    "says so",
    "held against",
    "no matter what",
)
"""Nowhere either: `reports`, `fixes`, `names`, `compared with` are what these mean."""
QUESTION_WORDS = ("what", "where", "how", "of", "which", "does", "when", "whether", "why")
"""No docstring begins with one: it is a sentence in the imperative or a noun phrase."""
LADDERS = sorted((ROOT / "src" / "weft" / "ladders").glob("*/ladder.md"))
TEXTS = [pytest.param(p, id=str(p.relative_to(ROOT))) for p in [*tables.documents(), *LADDERS]]
SOURCES = sorted((ROOT / "src").rglob("*.py"))


def phrases_in(text: str, *lists: tuple[str, ...]) -> list[str]:
    """The phrases of the lists that a text has, ignoring case and line breaks."""
    flat = " ".join(text.lower().split())
    return [p for each in lists for p in each if re.search(rf"\b{re.escape(p)}\b", flat)]


@pytest.mark.parametrize("path", TEXTS)
def test_documents(path: Path) -> None:
    prose = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert phrases_in(prose, PHRASES, PEOPLE, WORDS) == []


def test_the_help_of_every_command() -> None:
    found = {name: phrases_in(text, PHRASES, PEOPLE, WORDS) for name, text in _help().items()}
    assert len(found) > 40
    assert {name: words for name, words in found.items() if words} == {}


def test_docstrings_comments_and_messages() -> None:
    found = {
        str(p.relative_to(ROOT)): phrases_in(_texts(p), PHRASES, PEOPLE, WORDS) for p in SOURCES
    }
    assert {name: words for name, words in found.items() if words} == {}


def test_docstrings_state_and_do_not_ask() -> None:
    folders = ("tests", "benchmarks", "scripts", "examples")
    others = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    assert len(SOURCES) > 300 and len(others) > 300
    found = [
        f"{p.relative_to(ROOT)}:{line}: {text}"
        for p in [*SOURCES, *others]
        for line, text in questions(p.read_text())
    ]
    assert found == []


def test_a_question_is_noticed() -> None:
    text = '''
"""What a module is."""
LIMIT = 3
"""Of each thread."""
def f(x):
    """Is it even?

    A paragraph.
    """
def g(x):
    """Return whether it is odd."""
'''
    assert questions(text) == [(2, "What a module is."), (4, "Of each thread."), (6, "Is it even?")]


def test_a_phrase_is_noticed() -> None:
    assert phrases_in("It prints a total, were it\n  nothing.", PHRASES) == ["were it nothing"]
    assert phrases_in("Nobody waits; anybody's guess", PEOPLE) == ["nobody", "anybody"]


def questions(text: str) -> list[tuple[int, str]]:
    """Line and first paragraph of docstrings that ask, or that begin with a question word."""
    found = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(value))):
                first = value.strip().split("\n\n")[0]
                word = re.match(r"\w*", first)[0].lower()
                if word in QUESTION_WORDS or first.endswith("?"):
                    found.append((node.lineno, first))
    return sorted(found)


def _help() -> dict[str, str]:
    """The help of all commands and options."""
    texts = {}
    group = get_command(app)
    for name in NAMES:
        command = group.get_command(None, name)
        texts[name] = command.help or ""
        for option in command.params:
            texts[f"{name} {option.name}"] = getattr(option, "help", None) or ""
    return texts


def _texts(path: Path) -> str:
    """Comments and strings of a module: docstrings, and what it prints."""
    kinds = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", None)}
    with path.open("rb") as file:
        return "\n".join(t.string for t in tokenize.tokenize(file.readline) if t.type in kinds)
