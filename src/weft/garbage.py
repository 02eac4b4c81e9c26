"""Pauses Python's garbage collector while code is made from PTX.

Making code allocates many objects in a short time and drops few of them. The collector would look
at all objects of the process again and again, for nothing.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_inside: set[object] = set()
"""One for each thread that pauses the collector now."""
_enabled = False
"""True if the collector was enabled before the first of them."""


@contextmanager
def paused(*, lasting: bool = False) -> Iterator[None]:
    """Pause the collector inside, in all threads: for Python code that ends soon.

    lasting  most objects made inside stay, as modules do: the collector treats them as old,
             instead of scanning them all when it runs again
    """
    global _enabled
    me = object()
    with _lock:
        if not _inside:
            _enabled = gc.isenabled()
            gc.disable()
        _inside.add(me)
    try:
        yield
    finally:
        with _lock:
            _inside.discard(me)
            if lasting and not gc.get_freeze_count():  # objects that a program has frozen stay so
                gc.freeze()
                gc.unfreeze()
            if _enabled and not _inside:
                gc.enable()


def _resume() -> None:
    """Reset in a child of `fork`: the threads that paused the collector are its parent's."""
    global _lock
    _lock = threading.Lock()
    if _inside:
        _inside.clear()
        if _enabled:
            gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_resume)
