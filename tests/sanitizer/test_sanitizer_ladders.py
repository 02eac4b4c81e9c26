"""No false alarm: every CUDA rung of the project's ladders under the sanitizer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.climbing import ladder
from weft.climbing.climb import zeros
from weft.climbing.rung import Runner
from weft.measure.check import input_data

pytestmark = [pytest.mark.slow, pytest.mark.sim]

RUNGS = [
    pytest.param(found.op, rung, id=f"{name}-{rung.path.stem}")
    for name in ladder.names()
    for found in [ladder.find(name)]
    for rung in found.rungs
    if rung.path.suffix == ".cu"
]
CASES = 2
"""The first input of each operation, and a ragged one."""


@pytest.mark.parametrize(("op", "rung"), RUNGS)
def test_nothing_is_found_in_a_rung(op: Any, rung: Any) -> None:
    runner = Runner(rung, op, sms=132, empty=zeros)
    rng = np.random.default_rng(0)
    with weft.sanitize() as report:
        for case in op.cases[:CASES]:
            given = {s.name: op.data(s, case, rng, input_data.random) for s in op.inputs}
            given |= {s.name: np.zeros(s.shape(case), s.dtype.numpy) for s in op.outputs}
            runner(**given, **case.sizes)
    assert report.launches >= CASES and report.counts.accesses > 0
