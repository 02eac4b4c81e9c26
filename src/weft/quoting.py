"""Words of error messages: values in short form, and suggestions for misspelt names."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Sized


def quoted(value: object) -> str:
    """A value as an error quotes it: long ones are shortened, with their length."""
    text = _SHORT.repr(value)
    long = isinstance(value, list | tuple | dict | set) and len(value) > _SHORT.maxlist
    return f"{len(value):,} items: {text}" if long and isinstance(value, Sized) else text


def _shortened() -> reprlib.Repr:
    short = reprlib.Repr()
    short.maxlist = short.maxtuple = short.maxdict = short.maxset = 8
    short.maxstring = short.maxother = 80
    return short


_SHORT = _shortened()


def similar(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """The known word that is most like a misspelt one, or ""."""
    import difflib  # here: only errors need it

    return next(iter(difflib.get_close_matches(word, list(known), 1, cutoff)), "")
