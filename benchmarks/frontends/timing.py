"""The processor time of a case's launches: how every program of cases takes it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

AT_LEAST = 0.5
"""Seconds that the repetitions of a launch take at least."""


def timed(run: Callable[[], object], *, simulated: bool) -> dict[str, Any]:
    """Time a launch; the simulated GPU's first one compiles and does not count, a rival's does."""
    first = _seconds(run)
    times = [] if simulated else [first]
    while simulated and sum(times) < AT_LEAST:
        times.append(_seconds(run))
    return {"seconds": statistics.median(times), "first": first, "runs": len(times)}


def _seconds(run: Callable[[], object]) -> float:
    begin = time.process_time()
    run()
    return time.process_time() - begin
