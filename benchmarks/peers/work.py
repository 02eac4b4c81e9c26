"""The timing and the work of the runs of all rival simulators."""

from __future__ import annotations

import time
from collections.abc import Callable

COLLATZ_STEPS = 26_915
"""Steps of the Collatz loop, from all of 1 to 512."""


def seconds(run: Callable[[], object]) -> float:
    """Processor seconds, the median of three; the first run is not counted."""
    run()
    times = []
    for _ in range(3):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return sorted(times)[1]
