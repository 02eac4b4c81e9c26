"""Pools of CPUs: processes of this machine, or workers of a Ray cluster."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from weft.cluster import processes, spread
from weft.cluster.connect import connect, cores
from weft.cluster.processes import Pool
from weft.cluster.team import team


@contextmanager
def cpus(
    address: str, workers: int | None, tell: Callable[[str], None]
) -> Iterator[tuple[Pool, int]]:
    """Give a pool of CPUs and its size inside; without an address, processes of this machine."""
    if not address:
        count = workers or cores()
        yield functools.partial(processes.run, jobs=count), count
        return
    with connect(address, workers) as ray, team(ray, workers) as staff:
        yield functools.partial(spread.run, staff=staff, tell=tell), len(staff.hired)
