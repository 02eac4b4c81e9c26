"""Products of CSR and BSR matrices with dense ones: every kernel, gradients and refusals."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

import draw
import weft

torch = pytest.importorskip("torch")

from weft.ops.core import library  # noqa: E402
from weft.ops.core.runner import runner  # noqa: E402
from weft.ops.core.target import named  # noqa: E402
from weft.ops.families.sparse import pipelined_blocks  # noqa: E402
from weft.ops.families.sparse.block_call import block_call  # noqa: E402
from weft.ops.families.sparse.csr import _vector  # noqa: E402
from weft.ops.families.sparse.indices import MOST_COLUMNS  # noqa: E402
from weft.ops.families.sparse.model import CSR_LONG, PipelinedBlockTile  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:Sparse ... tensor support:UserWarning")
FLOAT, HALF, BFLOAT = torch.float32, torch.float16, torch.bfloat16
PRECISION = {FLOAT: 1e-6, HALF: 6e-4, BFLOAT: 4e-3}


def close(result: Any, want: Any) -> None:
    assert (result.double() - want).norm() <= PRECISION[result.dtype] * want.norm()


# ---- CSR -----------------------------------------------------------------------------------------
def csr(lengths: list[int], columns: int, dtype: Any, index: Any) -> tuple[Any, Any, Any, Any]:
    """(crow, col, values, whole matrix) of rows with so many nonzeros."""
    whole = torch.zeros(len(lengths), columns, dtype=dtype)
    generator = draw.seeded(columns + len(lengths))
    for row, length in enumerate(lengths):
        order = generator.uniform(columns).argsort()[:length]
        whole[row, order] = generator.normal(length).to(dtype) + 8
    made = whole.to_sparse_csr()
    return made.crow_indices().to(index), made.col_indices().to(index), made.values(), whole


@pytest.mark.parametrize(
    ("dtype", "index", "columns"),
    [(FLOAT, torch.int64, 40), (BFLOAT, torch.int32, 33)],
    ids=["float32", "bfloat16, any columns"],
)
def test_rows_of_all_lengths(dtype: Any, index: Any, columns: int) -> None:
    """Empty rows, short ones, and one that all warps share."""
    lengths = [3, 0, CSR_LONG + 60, 33, *range(16)]
    crow, col, values, whole = csr(lengths, CSR_LONG + 80, dtype, index)
    dense = draw.seeded(1).normal((whole.shape[1], columns)).to(dtype)
    with weft.sanitize():
        got = weft.ops.csr_mm(crow, col, values, dense)
    close(got, whole.double() @ dense.double())
    assert not got[1].any()


def test_nonzeros_alone_count() -> None:
    """Rows that no nonzero names are not read: 0 times infinity is no number."""
    crow, col, values, whole = csr([2, 1], 16, FLOAT, torch.int64)
    dense = draw.seeded(2).normal((16, 4))
    named_rows = whole.any(0)
    dense[~named_rows] = torch.inf
    got = weft.ops.csr_mm(crow, col, values, dense)
    close(got, whole[:, named_rows].double() @ dense[named_rows].double())


def test_columns_of_a_lane() -> None:
    assert [_vector(n, 4) for n in (1, 32, 64, 66, 128, 4096, 4097)] == [1, 1, 2, 2, 4, 4, 1]
    assert _vector(4096, 2) == 8


def test_no_nonzeros_and_no_elements() -> None:
    crow, col = torch.zeros(3, dtype=torch.int64), torch.zeros(0, dtype=torch.int64)
    assert not weft.ops.csr_mm(crow, col, torch.ones(0), torch.ones(5, 6)).any()
    assert weft.ops.csr_mm(crow[:1], col, torch.ones(0), torch.ones(5, 6)).shape == (0, 6)
    none = weft.ops.block_sparse_mm(crow, col, torch.ones(0, 16, 16), torch.ones(32, 0))
    assert none.shape == (32, 0)


def test_an_index_that_is_outside_fails() -> None:
    with pytest.raises(weft.AssertFailed):
        weft.ops.csr_mm(torch.tensor([0, 1]), torch.tensor([7]), torch.ones(1), torch.ones(7, 4))


def test_gradient_of_a_csr_product() -> None:
    crow, col, values, whole = csr([3, 0, 5, 9], 12, FLOAT, torch.int64)
    dense = draw.seeded(3).normal((12, 8)).requires_grad_()
    upstream = draw.seeded(4).normal((4, 8))
    weft.ops.csr_mm(crow, col, values, dense).backward(upstream)
    close(dense.grad, whole.double().T @ upstream.double())


# ---- blocks --------------------------------------------------------------------------------------
def bsr(kept: list[list[int]], across: int, size: int, dtype: Any) -> tuple[Any, Any, Any, Any]:
    """(crow, col, values, whole matrix) of rows of blocks in these columns."""
    counts = torch.tensor([0, *(len(row) for row in kept)])
    col = torch.tensor([c for row in kept for c in row], dtype=torch.int64)
    values = draw.seeded(size).normal((len(col), size, size)).to(dtype)
    whole = torch.zeros(len(kept), size, across, size, dtype=dtype)
    rows = [row for row, columns in enumerate(kept) for _ in columns]
    for row, column, block in zip(rows, col.tolist(), values, strict=True):
        whole[row, :, column] = block
    return counts.cumsum(0), col, values, whole.reshape(len(kept) * size, across * size)


KEPT = [[0, 2], [], [1], [0, 1, 2]]


@pytest.mark.parametrize(
    ("dtype", "size", "columns"),
    [(HALF, 16, 136), (BFLOAT, 64, 72), (HALF, 32, 35), (FLOAT, 32, 40), (FLOAT, 128, 37),
     pytest.param(BFLOAT, 128, 24, marks=pytest.mark.slow)],
)  # fmt: skip
def test_blocks(dtype: Any, size: int, columns: int) -> None:
    """Rows without blocks, parts of tiles, columns that are no whole vectors."""
    crow, col, values, whole = bsr(KEPT if size < 128 else KEPT[:2], 3, size, dtype)
    dense = draw.seeded(5).normal((whole.shape[1], columns)).to(dtype)
    with weft.sanitize():
        got = weft.ops.block_sparse_mm(crow, col, values, dense)
    close(got, whole.double() @ dense.double())


@pytest.mark.parametrize(
    ("tile", "dtype", "columns", "schedule"),
    [
        (PipelinedBlockTile(64, 64, 2), BFLOAT, 72, "first"),
        (PipelinedBlockTile(128, 64, 3), HALF, 40, "last"),
    ],
)
def test_blocks_on_hopper(
    tile: PipelinedBlockTile, dtype: Any, columns: int, schedule: str
) -> None:
    """More steps than stages, rows without blocks, parts of tiles."""
    crow, col, values, whole = bsr(KEPT if tile.size < 128 else KEPT[:2], 3, tile.size, dtype)
    dense = draw.seeded(9).normal((whole.shape[1], columns)).to(dtype)
    given = crow, col, values, dense
    plan = pipelined_blocks.plan(
        block_call(library.function("block_sparse_mm").request(*given)), tile
    )
    with weft.sanitize(), weft.schedule(schedule):
        got = runner(plan, 4, torch.device("cpu"))(*given)
    close(got, whole.double() @ dense.double())


def test_hopper_takes_whole_vectors() -> None:
    """It has them for two numbers of columns, and for sizes of blocks that have a warpgroup."""
    names = {}
    for size, columns in ((64, 64), (64, 60), (32, 64)):
        crow, col, values, whole = bsr(KEPT, 3, size, HALF)
        request = library.function("block_sparse_mm").request(
            crow, col, values, whole[: 3 * size, :columns]
        )
        found = pipelined_blocks.candidates(block_call(request), named("sim:h200"))
        names[size, columns] = [c.name for c in found]
    assert names == {
        (64, 64): ["64 x 128, pipelined", "64 x 256, pipelined"],
        (64, 60): [],
        (32, 64): [],
    }


def test_a_tensor_of_torch() -> None:
    _, _, _, whole = bsr(KEPT, 3, 32, FLOAT)
    sparse, dense = whole.to_sparse_bsr((32, 32)), draw.seeded(6).normal((96, 40))
    got = weft.ops.block_sparse_mm(
        sparse.crow_indices(), sparse.col_indices(), sparse.values(), dense
    )
    close(got, whole.double() @ dense.double())


def test_gradient_of_a_block_product() -> None:
    crow, col, values, whole = bsr(KEPT, 3, 32, FLOAT)
    dense = draw.seeded(7).normal((96, 40)).requires_grad_()
    upstream = draw.seeded(8).normal((128, 40))
    weft.ops.block_sparse_mm(crow, col, values, dense).backward(upstream)
    close(dense.grad, whole.double().T @ upstream.double())


# ---- refusals ------------------------------------------------------------------------------------
def _csr(**changes: Any) -> Any:
    given = {
        "crow_indices": torch.tensor([0, 1]),
        "col_indices": torch.tensor([0]),
        "values": torch.ones(1),
        "dense": torch.ones(4, 4),
    }
    return weft.ops.csr_mm(**given | changes)


def _blocks(**changes: Any) -> Any:
    given = {
        "crow_indices": torch.tensor([0, 1]),
        "col_indices": torch.tensor([0]),
        "values": torch.ones(1, 16, 16),
        "dense": torch.ones(16, 4),
    }
    return weft.ops.block_sparse_mm(**given | changes)


def _with_gradient(call: Callable[..., Any], *shape: int) -> None:
    call(values=torch.ones(shape, requires_grad=True)).sum().backward()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: _csr(values=torch.ones(1, dtype=torch.float64)), "got: torch.float64"),
        (lambda: _csr(col_indices=torch.ones(1)), "'col_indices' has a dtype"),
        (lambda: _csr(values=torch.ones(2)), "no sparse matrix and a dense one"),
        (lambda: _csr(dense=torch.ones(4)), "dense [K, N]"),
        (lambda: _csr(col_indices=torch.tensor([0]).int()), "the tensors have different dtypes"),
        (lambda: _csr(dense=torch.ones(1, 1).expand(1, MOST_COLUMNS + 1)), "too many columns"),
        (lambda: _with_gradient(_csr, 1), "there is no gradient of values"),
        (lambda: _blocks(values=torch.ones(1)), "values [n, size, size]"),
        (lambda: _blocks(values=torch.ones(1, 48, 48)), "got: 48 x 48"),
        (lambda: _blocks(dense=torch.ones(24, 4)), "24 rows, blocks of 16"),
        (lambda: _with_gradient(_blocks, 1, 16, 16), "there is no gradient of values"),
    ],
)
def test_messages(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(weft.ArgumentError) as caught:
        call()
    assert words in str(caught.value)


def test_blocks_of_16_bits_need_their_tensor_cores() -> None:
    function = library.function("block_sparse_mm")
    crow, col, values, whole = bsr(KEPT, 3, 16, HALF)
    request = function.request(crow, col, values, whole[:48])
    old = dataclasses.replace(named("sim:h200"), capability=(7, 5))
    with pytest.raises(weft.ArgumentError, match=r"compute capability 7\.5"):
        function.definition.candidates(dataclasses.replace(request, target=old))
