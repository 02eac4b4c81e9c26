"""The choice of a launch's code: drafts, full code, or one after the other.

A draft is machine code that LLVM makes quickly and that runs slowly: the same instructions of the
same IR as in the full code, so the same bits. By default a kernel starts as a draft, and its full
code is made in the background once that pays (`tiers`). Inside of `drafts()` launches of this
thread get drafts only. `WEFT_DRAFTS` in the environment decides for all launches: `1` drafts only,
`0` full code only, compiled before the launch runs. A launch `kernel[grid, block]` keeps the choice
of its first time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum

VARIABLE = "WEFT_DRAFTS"
_wanted: ContextVar[bool] = ContextVar("weft_drafts", default=False)


class Tier(Enum):
    """The code that launches get."""

    DRAFT, FULL, BOTH = "draft", "full", "both"


def chosen() -> Tier:
    """The code that launches of this thread get."""
    value = os.environ.get(VARIABLE, "")
    if _wanted.get() or value not in ("", "0"):
        return Tier.DRAFT
    return Tier.FULL if value == "0" else Tier.BOTH


@contextmanager
def drafts() -> Iterator[None]:
    """Give drafts to the launches inside."""
    token = _wanted.set(True)
    try:
        yield
    finally:
        _wanted.reset(token)
