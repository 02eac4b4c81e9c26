"""The text of one PTX file without its comments, and the positions of errors."""

from __future__ import annotations

import re

from weft.errors import PtxError
from weft.values import SourceLine

NAME = r"[%$_A-Za-z][\w$]*"
"""An identifier of PTX (a bare `_` or `%` is looked at where it matters)."""

# A comment that is never closed runs to the end: trying every `/*` anew would be quadratic.
_COMMENT = re.compile(r'"[^"\n]*"?|//[^\n]*|/\*.*?(?:\*/|\Z)', re.S)
_BLANK = re.compile(r"\s*")


class PtxText:
    """PTX text being read: `pos` is where the current statement starts, `loc` its source line."""

    def __init__(self, text: str, name: str) -> None:
        self.name = name
        self.pos = 0
        self._counted = (0, 1)  # the last position whose line was asked for, and that line
        self.loc: SourceLine | None = None
        self.text = text  # so that an open comment can be located
        self.text = _COMMENT.sub(self._without_comment, text.rstrip("\0"))

    def _without_comment(self, found: re.Match[str]) -> str:
        """Strings stay; a block comment leaves its line ends, so that line numbers hold."""
        body = found.group()
        if body[0] == '"':
            return body
        if body[1] == "/":
            return ""
        if len(body) < 4 or body[-2:] != "*/":
            self.pos = found.start()
            raise self.locate(PtxError("a comment is not closed", got="/*", allowed="/* ... */"))
        return " " + "\n" * body.count("\n")

    def skip_blank(self, pos: int) -> int:
        """The position of the first character at or after `pos` that is not white space."""
        found = _BLANK.match(self.text, pos)
        return found.end() if found else pos

    def line_at(self, pos: int) -> int:
        """The line number, from 1, of a position."""
        # Positions mostly ascend: counting goes on from the last one instead of from the start.
        known, line = self._counted if self._counted[0] <= pos else (0, 1)
        line += self.text.count("\n", known, pos)
        self._counted = (pos, line)
        return line

    def excerpt(self, pos: int) -> str:
        """The rest of the line at `pos`, shortened, to quote in an error."""
        pos = self.skip_blank(pos)
        return brief(self.text[pos : pos + 200].partition("\n")[0]) or "end of text"

    def locate(self, error: PtxError, line: int = 0) -> PtxError:
        """The same error with its place: the PTX line, and the source line it came from."""
        if error.where:
            return error
        line = line or self.line_at(self.skip_blank(self.pos))
        where = f"{self.name}:{line}"
        if self.loc is not None:
            own = self.loc.own
            where += f" (from {own}{own.quote and f': {own.quote}'})"
        return type(error)(
            error.what, where=where, got=error.got, allowed=error.allowed, next=error.next
        )


def brief(text: str, limit: int = 80) -> str:
    """`text` on one line, shortened so that hostile input cannot flood a message."""
    text = " ".join(text[: 4 * limit].split())
    return text if len(text) <= limit else text[: limit - 3] + "..."
