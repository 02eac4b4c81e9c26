"""Drafts: machine code that LLVM makes quickly and that runs slowly.

A kernel that runs a few times on small arrays is compiled longer than it runs; unrolled ones by
far, whose registers LLVM takes most of a minute to join. Inside of `drafts()` launches of this
thread get code without these passes: the same instructions of the same IR, so the same bits.
`WEFT_DRAFTS=1` in the environment does this for all launches. A launch `kernel[grid, block]` keeps
the code it was first given.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

VARIABLE = "WEFT_DRAFTS"
_wanted: ContextVar[bool] = ContextVar("weft_drafts", default=False)


def wanted() -> bool:
    """Do launches of this thread get drafts?"""
    return _wanted.get() or os.environ.get(VARIABLE, "0") not in ("", "0")


@contextmanager
def drafts() -> Iterator[None]:
    """Launches inside get drafts."""
    token = _wanted.set(True)
    try:
        yield
    finally:
        _wanted.reset(token)
