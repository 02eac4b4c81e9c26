"""Products whose operands tensor maps describe: the kernels for Hopper."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import draw
import weft

torch = pytest.importorskip("torch")

from weft.ops.core import library  # noqa: E402
from weft.ops.core.runner import runner  # noqa: E402
from weft.ops.core.target import named  # noqa: E402
from weft.ops.families.matmul import pipelined  # noqa: E402
from weft.ops.families.matmul.matmul import ADDMM, MATMUL  # noqa: E402
from weft.ops.families.matmul.pipelined import PipelinedTile  # noqa: E402
from weft.ops.families.matmul.product import product_of  # noqa: E402

HALF, BFLOAT = torch.float16, torch.bfloat16
H200 = named("sim:h200")
STAGES = 2
"""Few, so that a small product goes around the ring."""


def matrix(rows: int, columns: int, dtype: Any, by_columns: bool, seed: int) -> Any:
    """A matrix whose rows, or columns, are contiguous."""
    shape = (columns, rows) if by_columns else (rows, columns)
    made = draw.seeded(seed).normal(shape).to(dtype)
    return made.T if by_columns else made


def run(op: str, tile: PipelinedTile, turned: bool, *given: Any, sms: int = 132) -> Any:
    """The result of a tile; `turned`: as the transpose of the transposed product."""
    gpu = dataclasses.replace(H200, sms=sms)
    request = library.function(op).request(*given, "fp32")
    made = product_of(request, MATMUL if op == "matmul" else ADDMM)
    plan = pipelined.plan(made.transposed() if turned else made, tile, STAGES, gpu)
    tensors = [x for x in given if torch.is_tensor(x)]
    return runner(plan, len(tensors), torch.device("cpu"))(*tensors)


def close(result: Any, want: Any) -> None:
    error = (result.double() - want).norm() / want.norm()
    assert error < (4e-3 if result.dtype == BFLOAT else 6e-4)


@pytest.mark.parametrize(
    ("tile", "size", "orders", "dtype", "turned"),
    [
        (PipelinedTile(64, 32), (70, 40, 136), (False, True), BFLOAT, False),
        (PipelinedTile(64, 32), (72, 40, 200), (True, False), HALF, True),
        (PipelinedTile(128, 64, 2), (136, 70, 328), (True, True), BFLOAT, False),
        (PipelinedTile(128, 48), (130, 56, 192), (False, False), HALF, True),
        (PipelinedTile(64, 32, turns=True), (200, 40, 200), (False, True), BFLOAT, False),
        (PipelinedTile(128, 32, turns=True), (136, 104, 192), (True, False), HALF, True),
        (PipelinedTile(64, 32, boxes=True), (200, 40, 136), (False, True), HALF, False),
        (PipelinedTile(128, 64, boxes=True), (150, 136, 64), (False, False), BFLOAT, False),
        (PipelinedTile(64, 48), (40, 56, 40), (False, True), HALF, False),
        (PipelinedTile(64, 48), (40, 56, 24), (True, False), BFLOAT, True),
    ],
    ids=[
        "rows and columns", "columns and rows, turned", "columns, two an SM", "rows, turned",
        "warpgroups take turns", "128 rows each, turned", "boxes of 32", "boxes of 64",
        "a part of a step", "a part of a step, turned",
    ],
)  # fmt: skip
def test_tiles(
    tile: PipelinedTile, size: tuple[int, int, int], orders: Any, dtype: Any, turned: bool
) -> None:
    """Ragged tiles, more steps than stages, and more tiles than blocks."""
    m, n, k = size
    a, b = matrix(m, k, dtype, orders[0], 1), matrix(k, n, dtype, orders[1], 2)
    close(run("matmul", tile, turned, a, b, sms=1), a.double() @ b.double())


@pytest.mark.parametrize("k", [64, 328])
@pytest.mark.parametrize("splits", [1, 2])
def test_a_constant_weight_is_copied_early(splits: int, k: int) -> None:
    """Fewer steps than stages, and more; several tiles of a block."""
    a, b = matrix(9, k, HALF, False, 1), matrix(k, 150, HALF, True, 2)
    request = library.function("matmul").request(a, b, "fp32")
    made = product_of(request, MATMUL).transposed()
    early = dataclasses.replace(made, a=made.a._replace(constant=True))
    gpu = dataclasses.replace(H200, sms=1)
    with weft.sanitize():
        plan = pipelined.plan(early, PipelinedTile(64, 16, splits=splits), STAGES, gpu)
        close(runner(plan, 2, torch.device("cpu"))(a, b), a.double() @ b.double())


def test_parts_of_wider_matrices() -> None:
    """The last step of K is not whole, and what lies beside the parts is not read."""
    a, b = matrix(40, 144, HALF, False, 1), matrix(144, 48, HALF, True, 2)
    a[:, 137:], b[137:] = torch.nan, torch.nan
    a, b = a[:35, :137], b[:137, :41]
    close(run("matmul", PipelinedTile(64, 32), False, a, b), a.double() @ b.double())


@pytest.mark.parametrize("name", ["relu", "gelu", "gelu_tanh", "silu"])
def test_activations_are_as_precise_as_their_results(name: str) -> None:
    """Far from 0 as well, where the functions of float16 results could cancel."""
    a, b = 6 * matrix(64, 64, HALF, False, 1), torch.eye(64, dtype=HALF).T.contiguous().T
    function = {
        "relu": torch.relu,
        "silu": torch.nn.functional.silu,
        "gelu": torch.nn.functional.gelu,
        "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    }[name]
    a[0, :3] = torch.tensor([60000.0, -60000.0, -30.0])
    bias = torch.zeros(64, dtype=HALF)
    bias[63] = torch.nan
    got = run("addmm", PipelinedTile(64, 64), False, bias, a, b, name).double()
    assert got[:, 63].isnan().all()
    want = function(a[:, :63].double())
    torch.testing.assert_close(got[:, :63], want, rtol=1.5e-3, atol=1e-6)


@pytest.mark.parametrize(("n", "turned"), [(40, False), (37, False), (40, True), (37, True)])
def test_rows_of_results_begin_anywhere(n: int, turned: bool) -> None:
    a, b = matrix(20, 64, HALF, False, 3), matrix(64, n, HALF, True, 4)
    close(run("matmul", PipelinedTile(64, 32), turned, a, b), a.double() @ b.double())


@pytest.mark.parametrize(
    ("bm", "bn", "splits", "turned"),
    [(64, 32, 2, True), (64, 32, 4, False), (64, 16, 4, True), (192, 64, 3, False),
     (192, 80, 4, True)],
)  # fmt: skip
def test_blocks_of_a_cluster_share_k(bm: int, bn: int, splits: int, turned: bool) -> None:
    """The parts have different lengths; shares are of columns, and of rows; many replace stages."""
    a, b = matrix(9, 64 * 5, BFLOAT, False, 5), matrix(64 * 5, 72, BFLOAT, True, 6)
    bias = draw.seeded(7).normal((72,)).to(BFLOAT)
    tile = PipelinedTile(bm, bn, splits=splits)
    result = run("addmm", tile, turned, bias, a, b, "relu")
    close(result, (a.double() @ b.double() + bias.double()).clamp(min=0))


@pytest.mark.parametrize("turned", [False, True])
def test_a_bias_of_each_element_and_batches(turned: bool) -> None:
    tile = PipelinedTile(64, 32)
    a, b = matrix(24, 64, HALF, False, 8), matrix(64, 40, HALF, True, 9)
    bias = draw.seeded(10).normal((24, 40)).to(HALF)
    close(run("addmm", tile, turned, bias, a, b, ""), a.double() @ b.double() + bias.double())
    many = draw.seeded(11).normal((3, 24, 64)).to(HALF)
    shared = b[None].expand(3, 64, 40)
    close(run("matmul", tile, turned, many, shared), many.double() @ b.double())


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("schedule", ["first", "last"])
def test_each_tile_of_a_block_has_its_bias(turned: bool, schedule: str) -> None:
    """One block computes all tiles, the last ones beyond the edges."""
    a, b = matrix(72, 64, HALF, False, 12), matrix(64, 104, HALF, True, 13)
    bias = draw.seeded(14).normal((104,)).to(HALF)
    with weft.schedule(schedule):
        result = run("addmm", PipelinedTile(64, 48), turned, bias, a, b, "", sms=1)
    close(result, a.double() @ b.double() + bias.double())


@pytest.mark.parametrize(
    "tile",
    [
        PipelinedTile(64, 32), PipelinedTile(64, 32, splits=2), PipelinedTile(64, 32, turns=True),
        PipelinedTile(64, 32, boxes=True), PipelinedTile(128, 144, splits=2),
    ],
    ids=["whole K", "cluster", "turns", "boxes", "cluster, shares replace stages"],
)  # fmt: skip
def test_the_sanitizer_finds_nothing(tile: PipelinedTile) -> None:
    a, b = matrix(40, 336, HALF, False, 1), matrix(336, 48, HALF, True, 2)
    with weft.sanitize() as session:
        run("matmul", tile, False, a, b, sms=1)
    assert not session.findings


@pytest.mark.parametrize("columns", [45, 41, 20, 1])
def test_results_that_were_not_stored_are_not_read(columns: int) -> None:
    """Rows begin anywhere, and a part of 64 columns in shared memory is written to 48."""
    a, b = matrix(24, 64, HALF, False, 1), matrix(64, columns, HALF, True, 2)
    with weft.sanitize() as session:
        c = run("matmul", PipelinedTile(64, 48), False, a, b, sms=1)
    assert not session.findings
    close(c, a.double() @ b.double())


@pytest.mark.parametrize("schedule", ["last", "random:3"])
@pytest.mark.parametrize(
    "tile",
    [
        PipelinedTile(64, 32, splits=2),
        PipelinedTile(64, 32, turns=True),
        PipelinedTile(128, 144, splits=2),
        PipelinedTile(64, 32, boxes=True),
    ],
    ids=["cluster", "turns", "cluster, shares replace stages", "boxes"],
)
def test_every_schedule_gives_the_same(tile: PipelinedTile, schedule: str) -> None:
    a, b = matrix(40, 336, HALF, False, 1), matrix(336, 48, HALF, True, 2)
    plain = run("matmul", tile, False, a, b, sms=1)
    with weft.schedule(schedule):
        assert torch.equal(run("matmul", tile, False, a, b, sms=1), plain)


@pytest.mark.parametrize("tokens", [1, 16, 77, 700, 4096])
def test_layers_of_a_transformer_use_it(tokens: int) -> None:
    x, w = torch.empty(tokens, 4096, dtype=BFLOAT), torch.empty(6144, 4096, dtype=BFLOAT)
    assert "pipelined" in weft.ops.explain(weft.ops.linear, x, w).choice.used.name
