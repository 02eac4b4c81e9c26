"""Compile-time knowledge about a value while its code is being written."""

from __future__ import annotations

import re

from weft.ir import Val

_LITERAL = re.compile(r"(?:splat \(i\d+ )?(-?\d+)\)?")
_WORDS = {"zeroinitializer": 0, "true": -1, "false": 0}


def const_int(v: Val) -> int | None:
    """The (signed) integer that `v` is in every lane, or None when that is not known."""
    if v.ref in _WORDS and not v.is_float:
        return _WORDS[v.ref]
    literal = _LITERAL.fullmatch(v.ref)
    return int(literal[1]) if literal else None
