"""Highlights source lines as HTML with Pygments."""

from __future__ import annotations

import functools
from html import escape

from pygments.lexer import Lexer
from pygments.lexers import CudaLexer, PythonLexer
from pygments.token import Comment, Keyword, Name, Number, String, _TokenType

_CLASSES: tuple[tuple[_TokenType, str], ...] = (
    (Comment.Preproc, ""),  # Pygments treats `#include` as a comment
    (Comment.PreprocFile, ""),
    (Comment, "comment"),
    (String, "string"),
    (Number, "number"),
    (Keyword.Reserved, "cuda"),  # __global__
    (Keyword, "keyword"),
    (Name.Builtin, "cuda"),  # threadIdx
    (Name.Function, "cuda"),  # __syncthreads
)
"""(token type, CSS class); the first matching row counts."""


@functools.lru_cache(maxsize=4096)
def colour(text: str, file: str) -> str:
    """Highlight one line; the suffix of the file selects the language."""
    tokens = _lexer(file.endswith(".py")).get_tokens(
        text + "\n"
    )  # a lexer needs the newline to end a comment
    return "".join(_marked(kind, part.rstrip("\n")) for kind, part in tokens)


def colour_block(text: str, file: str) -> str:
    """Highlight a whole text, in which comments and strings may span lines."""
    tokens = _lexer(file.endswith(".py")).get_tokens(text.rstrip("\n") + "\n")
    return "".join(_marked(kind, part) for kind, part in tokens).rstrip("\n")


@functools.cache
def _lexer(python: bool) -> Lexer:
    made: Lexer = PythonLexer(stripnl=False) if python else CudaLexer(stripnl=False)
    return made


def _marked(kind: _TokenType, part: str) -> str:
    name = next((name for of, name in _CLASSES if kind in of), "")
    return f'<i class="{name}">{escape(part)}</i>' if name else escape(part)
