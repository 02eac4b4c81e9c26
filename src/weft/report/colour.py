"""Source text as HTML, its comments, strings, numbers and keywords in colour, by Pygments."""

from __future__ import annotations

import functools
from html import escape

from pygments.lexer import Lexer
from pygments.lexers import CudaLexer, PythonLexer
from pygments.token import Comment, Keyword, Name, Number, String, _TokenType

_CLASSES: tuple[tuple[_TokenType, str], ...] = (
    (Comment.Preproc, ""),  # `#include` is no comment to a reader
    (Comment.PreprocFile, ""),
    (Comment, "comment"),
    (String, "string"),
    (Number, "number"),
    (Keyword.Reserved, "cuda"),  # __global__
    (Keyword, "keyword"),
    (Name.Builtin, "cuda"),  # threadIdx
    (Name.Function, "cuda"),  # __syncthreads
)
"""The first that a token is of, and the class of the page's style."""


@functools.lru_cache(maxsize=4096)
def colour(text: str, file: str) -> str:
    """One line of a file, by the language of the file's suffix."""
    tokens = _lexer(file.endswith(".py")).get_tokens(text + "\n")  # a comment ends with its line
    return "".join(_marked(kind, part.rstrip("\n")) for kind, part in tokens)


@functools.cache
def _lexer(python: bool) -> Lexer:
    made: Lexer = PythonLexer(stripnl=False) if python else CudaLexer(stripnl=False)
    return made


def _marked(kind: _TokenType, part: str) -> str:
    name = next((name for of, name in _CLASSES if kind in of), "")
    return f'<i class="{name}">{escape(part)}</i>' if name else escape(part)
