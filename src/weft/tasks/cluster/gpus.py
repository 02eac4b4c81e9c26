"""The GPUs of a Ray cluster as one pool, and the sentence about unequal ones."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from weft.cluster import spread
from weft.cluster.connect import connect
from weft.cluster.journal import journal, resumed
from weft.cluster.processes import Pool
from weft.cluster.team import About, Team, team


@dataclass(frozen=True)
class ClusterOptions:
    """A Ray cluster to measure on.

    address  "HOST:PORT", "auto" or "local"
    workers  at most so many GPUs; None: all
    tell     called with sentences for the user
    """

    address: str
    workers: int | None = None
    tell: Callable[[str], None] = field(default=lambda text: None)


@dataclass(frozen=True)
class Gpus:
    """The GPUs that were hired, with the journal of the job."""

    staff: Team
    pool: Callable[..., Pool]
    """Makes a pool for tasks of these kinds: `pool(kinds)`."""
    keep: Callable[[], None]
    """Has the results stay on disk: the job has not ended."""


@contextmanager
def gpus(
    options: ClusterOptions,
    about: About,
    job: Sequence[str],
    dump: Callable[[Any], Any],
    load: Callable[[Any], Any],
) -> Iterator[Gpus]:
    """Hire the GPUs of a cluster inside.

    about       describes the GPU of a worker
    job         the command, then everything that its results depend on
    dump, load  make a JSON value of a result, and back
    """
    with (
        connect(options.address, None) as ray,
        team(ray, options.workers, about) as staff,
        journal(job[0].replace(" ", "-"), job[1:], options.tell) as known,
    ):
        if len(staff.kinds) > 1:
            options.tell(unequal(staff))
        run = functools.partial(spread.run, staff=staff, tell=options.tell)

        def pool(kinds: Sequence[str]) -> Pool:
            return functools.partial(
                resumed, known=known, pool=run, kinds=kinds, dump=dump, load=load
            )

        yield Gpus(staff, pool, functools.partial(setattr, known, "keep", True))


def unequal(staff: Team) -> str:
    """The sentence for a cluster with several kinds of GPU."""
    counts = Counter(one.kind for one in staff.hired)
    kinds = ", ".join(f"{count} x {kind}" for kind, count in counts.most_common())
    return f"the cluster has unequal GPUs ({kinds}): every call is measured on each kind"
