"""64-bit words of the sanitizer's memory."""

from __future__ import annotations

from weft.ir import Builder, Val


def word(b: Builder, p: Val, at: int = 0) -> Val:
    """Load a word."""
    return b.load("i64", 0, b.at(p, at), 8)


def put(b: Builder, v: Val, p: Val, at: int = 0) -> None:
    """Store a word."""
    b.store(v, b.at(p, at), 8)


def larger(old: Val, new: Val) -> Val:
    """The larger of two unsigned words, or of two vectors."""
    return old.builder.umax(old, new)
