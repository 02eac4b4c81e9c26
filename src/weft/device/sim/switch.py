"""Whether launches run under the sanitizer: the process-wide switch that each launch looks at."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.device.sim.sanitizer.session import Report

current: Report | None = None
"""The report that launches of this process add to; None: they run plainly."""

_wanted = os.environ.get("WEFT_SANITIZE", "0")
TO_FILE = "report:"
"""WEFT_SANITIZE=report:PATH collects, and keeps what was found in that file as JSON."""


def active() -> Report | None:
    """`current`; WEFT_SANITIZE=1 in the environment turns it on for each launch by itself."""
    global current
    if current is None and _wanted not in ("", "0"):
        from weft.device.sim.sanitizer.session import Strict, Written  # they import what asks here

        to_file = _wanted.startswith(TO_FILE)
        current = Written(_wanted.removeprefix(TO_FILE)) if to_file else Strict()
    return current
