"""Weight-only products by warpgroups: the kernels for Hopper, against float64."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import draw
import weft

torch = pytest.importorskip("torch")

from test_quantised import (  # noqa: E402
    BFLOAT,
    E4M3,
    FLOAT,
    HALF,
    INT4,
    INT8,
    close,
    quantised,
    tokens,
)

from weft.device.sim import schedules  # noqa: E402
from weft.ops.core import library  # noqa: E402
from weft.ops.core.runner import runner  # noqa: E402
from weft.ops.core.target import Target, named  # noqa: E402
from weft.ops.families.matmul.pipelined_model import PipelinedTile  # noqa: E402
from weft.ops.families.quantised import pipelined  # noqa: E402
from weft.ops.families.quantised.job import QuantisedJob, job_of  # noqa: E402

STAGES = 3
"""Few, so that a small product goes around the ring."""
TILES = [
    # tile, format, (m, n, k), groups, dtype of x, dtype of scales, zero points
    (PipelinedTile(64, 32), INT8, (20, 70, 640), 1, BFLOAT, FLOAT, False),
    (PipelinedTile(64, 32), INT4, (20, 70, 640), 5, HALF, HALF, False),
    (PipelinedTile(128, 48, 2), INT4, (40, 130, 640), 5, BFLOAT, FLOAT, True),
    (PipelinedTile(64, 32, 1, 2), INT4, (33, 72, 672), 21, BFLOAT, FLOAT, True),
    (PipelinedTile(64, 64), INT8, (50, 72, 640), 10, HALF, FLOAT, True),
    (PipelinedTile(64, 16), INT8, (13, 40, 272), 1, HALF, FLOAT, True),
    (PipelinedTile(128, 32, 1, 4), E4M3, (20, 136, 1056), 1, BFLOAT, FLOAT, False),
]
QUICK = (0, 2, 3)
"""Rows of the default set: no groups; groups of a stage; smaller ones in a cluster."""


def job_for(op: str, *given: Any) -> tuple[QuantisedJob, Target]:
    gpu = dataclasses.replace(named("sim:h200"), sms=1)
    return job_of(library.function(op).request(*given)), gpu


def run(tile: PipelinedTile, *given: Any, op: str = "linear_quantised") -> Any:
    """The result of a tile, on a GPU with one SM."""
    job, gpu = job_for(op, *given)
    order = pipelined.order_of(job.weight)
    assert order is not None
    plan = pipelined.plan(job, tile, order, STAGES, gpu)
    return runner(plan, 5, given[0].device)(*given)


@pytest.mark.parametrize(
    "row",
    [r if i in QUICK else pytest.param(r, marks=pytest.mark.slow) for i, r in enumerate(TILES)],
    ids=lambda row: f"{row[0].bm} x {row[0].bn}, {row[1]}",
)
def test_tiles(row: Any) -> None:
    """Ragged tiles, parts of steps, more steps than stages, and more tiles than blocks."""
    tile, kind, (m, n, k), groups, dtype, scales, zero = row
    weight, scale, zeros, exact = quantised(kind, n, k, groups, scales, zero)
    x, bias = tokens(m, k, dtype), draw.seeded(8).normal(n).to(dtype)
    close(run(tile, x, weight, scale, zeros, bias), x, exact, bias)


@pytest.mark.parametrize("op", ["linear_quantised", "linear_quantised_constant"])
def test_no_faults_no_races_and_the_same_bits(op: str) -> None:
    """A weight that is read early, too; results do not depend on the order of warps."""
    weight, scale, zeros, exact = quantised(INT4, 72, 512, 4, zero=True)
    given = (tokens(17, 512, BFLOAT), weight, scale, zeros, None)
    tile = PipelinedTile(64, 32, 1, 2)
    with weft.sanitize() as session:
        want = run(tile, *given, op=op)
    assert not session.findings
    close(want, given[0], exact)
    for schedule in schedules.several(2):
        with weft.schedule(str(schedule)):
            assert torch.equal(run(tile, *given, op=op), want), schedule


def test_candidates() -> None:
    """Those that fit; none for other groups, other GPUs and few tokens."""
    weight, scale, _, _ = quantised(INT4, 256, 512, 4)
    job, _ = job_for("linear_quantised", tokens(40, 512, HALF), weight, scale, None, None)
    gpu = named("sim:h200")
    found = pipelined.candidates(job, gpu)
    assert found and all(c.cost > 0 and "pipelined" in c.name for c in found)
    assert not pipelined.candidates(job, named("sim:a100"))
    few = dataclasses.replace(job, m=4)
    assert not pipelined.candidates(few, gpu)
    odd = dataclasses.replace(job, weight=dataclasses.replace(job.weight, groups=32))
    assert not pipelined.candidates(odd, gpu), "groups of 16"
