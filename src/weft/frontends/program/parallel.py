"""Runs compilers in parallel."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor


def parallel(work: Sequence[Callable[[], object]]) -> None:
    """Call the functions in threads and raise the first exception."""
    with ThreadPoolExecutor(min(len(work), cores())) as pool:
        waiting = [pool.submit(each) for each in work]
        try:
            for done in waiting:
                done.result()
        except BaseException:  # an error or Ctrl-C: cancel what has not started
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def cores() -> int:
    return os.cpu_count() or 1
