"""Selects the threads whose `printf` is shown, and names the block and the thread of each line.

`WEFT_PRINTF_FROM` and `weft run --printf-from` give the selection: `all`, or `block=X,Y,Z` and
`thread=X,Y,Z`, both optional and with coordinates left out at the end being 0. Lines of a launch
are in the order of blocks and threads, whichever ran first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from weft.errors import Error

Place = tuple[int, ...]
"""Coordinates x, y, z."""
Line = tuple[Place, Place, str]
"""A call of printf: its block, its thread, its text."""

_PART = re.compile(r"(block|thread)=(\d+(?:,\d+){0,2})")


@dataclass(frozen=True)
class PrintingThreads:
    """The block and the thread whose output is shown; None: of all."""

    block: Place | None = None
    thread: Place | None = None

    def text(self, lines: Iterable[Line]) -> str:
        """The lines of the selected threads in order, each with its block and thread."""
        chosen = [line for line in lines if self._takes(*line[:2])]
        chosen.sort(key=lambda line: (line[0][::-1], line[1][::-1]))
        return "".join(
            f"block {block}, thread {thread}: {text.removesuffix(chr(10))}\n"
            for block, thread, text in chosen
        )

    def _takes(self, block: Place, thread: Place) -> bool:
        return self.block in (None, block) and self.thread in (None, thread)


def parse(text: str, what: str) -> PrintingThreads:
    """Read a selection; `what` is the option or variable, for the error."""
    parts = [_PART.fullmatch(word) for word in text.split()]
    given = {part[1]: part[2] for part in parts if part is not None}
    if text.strip() != "all" and (not given or None in parts or len(given) < len(parts)):
        raise Error(
            f"{what} names no block or thread",
            got=text,
            allowed='all, or e.g. "block=0,1 thread=31"',
        )
    places = {
        key: tuple(int(n) for n in (*value.split(","), 0, 0)[:3]) for key, value in given.items()
    }
    return PrintingThreads(**places)
