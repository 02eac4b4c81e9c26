"""Kernels for products of special shapes, each asked for by name: any layout, against float64."""

from __future__ import annotations

from typing import Any

import pytest

import draw

torch = pytest.importorskip("torch")

import weft  # noqa: E402
from weft.ops.core import library  # noqa: E402
from weft.ops.core.plan import Pointer  # noqa: E402
from weft.ops.core.runner import runner  # noqa: E402
from weft.ops.families.matmul.product import Operand, side  # noqa: E402

LIMITS = {torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 6e-3}
"""Norms of errors, relative to the norm of the result."""
half, bfloat, single = torch.float16, torch.bfloat16, torch.float32


def matrix(rows: int, columns: int, dtype: Any, by_columns: bool, seed: int, batch: int = 1) -> Any:
    """A batch of matrices whose columns are contiguous if `by_columns`."""
    lead = (batch,) if batch > 1 else ()
    shape = (*lead, columns, rows) if by_columns else (*lead, rows, columns)
    made = draw.seeded(seed).normal(shape).to(dtype)
    return made.mT if by_columns else made


def close(found: Any, true: Any) -> None:
    limit = LIMITS[found.dtype]
    assert found.shape == true.shape
    assert (found.double() - true).norm() <= limit * true.norm()


def run(name: str, a: Any, b: Any, bias: Any = None, activation: str = "") -> Any:
    """The product by the candidate of this name."""
    op = "matmul" if bias is None else "addmm"
    inputs = (a, b) if bias is None else (bias, a, b)
    function = library.function(op)
    options = ("fp32",) if bias is None else (activation, "fp32")
    candidates = function.definition.candidates(function.request(*inputs, *options))
    plan = next(c for c in candidates if c.name == name).build()
    return runner(plan, len(inputs), a.device)(*inputs)


ORDERS = [(False, False), (True, False), (False, True), (True, True)]
ORDER_NAMES = ["by rows", "a by columns", "b by columns", "both by columns"]


# ---- unaligned rows ----------------------------------------------------------------------------
@pytest.mark.parametrize(("a_by_columns", "b_by_columns"), ORDERS, ids=ORDER_NAMES)
def test_unaligned(a_by_columns: bool, b_by_columns: bool) -> None:
    """Rows that begin at any element, of a batch, and tiles that are cut off."""
    a = matrix(37, 45, half, a_by_columns, 1, batch=2)
    b = matrix(45, 35, half, b_by_columns, 2, batch=2)
    close(run("unaligned 32 x 32", a, b), a.double() @ b.double())


def test_unaligned_parts_with_a_bias() -> None:
    """Operands in the middle of wider matrices, the last one up to the end of its memory."""
    a, b = matrix(40, 40, bfloat, False, 1)[:35, 3:34], matrix(31, 81, bfloat, False, 2)[:, 11:]
    bias = matrix(35, 70, bfloat, False, 3)
    true = torch.relu(a.double() @ b.double() + bias.double())
    close(run("unaligned 32 x 64", a, b, bias, "relu"), true)


def test_a_single_row_is_read_in_whole_copies() -> None:
    """Its memory may end inside of 16 bytes, and compute-sanitizer reports such a copy."""
    row = Operand(Pointer(0), along=0, k=1, batch=0, base=16)
    assert side(row, 1, 5).bytes == 2 and side(row, 1, 6).bytes == 4
    assert side(row, 1, 8).bytes == 16 and side(row._replace(along=8), 3, 5).bytes == 16


def test_candidates_for_unaligned_rows() -> None:
    odd, even = matrix(605, 91, half, False, 1), matrix(640, 96, half, False, 1)
    for a, wanted in ((odd, True), (even, False)):
        explained = weft.ops.explain(weft.ops.matmul, a, a.t().contiguous())
        names = [c.name for c in (explained.choice.used, *explained.choice.others)]
        assert any(n.startswith("unaligned") for n in names) == wanted
        assert explained.choice.used.name.startswith("unaligned") == wanted


# ---- a whole K at once -------------------------------------------------------------------------
@pytest.mark.parametrize(("a_by_columns", "b_by_columns"), ORDERS, ids=ORDER_NAMES)
def test_whole_k(a_by_columns: bool, b_by_columns: bool) -> None:
    """Whole vectors of a batch, and tiles that are cut off."""
    a = matrix(72, 40, half, a_by_columns, 1, batch=2)
    b = matrix(40, 56, half, b_by_columns, 2, batch=2)
    for tile in ("64 x 64", "32 x 32"):
        close(run(f"{tile}, whole K", a, b), a.double() @ b.double())


def test_whole_k_with_a_bias() -> None:
    """Parts of wider matrices, results whose rows begin anywhere, and a bias of columns or all."""
    a, b = matrix(70, 96, bfloat, False, 1)[:, :75], matrix(75, 40, bfloat, False, 2)[:, :33]
    for bias in (matrix(70, 33, bfloat, False, 3), matrix(1, 33, bfloat, False, 4)):
        true = torch.relu(a.double() @ b.double() + bias.double())
        for tile in ("128 x 64", "64 x 16"):
            close(run(f"{tile}, whole K", a, b, bias, "relu"), true)


def test_small_convolutions_of_one_tap_have_their_whole_k() -> None:
    """And large ones do not, as their blocks need several waves."""
    for batch, wanted in ((4, True), (512, False)):
        x = torch.empty(batch, 40, 28, 28, dtype=half).to(memory_format=torch.channels_last)
        w = torch.empty(120, 40, 1, 1, dtype=half).to(memory_format=torch.channels_last)
        name = weft.ops.explain(weft.ops.conv2d, x, w).choice.used.name
        assert name.endswith("whole K") == wanted


# ---- skinny N ----------------------------------------------------------------------------------
SKINNY_N = {
    "one term": (lambda: (matrix(300, 1, single, False, 1), matrix(1, 6, single, False, 2))),
    "whole vectors": (lambda: (matrix(519, 8, half, False, 1), matrix(8, 5, half, True, 2))),
    "a batch": (
        lambda: (matrix(257, 3, bfloat, False, 1, batch=3), matrix(3, 2, bfloat, False, 2, batch=3))
    ),
    "by columns": (lambda: (matrix(261, 7, single, True, 1), matrix(7, 9, single, False, 2))),
    "parts": (lambda: (matrix(260, 9, single, False, 1)[:, 2:7], matrix(5, 4, single, False, 2))),
    "few rows": (lambda: (matrix(4, 5, single, False, 1), matrix(5, 300, single, True, 2))),
}


@pytest.mark.parametrize("subject", SKINNY_N)
def test_skinny_n(subject: str) -> None:
    a, b = SKINNY_N[subject]()
    close(run("skinny N", a, b), a.double() @ b.double())


def test_skinny_n_with_a_bias() -> None:
    a, b, bias = (
        matrix(*x)
        for x in ((270, 6, single, False, 1), (6, 3, single, True, 2), (270, 3, single, False, 3))
    )
    for one in (bias, bias[:1]):
        true = torch.nn.functional.silu((a.double() @ b.double()) + one.double())
        close(run("skinny N", a, b, one, "silu"), true)


def test_skinny_n_is_for_many_rows_of_few_columns() -> None:
    x, w = torch.empty(90000, 18, dtype=half), torch.empty(10, 18, dtype=half)
    assert weft.ops.explain(weft.ops.linear, x, w).choice.used.name == "skinny N"
    wide = torch.empty(512, 18, dtype=half)
    assert weft.ops.explain(weft.ops.linear, x, wide).choice.used.name != "skinny N"


def test_sanitized() -> None:
    """No kernel reads what nothing wrote, or races."""
    with weft.sanitize() as session:
        run("unaligned 32 x 32", matrix(33, 21, half, False, 1), matrix(21, 19, half, False, 2))
        run("skinny N", matrix(257, 3, half, False, 1), matrix(3, 2, half, False, 2))
        run("64 x 32, whole K", matrix(70, 40, half, False, 1), matrix(40, 24, half, False, 2))
        run("32 x 32, whole K", matrix(40, 72, half, True, 1), matrix(72, 32, half, True, 2))
    assert not session.findings


@pytest.mark.parametrize(
    ("name", "size", "dtype"),
    [
        ("dots", (3, 41, 1030), bfloat),
        ("dots, 2 warps a column", (1, 37, 700), single),
        ("dots, 8 warps a column, K in 2", (8, 19, 4096), single),
    ],
)
def test_warps_share_a_column(name: str, size: tuple[int, int, int], dtype: Any) -> None:
    """Columns and vectors of K that do not divide evenly, and parts of K in other blocks."""
    m, n, k = size
    a, b = matrix(m, k, dtype, False, 1), matrix(k, n, dtype, True, 2)
    bias = matrix(1, n, dtype, False, 3)[0]
    with weft.sanitize() as session:
        got = run(name, a, b, bias, "relu")
    assert not session.findings
    close(got, (a.double() @ b.double() + bias.double()).clamp(min=0))


@pytest.mark.parametrize(
    ("columns", "k", "dtype", "name"),
    [
        (4096, 14336, single, "dots, 4 warps a column"),
        (4096, 14336, bfloat, "64 x 16, turned, K in 2, pipelined"),
        (4096, 4096, single, "dots, 4 warps a column"),
    ],
)
def test_one_row_takes_what_the_record_has_ahead(
    columns: int, k: int, dtype: Any, name: str
) -> None:
    """The kernels that lead in benchmarks/records/short_calls.jsonl, or are 1 % behind."""
    x, w = torch.empty(1, k, dtype=dtype), torch.empty(columns, k, dtype=dtype)
    assert weft.ops.explain(weft.ops.matmul, x, w.T).choice.used.name == name
