"""Notes of a worker: the part of its task that it is at, and the parts that it must leave out.

A worker that ends says nothing any more. A note is therefore sent, and has arrived, before the part
begins. Without a cluster notes go nowhere, and nothing is left out.
"""

from __future__ import annotations

from collections.abc import Callable

send: Callable[[str], None] | None = None
"""Sends a note and waits until it has arrived; a worker of a cluster sets it."""
banned: frozenset[str] = frozenset()
"""Parts that have ended workers and are not tried again."""


def note(part: str) -> None:
    """Send the part that begins now."""
    if send is not None:
        send(part)
