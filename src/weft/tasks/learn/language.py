"""Chooses languages: of puzzles, and of texts and messages."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from weft.errors import ArgumentError
from weft.learn import messages
from weft.learn.chapter import HOME, Chapter
from weft.learn.puzzle import LANGUAGES

VARIABLE = "WEFT_LANGUAGE"
ENGLISH = "en"
_CODE = re.compile(r"[a-z]{2,3}")


def chosen(words: Sequence[str]) -> tuple[str, str]:
    """(language of puzzles, language of texts) of the words of `--language`.

    The language of texts may come from the environment; "" stands for the default.
    """
    code, texts = "", ""
    for word in words:
        if word in LANGUAGES:
            code = word
        else:
            texts = _checked(word, "--language")
    if not texts and (named := os.environ.get(VARIABLE, "")):
        texts = _checked(named, VARIABLE)
    return code, "" if texts == ENGLISH else texts


def note(chapters: Sequence[Chapter], language: str) -> str:
    """A remark on chapters that have no text in the language; "" if all have one."""
    missing = [f"{c.number:02}" for c in chapters if c.language != language]
    if not language or not missing:
        return ""
    there = sorted(path.parent.name[2:4] for path in HOME.glob(f"*/chapter.{language}.md"))
    have = f"; chapters in '{language}': {', '.join(there)}" if there else ""
    which = f"chapter {missing[0]}" if len(missing) == 1 else f"{len(missing)} chapters"
    return f"note: no text of {which} in '{language}', so it is in English{have}"


def _checked(word: str, where: str) -> str:
    if not _CODE.fullmatch(word):
        codes = ", ".join([ENGLISH, *messages.languages()])
        raise ArgumentError(
            "not a language",
            where=where,
            got=word,
            allowed=f"of puzzles: {', '.join(LANGUAGES)}; of texts: {codes}, or another code",
        )
    return word
