"""Drafts: machine code that LLVM makes quickly and that runs slowly.

A kernel that runs a few times on small arrays is compiled longer than it runs; unrolled ones by
far, whose registers LLVM takes most of a minute to join. Inside of `drafts()` launches of this
thread get code without these passes: the same instructions of the same IR, so the same bits.
A launch `kernel[grid, block]` keeps what it was first given.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_wanted: ContextVar[bool] = ContextVar("weft_drafts", default=False)


def wanted() -> bool:
    """Are launches of this thread to get drafts?"""
    return _wanted.get()


@contextmanager
def drafts() -> Iterator[None]:
    """Launches inside get drafts."""
    token = _wanted.set(True)
    try:
        yield
    finally:
        _wanted.reset(token)
