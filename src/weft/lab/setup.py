"""Prepares a job: the folders of its headers, its compiled source, its arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from weft.lab import origins
from weft.lab.bind import Bound, bind
from weft.lab.job import Job
from weft.measure.op import Case


def prepared(job: Job, include: Sequence[str]) -> Job:
    """The job with folders of headers, those of the server and of its origin, and with macros."""
    # A text of one line may be taken for the name of a file.
    source = f"{job.source}\n"
    folders = (*include, *map(str, origins.folders(job.origin)))
    on = origins.rung(job.origin)
    return replace(job, source=source, include=folders, defines=on[1].defines if on else {})


def bound(job: Job) -> Bound:
    """The source, compiled or imported, and its launches."""
    on = origins.rung(job.origin)
    return bind(job, on[1] if on else None)


def arrays(job: Job) -> dict[str, Any]:
    """The arrays of a job; the operation of its origin gives data that has structure."""
    op = origins.operation(job.origin)
    if op is None:
        return job.make()
    case, rng = Case.of({n: int(v) for n, v in job.sizes.items()}), np.random.default_rng(0)
    own = {s.name: s for s in op.inputs if s.name in op.fill}
    return job.make(lambda name: op.own_data(own[name], case, rng))
