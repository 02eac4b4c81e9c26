"""Products with 2:4 sparse weights: every kernel, their edges, gradients and refusals."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

import draw
import weft

torch = pytest.importorskip("torch")

from candidates import by  # noqa: E402
from weft.ops.core import library  # noqa: E402
from weft.ops.core.runner import runner  # noqa: E402
from weft.ops.core.target import named  # noqa: E402
from weft.ops.families.sparse import pipelined  # noqa: E402
from weft.ops.families.sparse.call import sparse_call  # noqa: E402
from weft.ops.families.sparse.linear import candidates  # noqa: E402
from weft.ops.families.sparse.model import SparsePipelinedTile  # noqa: E402

HALF, BFLOAT = torch.float16, torch.bfloat16
H200 = named("sim:h200")
STAGES = 3
"""Few, so that a small product goes around the ring."""


def operands(features: int, rows: int, k: int, dtype: Any) -> tuple[Any, Any, Any, Any]:
    """(whole weight, compressed weight, x, bias)."""
    weight = weft.sparse.prune(draw.seeded(features + k).normal((features, k)).to(dtype))
    x, bias = (
        draw.seeded(rows + k + i).normal(s).to(dtype)
        for i, s in enumerate([(rows, k), (features,)])
    )
    return weight, weft.sparse.compress(weight), x, bias


def run(tile: SparsePipelinedTile, *given: Any, sms: int = 132) -> Any:
    """The result of a tile on Hopper."""
    gpu = dataclasses.replace(H200, sms=sms)
    call = sparse_call(library.function("sparse_linear").request(*given))
    plan = pipelined.plan(call, tile, STAGES, gpu)
    return runner(plan, len(given), torch.device("cpu"))(*given)


def close(result: Any, want: Any) -> None:
    error = (result.double() - want).norm() / want.norm()
    assert error < (4e-3 if result.dtype == BFLOAT else 6e-4)


@pytest.mark.parametrize(
    ("tile", "size", "dtype", "biased"),
    [
        (SparsePipelinedTile(64, 16), (72, 40, 336), HALF, True),
        (SparsePipelinedTile(128, 32, 2), (101, 40, 208), BFLOAT, False),
        (SparsePipelinedTile(192, 16), (136, 9, 64), HALF, True),
    ],
    ids=["ragged", "a block of a cluster without rows", "three warpgroups, one step"],
)
def test_tiles(tile: SparsePipelinedTile, size: Any, dtype: Any, biased: bool) -> None:
    """Ragged tiles, a part of a step of K, more steps than stages, more tiles than blocks."""
    weight, compressed, x, bias = operands(*size, dtype)
    want = x.double() @ weight.double().T
    given = x, compressed.values, compressed.metadata, bias if biased else None
    close(run(tile, *given, sms=tile.cluster), want + bias.double() if biased else want)


@pytest.mark.parametrize("schedule", ["first", "last"])
def test_blocks_of_a_cluster_share_rows_of_x(schedule: str) -> None:
    """Two tiles of one cluster, in every order of its warps."""
    weight, compressed, x, _ = operands(256, 40, 336, HALF)
    with weft.schedule(schedule):
        got = run(
            SparsePipelinedTile(128, 32, 2), x, compressed.values, compressed.metadata, None, sms=2
        )
    close(got, x.double() @ weight.double().T)


@pytest.mark.parametrize("tile", [SparsePipelinedTile(64, 16), SparsePipelinedTile(64, 16, 2)])
def test_pipelined_under_the_sanitizer(tile: SparsePipelinedTile) -> None:
    weight, compressed, x, bias = operands(72, 20, 272, HALF)
    with weft.sanitize():
        got = run(tile, x, compressed.values, compressed.metadata, bias, sms=tile.cluster)
    close(got, x.double() @ weight.double().T + bias.double())


@pytest.mark.parametrize(
    ("name", "features", "dtype"), [("128 x 128, warps", 130, BFLOAT), ("64 x 32, warps", 72, HALF)]
)
def test_warps(name: str, features: int, dtype: Any) -> None:
    weight, compressed, x, bias = operands(features, 37, 336, dtype)
    given = x, compressed.values, compressed.metadata
    with weft.sanitize():
        close(
            by(name, "sparse_linear", *given, bias), x.double() @ weight.double().T + bias.double()
        )


def test_any_strides_of_x() -> None:
    """Rows that a kernel reads as they lie, and rows that must be copied first."""
    weight, compressed, x, _ = operands(24, 12, 64, HALF)
    wide = torch.cat([x, x], 1)[:, :64].reshape(3, 4, 64)
    turned = x.T.contiguous().T
    want = x.double() @ weight.double().T
    for given in (wide, turned):
        got = weft.ops.sparse_linear(given, compressed.values, compressed.metadata)
        assert got.shape == (*given.shape[:-1], 24)
        close(got.reshape(12, 24), want)
    empty = weft.ops.sparse_linear(x[:0], compressed.values, compressed.metadata)
    assert empty.shape == (0, 24)


def test_gradients() -> None:
    """Those of x, kept elements and bias are compared with products of the whole weight."""
    weight, compressed, x, bias = operands(24, 20, 64, BFLOAT)
    given = [t.clone().requires_grad_() for t in (x, compressed.values, bias)]
    upstream = draw.seeded(3).normal((20, 24)).to(BFLOAT)
    weft.ops.sparse_linear(given[0], given[1], compressed.metadata, given[2]).backward(upstream)
    wide = [t.double().requires_grad_() for t in (x, weight, bias)]
    torch.nn.functional.linear(*wide).backward(upstream.double())
    kept = library.call("sparse_select")(wide[1].grad.float(), compressed.metadata)
    for got, want in zip(given, (wide[0].grad, kept.double(), wide[2].grad), strict=True):
        close(got.grad, want)


@pytest.mark.parametrize("dtype", [torch.float32, HALF])
def test_kept_elements_are_taken_and_put_back(dtype: Any) -> None:
    weight, compressed, _, _ = operands(70, 1, 80, dtype)
    full = draw.seeded(5).normal((70, 80)).to(dtype).requires_grad_()
    with weft.sanitize():
        taken = library.call("sparse_select")(full, compressed.metadata)
    assert torch.equal(
        library.call("sparse_select")(weight, compressed.metadata), compressed.values
    )
    assert torch.equal(
        library.call("sparse_expand")(compressed.values, compressed.metadata), weight
    )
    taken.sum().backward()
    places = library.call("sparse_expand")(torch.ones_like(compressed.values), compressed.metadata)
    assert torch.equal(full.grad, places)


def test_other_gpus_are_refused() -> None:
    _, compressed, x, _ = operands(24, 4, 64, HALF)
    request = library.function("sparse_linear").request(x, compressed.values, compressed.metadata)
    old = dataclasses.replace(request, target=dataclasses.replace(H200, capability=(7, 5)))
    with pytest.raises(weft.ArgumentError, match=r"compute capability 7\.5") as caught:
        candidates(old)
    assert "weft.ops.linear(x, weight.dense())" in str(caught.value)


def _call(x: Any = None, values: Any = None, metadata: Any = None, bias: Any = None) -> Any:
    """A call with some arguments that do not fit."""
    _, compressed, given, _ = operands(8, 4, 32, HALF)
    return weft.ops.sparse_linear(
        given if x is None else x,
        compressed.values if values is None else values,
        compressed.metadata if metadata is None else metadata,
        bias,
    )


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: _call(x=torch.ones(4, 32)), "got: torch.float32"),
        (lambda: _call(x=torch.ones(4, 32, dtype=BFLOAT)), "x and values have different dtypes"),
        (lambda: _call(x=torch.ones(4, 48, dtype=HALF)), "x and values have incompatible shapes"),
        (lambda: _call(values=torch.ones(8, 12, dtype=HALF)), "a shape of no 2:4 sparse matrix"),
        (lambda: _call(metadata=torch.ones(1, 1, 64).int()), "metadata does not fit values"),
        (lambda: _call(bias=torch.ones(7, dtype=HALF)), "bias has another shape or dtype"),
    ],
)
def test_messages(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(weft.ArgumentError) as caught:
        call()
    assert words in str(caught.value)


@pytest.mark.parametrize(("op", "k"), [("sparse_select", 40), ("sparse_expand", 20)])
def test_shapes_that_are_not_sparse_are_refused(op: str, k: int) -> None:
    with pytest.raises(weft.ArgumentError, match="a shape of no 2:4 sparse matrix"):
        library.call(op)(torch.ones(4, k), torch.ones(1, 1, 128, dtype=torch.int32))
