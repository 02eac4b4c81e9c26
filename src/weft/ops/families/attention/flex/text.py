"""Read the expressions of a caller: check names, and whether scores are only added to."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from weft.errors import ArgumentError

INDICES = ("b", "h", "q", "k")
"""Names of a score's batch, head of queries, query and key."""
FUNCTIONS = (
    "abs", "cos", "exp", "exp2", "float", "floor", "int", "log", "log2", "max", "min", "pow",
    "rsqrt", "sin", "sqrt", "tanh",
)  # fmt: skip
"""Functions and types that an expression may name; those of CUDA."""
_CONSTANTS = ("true", "false", "INFINITY")
_TOKEN = re.compile(
    r"(?P<real>\d+\.\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+)(?P<suffix>[fF]?)"
    r"|(?P<whole>0[xX][0-9a-fA-F]+|\d+)"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign>&&|\|\||<<|>>|<=|>=|==|!=|[-+*/%()\[\]<>!&|^~?:,])"
    r"|(?P<space>\s+)"
)
_OPEN, _CLOSE = "([", ")]"
_WEAKER = ("<<", ">>", "<", ">", "<=", ">=", "==", "!=", "&", "^", "|", "&&", "||", "?", ":", ",")
"""Signs that bind less than a sum."""


class Token(NamedTuple):
    """A word of an expression: its kind, a group of _TOKEN, and its text in C++."""

    kind: str
    text: str


def tokens(which: str, text: str) -> list[Token]:
    """The words of an expression; numbers with a point become floats, since C++ has doubles."""
    made, at = [], 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ArgumentError(
                f"weft.ops.flex_attention: {which} cannot be read",
                got=f"{text[at]!r} in {text!r}",
                allowed="one C++ expression: names, numbers, operators, parentheses, indices",
            )
        kind = str(found.lastgroup if found.lastgroup != "suffix" else "real")
        word = found.group()
        if kind == "real":
            word = found.group("real") + "f"
        if kind != "space":
            made.append(Token(kind, word))
        at = found.end()
    return made


def translate(which: str, text: str, names: Sequence[str], default: str) -> str:
    """The expression in C++; raise ArgumentError for an unknown name."""
    words = tokens(which, text)
    known = (*(("score",) if which == "score" else ()), *INDICES, *names)
    for word in words:
        if word.kind == "name" and word.text not in (*known, *FUNCTIONS, *_CONSTANTS):
            raise ArgumentError(
                f"weft.ops.flex_attention: {which} has the unknown name '{word.text}'",
                got=text,
                allowed=f"{', '.join(known)}; {', '.join(FUNCTIONS)}",
                next=f"named={{'{word.text}': ...}} gives a tensor this name",
            )
    return " ".join(word.text for word in words) or default


def check_names(names: Sequence[str]) -> None:
    """Raise ArgumentError for a name that a tensor cannot have."""
    for name in names:
        taken = (*INDICES, *FUNCTIONS, *_CONSTANTS, "score")
        if not name.isascii() or not name.isidentifier() or name in taken:
            raise ArgumentError(
                f"weft.ops.flex_attention: a tensor cannot have the name {name!r}",
                allowed=f"a name of C that is none of {', '.join(taken)}",
            )


def only_added_to(score: str) -> bool:
    """True if an expression is the score plus terms without it: its derivative by the score is 1.

    The score stands once, as a term of a sum that is the whole expression.
    """
    words = tokens("score", score)
    if not words:
        return True
    depth, places = 0, []
    for at, word in enumerate(words):
        depth += (word.text in _OPEN) - (word.text in _CLOSE)
        if word.text == "score":
            places.append((at, depth))
        if depth == 0 and word.kind == "sign" and word.text in _WEAKER:
            return False
    if len(places) != 1 or places[0][1]:
        return False
    at = places[0][0]
    before = words[at - 1].text if at else "+"
    sign_of = words[at - 2] if at > 1 else None  # a sign before a sign is none of a sum
    after = words[at + 1].text if at + 1 < len(words) else "+"
    unary = sign_of is not None and sign_of.kind == "sign" and sign_of.text not in _CLOSE
    return before == "+" and after in ("+", "-") and not unary


def defines(score: str, mask: str, names: Mapping[str, str]) -> dict[str, str]:
    """The macros of expression.cuh; `names` has the declaration of each tensor."""
    given = tuple(names)
    return {
        "SCORE_EXPRESSION": translate("score", score, given, "score"),
        "MASK_EXPRESSION": translate("mask", mask, given, "true"),
        "EXPRESSION_TENSORS": " ".join(names.values()),
    }
