"""Scans of the library against torch: every kernel, shapes, strides, gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft

torch = pytest.importorskip("torch")

from candidates import by, tensor  # noqa: E402
from weft.ops.core import library  # noqa: E402
from weft.ops.core.plan import COUNTERS, Counters, Pointer  # noqa: E402
from weft.ops.families.scan.op import reference  # noqa: E402
from weft.ops.sweep import run  # noqa: E402

SEED = 20


def same(got: Any, x: Any, dim: int, op: str, exclusive: bool, reverse: bool) -> None:
    """Holds a scan against torch's in double precision."""
    exact = x.double() if x.is_floating_point() else x
    want = reference(exact, dim, op, exclusive, reverse)
    assert got.dtype == reference(x, dim, op, exclusive, reverse).dtype
    steps = {torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 1e-2, torch.float64: 1e-14}
    if not x.is_floating_point():
        assert torch.equal(got, want)
        return
    size = float(exact.abs().sum(dim).max()) if op == "sum" else float(want[want.isfinite()].max())
    torch.testing.assert_close(got.double(), want, rtol=steps[x.dtype], atol=steps[x.dtype] * size)


# Kernel, shape, dtype, dim, operation, exclusive, reverse.
KERNELS = [
    ("2 threads per row", (5, 7), torch.float32, 1, "sum", False, False),
    ("64 threads per row", (3, 1003), torch.float16, 1, "sum", True, True),
    ("tiles of 256 x 2", (135001,), torch.int32, 0, "sum", False, True),  # more than one group
    ("short columns by 2", (2, 5, 14), torch.float16, 1, "sum", True, True),
    ("short columns by 1", (7, 21), torch.int32, 0, "max", False, False),
    ("short columns by 2", (2, 19, 6), torch.float16, 1, "sum", False, True),
    ("parts", (2, 600, 24), torch.float32, 1, "sum", False, False),
]
MORE = [
    ("32 threads per row", (2, 400), torch.float64, 1, "prod", False, False),
    ("tiles of 256 x 4", (2, 5601), torch.float32, 1, "sum", True, False),
    ("columns", (3, 50, 5), torch.bfloat16, 1, "max", False, False),
    ("32 x 1 columns", (20, 9, 3), torch.float16, 1, "sum", False, True),  # lanes of several rows
    ("2 x 4 columns, 8 warps along n, 5 parts", (4800, 8), torch.float32, 0, "sum", True, False),
    ("32 x 4 columns", (300, 160), torch.int32, 0, "sum", True, True),
]


def cases(rows: Any) -> Any:
    return pytest.mark.parametrize("row", rows, ids=lambda row: f"{row[0]} {row[2]}")


@cases([*KERNELS, *(pytest.param(row, marks=pytest.mark.slow) for row in MORE)])
def test_kernels(row: Any) -> None:
    name, shape, dtype, dim, *rest = row
    x = tensor(*shape, dtype=dtype)
    if rest[0] == "prod":
        x = 1 + x / 64
    same(by(name, "scan", x, dim, *rest), x, dim, *rest)


@pytest.mark.slow
@cases([*KERNELS, *MORE])
def test_sanitized(row: Any) -> None:
    name, shape, dtype, dim, *rest = row
    x = tensor(*shape, dtype=dtype)
    if rest[0] == "prod":
        x = 1 + x / 64
    with weft.sanitize():
        got = by(name, "scan", x, dim, *rest)
    same(got, x, dim, *rest)


def test_counters_are_left_at_zero() -> None:
    """Launches of one stream share them."""
    function, x = library.function("scan"), tensor(2, 2601)
    request = function.request(*function.bound((x,), {}))
    (step,) = (
        next(c for c in function.definition.candidates(request) if "tiles of 256 x 2" in c.name)
        .build()
        .steps
    )
    assert any(isinstance(a, Counters) for a in step.args)
    zeros, y = torch.zeros(COUNTERS, dtype=torch.int32), torch.empty_like(x)
    tensors = {Counters(): zeros, Pointer(0): x, Pointer(1): y}
    args = [tensors[a] if isinstance(a, Counters | Pointer) else a for a in step.args]
    step.kernel[step.grid, step.block](*args)
    assert not zeros.any()
    same(y, x, 1, "sum", False, False)


def test_strides() -> None:
    """Transposed tensors keep their memory order; others are read with gaps, or copied."""
    wide = tensor(40, 7)
    for x, dim in ((wide.t(), 0), (wide[:, :6], 1), (wide[3:, 1:], 1), (wide[::3, ::2].t(), 1)):
        same(weft.ops.cumsum(x, dim), x, dim, "sum", False, False)
    assert weft.ops.cumsum(wide.t(), 0).stride() == wide.t().stride()


def test_misaligned() -> None:
    x = tensor(7)[1:]
    same(weft.ops.cumsum(x, 0), x, 0, "sum", False, False)


def test_no_elements_and_one() -> None:
    for shape, dim in (((0,), 0), ((3, 0), 1), ((0, 4), 1)):
        got = weft.ops.cumsum(tensor(*shape), dim)
        assert got.shape == shape
    number = torch.tensor(3.5)
    assert weft.ops.cumsum(number, 0).tolist() == 3.5
    assert weft.ops.cumsum(tensor(6, 1), 1).equal(tensor(6, 1))


def test_integers_wrap() -> None:
    big = torch.full((3,), 2**62)
    assert weft.ops.cumsum(big, 0).equal(torch.cumsum(big, 0))
    assert weft.ops.scan(big, exclusive=True).equal(torch.tensor([0, 2**62, -(2**63)]))


@pytest.mark.slow
def test_booleans_and_nan() -> None:
    flags = torch.tensor([True, False, True])
    assert weft.ops.cumsum(flags, 0).tolist() == [1, 1, 2]
    found = weft.ops.cummax(torch.tensor([1.0, float("nan"), 3.0]), 0)
    assert found.isnan().tolist() == [False, True, True]


@pytest.mark.slow
@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda x: weft.ops.cumsum(x, 1), id="cumsum"),
        pytest.param(lambda x: weft.ops.scan(x, 1, "sum", True, True), id="exclusive"),
        pytest.param(lambda x: weft.ops.cumprod(x, 1), id="cumprod"),
        pytest.param(lambda x: weft.ops.cummax(x, 1), id="cummax"),
    ],
)
def test_gradients(call: Callable[[Any], Any]) -> None:
    x = tensor(2, 5).double().requires_grad_()
    assert torch.autograd.gradcheck(call, x)


@pytest.mark.parametrize(
    ("op", "rest"),
    [
        ("cumsum", (1,)),
        ("scan", ()),
        pytest.param("cumprod", (1,), marks=pytest.mark.slow),
        pytest.param("cummax", (1,), marks=pytest.mark.slow),
    ],
)
def test_verify(op: str, rest: Any) -> None:
    assert getattr(weft.ops, op).verify(tensor(2, 5).requires_grad_(), *rest).passed


def test_batches() -> None:
    x = tensor(3, 5)
    assert torch.vmap(lambda row: weft.ops.cumsum(row, 0))(x).allclose(x.cumsum(1))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: weft.ops.cumsum(tensor(3), 1), "weft.ops.cumsum: there is no such dimension"),
        (lambda: weft.ops.scan(tensor(3), op="min"), "allowed: 'sum', 'prod', 'max'"),
        (lambda: weft.ops.cummax(tensor(3) > 0, 0), "got: torch.bool"),
    ],
)
def test_messages(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(weft.ArgumentError) as caught:
        call()
    assert words in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("op", ["cumsum", "cumprod", "cummax", "scan"])
def test_sweep(op: str) -> None:
    """Calls that a seed draws, as the sweep on a GPU does, at small sizes."""
    print(f"seed {SEED}")
    (case,) = run.cases([op])
    for i, call in enumerate(run.calls(case, SEED, 12, 4000)):
        if i % 4:
            result, _ = run.check(case, call, "cpu", SEED)
        else:
            with weft.sanitize():
                result, _ = run.check(case, call, "cpu", SEED)
        assert result.right, result
