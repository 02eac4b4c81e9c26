"""Splits the code of a large kernel into functions: LLVM's time then grows linearly with its size.

Register allocation, instruction combining and other passes follow values through all blocks of a
function. A kernel of 10,000 instructions in one function takes them three times as long for each
instruction as one of 1,000. `cut` makes several functions of the function `warp`:

    read.py    blocks, branches and variables of the function
    places.py  the choice of cuts: few enclosing loops, few branches across, few live variables
    write.py   the functions, and the one that calls them in turn

The registers of a kernel are variables (`alloca`) in the code that weft makes. A function loads the
variables that it reads from memory where it is entered and stores those it has changed where it is
left. The instructions stay the same, and so do the results and the frames of warps: code that is
cut can continue the blocks that a draft has begun.
"""

from __future__ import annotations

import re

from weft.ir.cut.places import place_cuts
from weft.ir.cut.read import read
from weft.ir.cut.write import CannotCut, write

LARGE = 24_000
"""Lines of a function that is cut: about 2,000 instructions of PTX."""
PART = 4_000
"""Lines of a part."""

_HEAD = re.compile(r"^define [^\n]*@warp\(", re.MULTILINE)


def cut(text: str, large: int = LARGE, part: int = PART) -> str:
    """The module, in which no function has many more lines than `large`."""
    head = _HEAD.search(text)
    if head is None:
        return text
    start = head.start()
    end = text.index("\n}", start) + 2
    if text.count("\n", start, end) <= large:
        return text
    code = read(text[start:end])
    try:
        parts = write(code, place_cuts(code, part))
    except CannotCut:
        return text  # LLVM takes longer for it
    return text[:start] + parts + text[end:]
