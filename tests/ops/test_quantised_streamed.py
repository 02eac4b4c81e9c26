"""Weight-only products with few tokens by blocks that stay on Hopper, against float64."""

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
from weft.ops.core.target import named  # noqa: E402
from weft.ops.families.quantised import streamed  # noqa: E402
from weft.ops.families.quantised.job import job_of  # noqa: E402
from weft.ops.families.quantised.skinny import TOKENS, SkinnyLaunch, units_of  # noqa: E402

ROWS = [
    # format, (m, n, k), groups, dtype of x, dtype of scales, zero points, pairs of rows
    (INT8, (1, 70, 1344), 1, BFLOAT, FLOAT, False, 1),
    (INT4, (1, 70, 2304), 18, BFLOAT, FLOAT, False, 2),
    (INT4, (2, 70, 2304), 18, HALF, HALF, True, 1),
    (INT4, (3, 170, 512), 8, HALF, HALF, True, 1),
    (INT8, (7, 300, 320), 5, BFLOAT, FLOAT, True, 1),
    (E4M3, (13, 200, 272), 1, BFLOAT, FLOAT, False, 1),
]
QUICK = (0, 2, 4)
"""Rows of the default set: one token; groups and zero points; as many tokens as columns."""


def run(pairs: int, *given: Any, op: str = "linear_quantised", blocks: int = 2) -> Any:
    """The result of two blocks, of four stages each: a block has several tiles."""
    job = job_of(library.function(op).request(*given))
    count = next(t for t in TOKENS if job.m <= t)
    rows = SkinnyLaunch(count, units_of(job.weight), pairs, 1)
    gpu = dataclasses.replace(named("sim:h200"), sms=blocks)
    plan = streamed.plan(job, streamed.StreamedLaunch(rows, 4, 1), gpu)
    return runner(plan, 5, given[0].device)(*given)


@pytest.mark.parametrize(
    "row",
    [r if i in QUICK else pytest.param(r, marks=pytest.mark.slow) for i, r in enumerate(ROWS)],
    ids=lambda row: f"{row[1][0]} tokens, {row[0]}",
)
def test_rows(row: Any) -> None:
    """Parts of tiles and of steps, and more steps than stages."""
    kind, (m, n, k), groups, dtype, scales, zero, pairs = row
    weight, scale, zeros, exact = quantised(kind, n, k, groups, scales, zero)
    x, bias = tokens(m, k, dtype), draw.seeded(8).normal(n).to(dtype)
    close(run(pairs, x, weight, scale, zeros, bias), x, exact, bias)


@pytest.mark.parametrize("op", ["linear_quantised", "linear_quantised_constant"])
def test_no_faults_no_races_and_the_same_bits(op: str) -> None:
    """A weight that is read early, too; results do not depend on the order of warps."""
    weight, scale, zeros, exact = quantised(INT4, 72, 2048, 16, zero=True)
    given = (tokens(1, 2048, BFLOAT), weight, scale, zeros, None)
    with weft.sanitize() as session:
        want = run(1, *given, op=op)
    assert not session.findings
    close(want, given[0], exact)
    for schedule in schedules.several(2):
        with weft.schedule(str(schedule)):
            assert torch.equal(run(1, *given, op=op), want), schedule


def test_candidates() -> None:
    """Those that fit; none for other GPUs, many tokens, and tokens that have no room."""
    weight, scale, _, _ = quantised(INT4, 256, 512, 4)
    x = tokens(3, 512, HALF)
    job = job_of(library.function("linear_quantised").request(x, weight, scale, None, None))
    gpu = named("sim:h200")
    found = streamed.candidates(job, gpu)
    assert found and all(c.cost > 0 and "streamed" in c.name for c in found)
    assert not streamed.candidates(job, named("sim:a100"))
    assert not streamed.candidates(dataclasses.replace(job, m=17), gpu)
    long = dataclasses.replace(job.weight, k=1 << 17, groups=1 << 10)
    assert not streamed.candidates(dataclasses.replace(job, weight=long), gpu)
