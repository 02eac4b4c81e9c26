"""The notice that autotuners take the first valid configuration.

Times of the simulation say nothing about a GPU, and dozens of configurations take minutes.
"""

from __future__ import annotations

import functools
import sys

NOTICE = (
    "weft: autotuners take the first configuration that compiles; `weft run --autotune` times all "
    "of them on the simulated GPU"
)


@functools.cache
def say_once() -> None:
    """Print the notice, once per process."""
    print(NOTICE, file=sys.stderr)
