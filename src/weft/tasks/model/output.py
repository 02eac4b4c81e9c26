"""Redirects what a program prints, so that standard output has the result of a command only."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def to_standard_error() -> Iterator[None]:
    """Redirect standard output of this process and its children to standard error."""
    # What is still in the buffer belongs to standard output.
    sys.stdout.flush()
    # The descriptor itself: child processes and native code do not write through `sys.stdout`.
    stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)
