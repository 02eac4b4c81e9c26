"""matmul_wide: products of 16-bit matrices stored in float32, and sums of the rows of A."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import draw
import weft

torch = pytest.importorskip("torch")

from weft.errors import ArgumentError  # noqa: E402
from weft.ops.core import library  # noqa: E402
from weft.ops.core.runner import runner  # noqa: E402
from weft.ops.core.target import named  # noqa: E402
from weft.ops.families.matmul import pipelined, row_sums  # noqa: E402
from weft.ops.families.matmul.matmul import MATMUL  # noqa: E402
from weft.ops.families.matmul.pipelined import PipelinedTile  # noqa: E402
from weft.ops.families.matmul.product import product_of  # noqa: E402

HALF, BFLOAT, SINGLE = torch.float16, torch.bfloat16, torch.float32


def operands(m: int, n: int, k: int, dtype: Any) -> tuple[Any, Any]:
    """The transpose of a gradient, and rows: operands of the gradient of a weight."""
    a = draw.seeded(1).normal((k, m)).to(dtype)
    return a.T, draw.seeded(2).normal((k, n)).to(dtype)


def close(got: Any, want: Any) -> None:
    """Sums of single precision, without a rounding to 16 bits."""
    assert got.dtype is SINGLE and got.shape == want.shape
    assert (got.double() - want).norm() < 1e-6 * want.norm()


TILES = {
    "one tile across": (PipelinedTile(64, 64), (72, 56, 200), BFLOAT),
    "rows that begin anywhere": (PipelinedTile(128, 32), (136, 40, 136), HALF),
    "two an SM": (PipelinedTile(64, 32, 2), (72, 40, 200), BFLOAT),
    "rows down": (PipelinedTile(256, 32), (264, 40, 136), BFLOAT),
    "cluster": (PipelinedTile(64, 32, splits=4), (72, 40, 64 * 5), BFLOAT),
    "shares replace stages": (PipelinedTile(192, 64, splits=3), (200, 72, 320), HALF),
}


def run(tile: PipelinedTile, a: Any, b: Any, sums: bool) -> Any:
    """The results of a tile with two stages, so that a small product goes around the ring."""
    gpu = dataclasses.replace(named("sim:h200"), sms=1)
    made = product_of(library.function("matmul_wide").request(a, b, sums), MATMUL)
    made = dataclasses.replace(made, stored=SINGLE)
    plan = pipelined.plan(made, tile, 2, gpu, row_sums.SUMS if sums else None)
    (c,) = plan.outputs
    plan = dataclasses.replace(plan, outputs=(c, c._replace(shape=a.shape[:1])))
    return runner(plan, 2, torch.device("cpu"))(a, b)


@pytest.mark.parametrize("subject", TILES)
@pytest.mark.parametrize("sums", [True, False])
def test_tiles(subject: str, sums: bool) -> None:
    tile, size, dtype = TILES[subject]
    a, b = operands(*size, dtype)
    with weft.sanitize() as session:
        got = run(tile, a, b, sums)
    assert not session.findings
    close(got[0], a.double() @ b.double())
    if sums:
        close(got[1], a.double().sum(1))


@pytest.mark.parametrize("schedule", ["last", "random:5"])
@pytest.mark.parametrize("subject", ["rows down", "cluster"])
def test_every_schedule_gives_the_same(subject: str, schedule: str) -> None:
    tile, size, dtype = TILES[subject]
    a, b = operands(*size, dtype)
    plain = run(tile, a, b, True)
    with weft.schedule(schedule):
        assert all(map(torch.equal, run(tile, a, b, True), plain))


@pytest.mark.parametrize("size", [(72, 40, 200), (9, 7, 30)])
@pytest.mark.parametrize("sums", [True, False])
def test_calls(size: tuple[int, int, int], sums: bool) -> None:
    """Rows that no tensor map describes are multiplied by another kernel, and converted."""
    a, b = operands(*size, BFLOAT)
    c, of_rows = library.call("matmul_wide")(a, b, sums)
    want = a.double() @ b.double()
    assert c.dtype is of_rows.dtype is SINGLE
    assert (c.double() - want).norm() < 4e-3 * want.norm()
    if sums:
        assert (of_rows.double() - a.double().sum(1)).norm() < 4e-3 * want.norm()
    else:
        assert not of_rows.numel()


def test_every_candidate() -> None:
    """Products that round are converted after it: those differ by the rounding."""
    a, b = operands(72, 40, 200, BFLOAT)
    op = library.function("matmul_wide")
    choice = op.choice(op.request(a, b, True))
    want = a.double() @ b.double()
    kinds = set()
    for candidate in (choice.used, *choice.others):
        kind = candidate.name.endswith("converted")
        if kind in kinds:
            continue
        kinds.add(kind)
        c, sums = runner(candidate.build(), 2, torch.device("cpu"))(a, b)
        limit = 4e-3 if kind else 1e-6
        assert (c.double() - want).norm() < limit * want.norm()
        assert (sums.double() - a.double().sum(1)).norm() < limit * want.norm()
    assert kinds == {True, False}


def test_bad_arguments() -> None:
    with pytest.raises(ArgumentError, match="16-bit"):
        library.call("matmul_wide")(torch.zeros(3, 4), torch.zeros(4, 2), False)
