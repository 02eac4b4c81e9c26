"""matmul_row_sums: a product and the sums of the rows of A, in one launch on Hopper."""

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

HALF, BFLOAT = torch.float16, torch.bfloat16


def operands(m: int, n: int, k: int, dtype: Any, a_k: bool, b_k: bool) -> tuple[Any, Any]:
    """A with contiguous rows if `a_k`, B with contiguous columns if `b_k`."""
    a = draw.seeded(1).normal((m, k) if a_k else (k, m)).to(dtype)
    b = draw.seeded(2).normal((n, k) if b_k else (k, n)).to(dtype)
    return a if a_k else a.T, b.T if b_k else b


def run(tile: PipelinedTile, a: Any, b: Any, sms: int = 1) -> Any:
    """The results of a tile with two stages, so that a small product goes around the ring."""
    gpu = dataclasses.replace(named("sim:h200"), sms=sms)
    made = product_of(library.function("matmul_row_sums").request(a, b), MATMUL)
    plan = pipelined.plan(made, tile, 2, gpu, row_sums.SUMS)
    c = plan.outputs[0]
    plan = dataclasses.replace(plan, outputs=(c, c._replace(shape=a.shape[:1])))
    return runner(plan, 2, torch.device("cpu"))(a, b)


def close(got: Any, want: Any) -> None:
    limit = {torch.float32: 1e-6, HALF: 6e-4, BFLOAT: 4e-3}[got.dtype]
    assert (got.double() - want).norm() < limit * want.norm()


TILES = {
    "columns": (PipelinedTile(64, 32), (72, 104, 200), BFLOAT, False, False),
    "rows of A": (PipelinedTile(128, 32), (130, 40, 136), HALF, True, False),
    "columns of B": (PipelinedTile(64, 48), (136, 56, 200), HALF, False, True),
    "two an SM": (PipelinedTile(64, 32, 2), (72, 40, 200), BFLOAT, False, False),
    "turns": (PipelinedTile(128, 32, turns=True), (264, 72, 200), BFLOAT, False, False),
    "boxes": (PipelinedTile(128, 64, boxes=True), (136, 136, 200), HALF, False, False),
    "cluster": (PipelinedTile(64, 32, splits=4), (72, 40, 64 * 5), BFLOAT, False, False),
    "shares replace stages": (PipelinedTile(192, 64, splits=3), (200, 72, 320), HALF, False, False),
    "more tiles than warpgroups": (PipelinedTile(128, 32), (136, 104, 136), HALF, False, False),
    "one tile across": (PipelinedTile(192, 64, splits=2), (200, 56, 320), BFLOAT, False, False),
}


@pytest.mark.parametrize("subject", TILES)
def test_tiles(subject: str) -> None:
    """Ragged tiles, several beside each other, and more steps than stages."""
    tile, size, dtype, a_k, b_k = TILES[subject]
    a, b = operands(*size, dtype, a_k, b_k)
    c, sums = run(tile, a, b)
    close(c, a.double() @ b.double())
    close(sums, a.double().sum(1))


@pytest.mark.parametrize("subject", ["turns", "cluster"])
def test_the_sanitizer_finds_nothing(subject: str) -> None:
    tile, size, dtype, a_k, b_k = TILES[subject]
    a, b = operands(*size, dtype, a_k, b_k)
    with weft.sanitize() as session:
        run(tile, a, b)
    assert not session.findings


@pytest.mark.parametrize("schedule", ["last", "random:5"])
@pytest.mark.parametrize("subject", ["turns", "cluster"])
def test_every_schedule_gives_the_same(subject: str, schedule: str) -> None:
    tile, size, dtype, a_k, b_k = TILES[subject]
    a, b = operands(*size, dtype, a_k, b_k)
    plain = run(tile, a, b)
    with weft.schedule(schedule):
        assert all(map(torch.equal, run(tile, a, b), plain))


@pytest.mark.parametrize(
    ("size", "dtype"),
    [((72, 40, 200), BFLOAT), ((37, 21, 45), HALF), ((37, 21, 45), torch.float32),
     ((3, 5, 0), torch.float32), ((0, 5, 8), HALF)],
)  # fmt: skip
def test_any_operands(size: tuple[int, int, int], dtype: Any) -> None:
    """One launch follows the other where no kernel does both."""
    a, b = operands(*size, dtype, False, False)
    c, sums = library.call("matmul_row_sums")(a, b)
    assert c.shape == size[:2] and sums.shape == size[:1] and sums.dtype is dtype
    torch.testing.assert_close(c.double(), a.double() @ b.double(), rtol=1e-2, atol=2e-2)
    torch.testing.assert_close(sums.double(), a.double().sum(1), rtol=1e-2, atol=2e-2)


def test_operands_that_are_copied_first() -> None:
    """The copy and the parts of K have memory of their own."""
    a, b = draw.seeded(1).normal((9, 2400))[:, ::2], draw.seeded(2).normal((1200, 24))
    c, sums = library.call("matmul_row_sums")(a, b)
    close(c, a.double() @ b.double())
    close(sums, a.double().sum(1))


def test_gradients() -> None:
    a, b = draw.seeded(1).normal((5, 12)).requires_grad_(), draw.seeded(2).normal((12, 7))
    b.requires_grad_()
    c, sums = library.call("matmul_row_sums")(a, b)
    (c.square().sum() + sums.pow(3).sum()).backward()
    x, y = (t.detach().double().requires_grad_() for t in (a, b))
    ((x @ y).square().sum() + x.sum(1).pow(3).sum()).backward()
    torch.testing.assert_close(a.grad.double(), x.grad, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(b.grad.double(), y.grad, rtol=1e-5, atol=1e-4)


def test_only_matrices() -> None:
    with pytest.raises(ArgumentError, match="no matrix"):
        library.call("matmul_row_sums")(torch.ones(2, 3, 4), torch.ones(4, 5))


def test_linear_sums_beside_the_product() -> None:
    """The layers of GPT-2 have one launch for both gradients."""
    dy, x = torch.empty(8192, 2304, dtype=BFLOAT), torch.empty(8192, 768, dtype=BFLOAT)
    function = library.function("matmul_row_sums")
    name = function.choice(function.request(dy.t(), x)).used.name
    assert name.endswith("pipelined, with sums")
