"""softmax and log_softmax: kernels of special shapes, and backward passes, against float64."""

from __future__ import annotations

from typing import Any

import pytest

import draw

torch = pytest.importorskip("torch")

import weft  # noqa: E402
from weft.ops.core import library  # noqa: E402
from weft.ops.core.runner import runner  # noqa: E402

SHAPES = {
    "a vector": ((7,), 0),
    "a number": ((), -1),
    "rows": ((3, 33), 1),
    "rows of one element": ((5, 1), 1),
    "rows of several warps": ((2, 1000), 1),
    "rows in two passes": ((1, 20_000), 1),
    "columns": ((2, 3, 70), 1),
    "columns in two passes": ((1, 3000, 3), 1),
    "no rows": ((0, 4), 1),
}
PAIRS = {"softmax": torch.softmax, "log_softmax": torch.log_softmax}
LIMITS = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
CASES = [
    *(("softmax", subject, torch.float32) for subject in SHAPES),
    ("log_softmax", "rows", torch.float16),  # the code of the passes is the same for all dtypes
    ("log_softmax", "columns in two passes", torch.bfloat16),
]


def drawn(shape: tuple[int, ...], seed: int) -> Any:
    return draw.seeded(seed).normal(shape)


# ---- forward -----------------------------------------------------------------------------------
FORWARD = {
    "short columns": (lambda: drawn((3, 5, 70), 1), 1, "short columns"),
    "short columns of halves": (lambda: drawn((2, 3, 24), 1).half(), 1, "short columns"),
    "misaligned short columns": (lambda: drawn((43,), 1)[1:].view(2, 21), 0, "short columns"),
    "rows of three dimensions with gaps": (lambda: drawn((4, 5, 9), 1)[..., :6], 2, "rows"),
    "staged rows of halves": (lambda: drawn((70, 61), 1).half(), 1, "staged rows"),
    "misaligned staged rows": (lambda: drawn((34 * 7 + 1,), 1)[1:].view(34, 7), 1, "staged rows"),
    "rows of many threads": (lambda: drawn((2, 1501), 1), 1, "rows, 4 vectors per thread"),
    "rows that are read twice": (lambda: drawn((2, 3001), 1), 1, "rows, twice"),
    "halves that are read twice": (lambda: drawn((2, 5003), 1).bfloat16(), 1, "rows, twice"),
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("subject", FORWARD)
def test_kernels_of_special_shapes(name: str, subject: str) -> None:
    make, dim, wanted = FORWARD[subject]
    x = make()
    x[0, 0] = -torch.inf
    function = library.function(name)
    plans = {c.name: c for c in function.definition.candidates(function.request(x, dim))}
    result = runner(plans[wanted].build(), 1, x.device)(x)
    assert result.dtype == x.dtype
    limit = LIMITS[x.dtype]
    torch.testing.assert_close(
        result.double(), PAIRS[name](x.double(), dim), rtol=limit, atol=limit, equal_nan=True
    )


# ---- backward ----------------------------------------------------------------------------------
@pytest.mark.parametrize(("name", "subject", "dtype"), CASES)
def test_gradients(name: str, subject: str, dtype: Any) -> None:
    shape, dim = SHAPES[subject]
    x, dy = drawn(shape, 1).to(dtype), drawn(shape, 2).to(dtype)
    ours, theirs = x.clone().requires_grad_(), x.double().requires_grad_()
    getattr(weft.ops, name)(ours, dim).backward(dy)
    PAIRS[name](theirs, dim).backward(dy.double())
    limit = LIMITS[dtype]
    torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=limit, atol=limit)


@pytest.mark.parametrize("name", PAIRS)
def test_strided_gradients(name: str) -> None:
    """Neither the gradient nor the result has to be contiguous or aligned."""
    backward = library.call(f"{name}_backward")
    y, dy = PAIRS[name](drawn((6, 9), 3), 1), drawn((9, 6), 4).t()
    dense = backward(dy.contiguous(), y, 1)
    torch.testing.assert_close(backward(dy, y, 1), dense)
    torch.testing.assert_close(backward(dy, y.t().contiguous().t(), 1), dense)
    storage = torch.empty(55)[1:].view(6, 9).copy_(y)
    torch.testing.assert_close(backward(dy, storage, 1), dense)


@pytest.mark.parametrize("name", PAIRS)
def test_gradients_of_gradients(name: str) -> None:
    x, weights = drawn((3, 5), 5), drawn((3, 5), 6)

    def second(function: Any) -> Any:
        point = x.clone().requires_grad_()
        (first,) = torch.autograd.grad(
            (function(point, 1) * weights).sum(), point, create_graph=True
        )
        return torch.autograd.grad(first.pow(2).sum(), point)[0]

    torch.testing.assert_close(
        second(getattr(weft.ops, name)), second(PAIRS[name]), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("name", PAIRS)
def test_batches_of_gradients(name: str) -> None:
    x = drawn((3, 5), 7).requires_grad_()
    many = drawn((4, 3, 5), 8)

    def batched(y: Any) -> Any:
        return torch.autograd.grad(y, x, many, is_grads_batched=True)[0]

    ours = batched(getattr(weft.ops, name)(x, 1))
    torch.testing.assert_close(ours, batched(PAIRS[name](x, 1)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", PAIRS)
def test_compiled(name: str) -> None:
    """The backward pass is one op in the graph that torch.compile makes."""
    x = drawn((3, 5), 9)
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    function = torch.compile(
        lambda v: getattr(weft.ops, name)(v, 1).pow(2).sum(), backend="aot_eager", fullgraph=True
    )
    function(ours).backward()
    PAIRS[name](theirs, 1).pow(2).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-5)


def test_sanitized() -> None:
    """No kernel of the backward pass reads what nothing wrote, or races."""
    with weft.sanitize() as session:
        for shape, dim in ((5, 37), 1), ((2, 40, 3), 1):
            x = drawn(shape, 10).requires_grad_()
            weft.ops.softmax(x, dim).sum().backward()
    assert not session.findings
