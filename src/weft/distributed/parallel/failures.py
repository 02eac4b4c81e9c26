"""Names the ranks that ended when a collective fails.

A collective fails with the address of a connection. Each rank therefore counts in the store of the
processes; after a failure, the ranks whose count stands still are those that have ended.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch.distributed as dist

from weft.distributed.parallel.lost import RankLost

BEAT = 0.5
"""Seconds between two counts of a rank."""
PATIENCE = 4.0
"""Seconds in which a rank that lives counts, on a busy machine too."""


FOUND = "weft/lost"
"""The key of the ranks that have ended."""


class _Heartbeat(threading.Thread):
    """Counts in the store until it is stopped; a process that ends takes it along."""

    def __init__(self, store: Any, rank: int, world: int) -> None:
        super().__init__(name="weft-heartbeat", daemon=True)
        self._store, self._rank, self._world = store, rank, world
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(BEAT):
            try:
                self._store.add(_key(self._rank), 1)
            except RuntimeError:  # the process of the store has ended, too
                return

    def stop(self) -> None:
        self._ended.set()
        self.join(PATIENCE)

    def silent(self) -> list[int]:
        """Ranks that do not count any more, as the first rank that noticed found them.

        Ranks that end because of them are not named. If the store has ended, its rank is.
        """
        others = [rank for rank in range(self._world) if rank != self._rank]
        try:
            before = {rank: self._store.add(_key(rank), 0) for rank in others}
            end = time.monotonic() + PATIENCE
            while before and time.monotonic() < end:
                time.sleep(BEAT)
                before = {r: n for r, n in before.items() if self._store.add(_key(r), 0) == n}
        except RuntimeError:
            return [0] if self._rank else others
        names = ",".join(map(str, sorted(before)))
        agreed = self._store.compare_set(FOUND, "", names).decode() if names else ""
        return [int(name) for name in agreed.split(",") if name]


def _key(rank: int) -> str:
    return f"weft/alive/{rank}"


@contextmanager
def named_failures() -> Iterator[None]:
    """Inside of this block, a collective that fails since ranks have ended raises `RankLost`.

    All ranks of the default process group enter the block. One process alone needs none.

    >>> with weft.distributed.parallel.named_failures():
    ...     total = torch.ones(2).sum()
    """
    if not dist.is_initialized():
        yield
        return
    store = dist.distributed_c10d._get_default_store()
    beat = _Heartbeat(store.clone(), dist.get_rank(), dist.get_world_size())
    beat.start()
    try:
        yield
    except RuntimeError as error:
        lost = beat.silent()
        if not lost:
            raise
        names = f"rank{'s' if len(lost) > 1 else ''} {', '.join(map(str, lost))}"
        raise RankLost(
            f"{names} ended while rank {dist.get_rank()} was waiting for all",
            got=str(error).strip().partition("\n")[0],
            next=f"read the output of {names}; a checkpoint goes on with any number of processes",
        ) from error
    finally:
        beat.stop()
