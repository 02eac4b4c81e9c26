"""embedding: rows by index, and gradients that do not depend on timing, against float64."""

from __future__ import annotations

from typing import Any

import pytest

import draw

torch = pytest.importorskip("torch")

import weft  # noqa: E402
from weft.ops.core import library  # noqa: E402
from weft.ops.families.embedding.model import block_of, lists_of, tables_of  # noqa: E402

F = torch.nn.functional
CASES = {
    "a matrix of indices": ((5, 7), 11, 8, torch.float32, None),
    "sorted positions": ((24600,), 97, 6, torch.float32, None),
    "sorted positions and padding": ((24600,), 200, 3, torch.bfloat16, -2),
    "listed positions": ((4100,), 97, 6, torch.float32, None),
    "listed positions and padding": ((4100,), 700, 3, torch.bfloat16, -2),
    "listed positions of few rows": ((5,), 3, 80, torch.float16, None),
    "listed positions, several tiles": ((9000,), 1111, 4, torch.float32, 5),
    "tables of blocks": ((4100,), 3, 6, torch.float32, None),
    "tables of blocks, padding": ((50, 90), 96, 40, torch.bfloat16, 2),
    "tables of blocks, several of a row": ((4097,), 7, 300, torch.float16, None),
    "tables of one row": ((5000,), 1, 5, torch.float32, None),
    "threads that share a row": ((1000,), 2, 6, torch.float32, None),
    "blocks of several rows": ((40,), 1500, 8, torch.float32, 3),
    "a row of several blocks": ((20,), 2, 80, torch.bfloat16, None),
    "padding": ((3, 200), 4, 40, torch.bfloat16, -1),
    "runs across the words of bits": ((130,), 3, 6, torch.bfloat16, -1),
    "columns that are no vectors": ((70,), 5, 3, torch.float32, 1),
    "a number": ((), 5, 8, torch.float32, None),
    "no indices": ((0,), 4, 8, torch.float32, None),
}
LIMITS = {torch.float32: 1e-6, torch.bfloat16: 1e-2, torch.float16: 1e-3}


def drawn(*shape: int, seed: int = 1) -> Any:
    return draw.seeded(seed).normal(shape)


def indices(*shape: int, rows: int) -> Any:
    return draw.seeded(2).integers(0, rows, shape)


@pytest.mark.parametrize("subject", CASES)
def test_rows_and_gradients(subject: str) -> None:
    shape, rows, columns, dtype, padding = CASES[subject]
    index, weight = indices(*shape, rows=rows), drawn(rows, columns).to(dtype)
    ours, theirs = weight.clone().requires_grad_(), weight.double().requires_grad_()
    y, true = weft.ops.embedding(index, ours, padding), F.embedding(index, theirs, padding)
    assert torch.equal(y.double(), true)
    dy = drawn(*y.shape, seed=3).to(dtype)
    y.backward(dy)
    true.backward(dy.double())
    size = theirs.grad.abs().max().item()
    torch.testing.assert_close(
        ours.grad.double(), theirs.grad, rtol=LIMITS[dtype], atol=LIMITS[dtype] * size
    )


@pytest.mark.parametrize(
    ("positions", "rows", "chunks", "block"),
    [
        (1539, 32, 1, (1, 16)),  # 48 positions of a row
        (2047, 1, 170, (8, 32)),  # columns are cut, to use more SMs
        (4000, 1000, 300, (256, 1)),
    ],
)
def test_block_of_the_gradient(
    positions: int, rows: int, chunks: int, block: tuple[int, ...]
) -> None:
    assert block_of(positions, rows, chunks, sms=132) == block


def test_gradient_of_one_frequent_row() -> None:
    """All positions are one block's, and those of a row are added in order."""
    index, dy = torch.full((5000,), 300), drawn(5000, 8)
    index[::7] = 44  # a row of the same block
    d = library.call("embedding_backward_unsorted")(dy, index, 1000, -1)
    want = torch.zeros(1000, 8, dtype=torch.float64).index_add_(0, index, dy.double())
    torch.testing.assert_close(d.double(), want, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("positions", "rows", "chunks", "lists"),
    [
        (11200, 50257, 192, (8, 192)),  # every block reads all indices
        (1024, 250880, 256, (11, 256)),  # few indices: more blocks share the work evenly
        (256, 30522, 96, (8, 96)),  # and few rows: blocks that start later would list again
        (5, 3, 640, (2, 10)),  # fewer rows than blocks: columns are cut
    ],
)
def test_blocks_that_list_positions(
    positions: int, rows: int, chunks: int, lists: tuple[int, int]
) -> None:
    assert lists_of(positions, rows, chunks) == lists


@pytest.mark.parametrize("others", [0, 5000])
def test_gradient_ignores_what_is_no_row(others: int) -> None:
    """The forward pass has asserted; the gradient must not write beside the table."""
    backward = library.call("embedding_backward_unsorted")
    dy = drawn(3 + others, 8)
    index = torch.cat([torch.tensor([1, 5, -2]), torch.full((others,), 4)])
    d = backward(dy, index, 4, -1)
    assert torch.equal(d[1], dy[0]) and not d[[0, 2, 3]].any()


@pytest.mark.parametrize(
    ("rows", "columns", "vector", "block"),
    [
        (2, 33, 1, (256, 1, 64)),
        (5, 116, 4, (256, 4, 32)),
        (10, 1000, 8, (256, 4, 256)),  # vectors of 8 are too many numbers
        (96, 64, 8, (128, 1, 64)),
    ],
)
def test_tables_of_the_gradient(
    rows: int, columns: int, vector: int, block: tuple[int, ...]
) -> None:
    assert tables_of(rows, columns, vector) == block


def test_layouts() -> None:
    """Strided indices and tables, misaligned ones, and 32-bit indices."""
    index, weight = indices(6, 4, rows=9), drawn(9, 8)
    y = weft.ops.embedding(index, weight)
    assert torch.equal(weft.ops.embedding(index.int(), weight), y)
    assert torch.equal(weft.ops.embedding(index.t().contiguous().t(), weight), y)
    assert torch.equal(weft.ops.embedding(index, weight.t().contiguous().t()), y)
    shifted = torch.empty(73)[1:].view(9, 8).copy_(weight)
    assert torch.equal(weft.ops.embedding(index, shifted), y)


@pytest.mark.parametrize(("count", "rows"), [(12, 4), (4100, 4), (4100, 100), (24600, 100)])
def test_second_derivative(count: int, rows: int) -> None:
    index, weight = indices(count, rows=rows), drawn(rows, 8).requires_grad_()
    results = []
    for function in (weft.ops.embedding, F.embedding):
        y = function(index, weight, 1)
        (dw,) = torch.autograd.grad(y.pow(3).sum(), weight, create_graph=True)
        results.append(torch.autograd.grad(dw.pow(2).sum(), weight)[0])
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-4)  # sums of many terms


@pytest.mark.parametrize("index", [-1, 4])
def test_index_out_of_range(index: int) -> None:
    with pytest.raises(weft.AssertFailed, match="an index must be"):
        weft.ops.embedding(torch.tensor([0, index]), drawn(4, 8))


REFUSED = {
    "floats": (lambda: (drawn(2), drawn(4, 8)), "dtype"),
    "doubles": (lambda: (indices(2, rows=4), drawn(4, 8).double()), "dtype"),
    "a vector": (lambda: (indices(2, rows=4), drawn(8)), "weight has 1 dimensions, expected 2"),
    "padding": (lambda: (indices(2, rows=4), drawn(4, 8), 4), "padding_idx is 4, expected -4 to 3"),
    "no rows": (lambda: (indices(2, rows=4), drawn(0, 8)), "expected at least one row"),
}


@pytest.mark.parametrize("subject", REFUSED)
def test_refused(subject: str) -> None:
    args, message = REFUSED[subject]
    with pytest.raises(weft.ArgumentError, match=message):
        weft.ops.embedding(*args())


def test_compiled() -> None:
    index, weight = indices(12, rows=4), drawn(4, 8)
    ours, theirs = (weight.clone().requires_grad_() for _ in range(2))
    function = torch.compile(
        lambda w: weft.ops.embedding(index, w).pow(2).sum(), backend="aot_eager", fullgraph=True
    )
    function(ours).backward()
    F.embedding(index, theirs).pow(2).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


def test_verified() -> None:
    assert weft.ops.embedding.verify(indices(6, rows=4), drawn(4, 8).requires_grad_()).passed


@pytest.mark.parametrize("count", [100, 4100])
def test_sanitized(count: int) -> None:
    """No kernel reads what nothing wrote, or races."""
    with weft.sanitize() as session:
        weight = drawn(3, 8).requires_grad_()
        weft.ops.embedding(indices(count, rows=3), weight).sum().backward()
    assert not session.findings
