"""Products of 16-bit elements and linear: any layout, against float64, forward and backward."""

from __future__ import annotations

from typing import Any

import pytest

import draw

torch = pytest.importorskip("torch")

import weft  # noqa: E402
from weft.ops.core import library  # noqa: E402
from weft.ops.core.runner import runner  # noqa: E402

F = torch.nn.functional
LIMITS = {torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 6e-3}
"""Norms of errors, relative to the norm of the result."""


def drawn(*shape: int, dtype: Any = torch.float32, seed: int = 1) -> Any:
    return draw.seeded(seed).normal(shape).to(dtype)


def close(found: Any, true: Any, dtype: Any) -> None:
    found, true = found.detach().double(), true.detach()
    assert found.shape == true.shape
    assert (found - true).norm() <= LIMITS[dtype] * true.norm()


MATRICES = {
    "rows of whole vectors": lambda d: (drawn(33, 40, dtype=d), drawn(40, 48, dtype=d, seed=2)),
    "both transposed": lambda d: (drawn(40, 72, dtype=d).t(), drawn(24, 40, dtype=d, seed=2).t()),
    "odd sizes": lambda d: (drawn(37, 33, dtype=d).t(), drawn(37, 29, dtype=d, seed=2)),
    "columns of a wider matrix": lambda d: (
        drawn(9, 44, dtype=d)[:, 2:36],
        drawn(34, 20, dtype=d, seed=2),
    ),
    "parts of K": lambda d: (drawn(5, 1200, dtype=d), drawn(1200, 24, dtype=d, seed=2)),
    "a batch": lambda d: (drawn(2, 1, 17, 34, dtype=d), drawn(3, 34, 18, dtype=d, seed=2)),
    "a vector": lambda d: (drawn(40, dtype=d), drawn(40, 48, dtype=d, seed=2)),
    "no strides of one": lambda d: (drawn(9, 80, dtype=d)[:, ::2], drawn(40, 48, dtype=d, seed=2)),
    "no terms": lambda d: (drawn(3, 0, dtype=d), drawn(0, 8, dtype=d, seed=2)),
    "no rows": lambda d: (drawn(0, 40, dtype=d), drawn(40, 48, dtype=d, seed=2)),
}


@pytest.mark.parametrize("subject", MATRICES)
def test_products(subject: str) -> None:
    half = subject in ("parts of K", "both transposed")
    dtype = torch.float16 if half else torch.bfloat16
    a, b = MATRICES[subject](dtype)
    result = weft.ops.matmul(a, b)
    assert result.dtype is dtype
    close(result, a.double() @ b.double(), dtype)


SHORT_K = {
    "a batch": lambda: (drawn(3, 70, 4), drawn(3, 4, 133, seed=2)),
    "whole vectors": lambda: (drawn(70, 8), drawn(8, 132, seed=2)),
    "both transposed": lambda: (drawn(13, 70).t(), drawn(131, 13, seed=2).t()),
    "parts of wider matrices": lambda: (drawn(40, 37)[:, 3:8], drawn(9, 140, seed=2)[:5, 1:134]),
    "one term": lambda: (drawn(40, 1), drawn(1, 136, seed=2)),
    "one column": lambda: (drawn(300, 3), drawn(3, 1, seed=2)),
}


@pytest.mark.parametrize("subject", SHORT_K)
def test_products_of_few_terms(subject: str) -> None:
    a, b = SHORT_K[subject]()
    dtype = torch.float16 if subject in ("a batch", "one column") else torch.float32
    a, b = a.to(dtype), b.to(dtype)
    assert "short K" in weft.ops.explain(weft.ops.matmul, a, b).choice.used.name
    close(weft.ops.matmul(a, b), a.double() @ b.double(), dtype)
    if dtype is not torch.float32:
        return
    if a.dim() == 2:
        bias = drawn(a.shape[0], 1)
        true = F.gelu(a.double() @ b.double() + bias)
        close(weft.ops.addmm(bias, a, b, activation="gelu"), true, torch.float32)


ALIGNED_COPIES = ("aligned copies, 32 x 32", "aligned copy of b, 32 x 32")


@pytest.mark.parametrize("k_major", [True, False], ids=["along K", "along M and N"])
def test_aligned_copies(k_major: bool) -> None:
    """Rows of 45 and 37 elements are copied to rows of 48 and 40."""
    a, b = drawn(2, 40, 45, dtype=torch.float16), drawn(2, 37, 45, dtype=torch.float16, seed=2)
    b = b.mT if k_major else b.mT.contiguous()
    a = a if k_major else a.mT.contiguous().mT
    function = library.function("matmul")
    candidates = function.definition.candidates(function.request(a, b, "fp32"))
    plan = next(c for c in candidates if c.name in ALIGNED_COPIES).build()
    close(runner(plan, 2, a.device)(a, b), a.double() @ b.double(), torch.float16)


@pytest.mark.parametrize("bias", [(37,), (35, 1), (35, 37)])
def test_bias_of_halves(bias: tuple[int, ...]) -> None:
    """A bias for columns, rows or elements, of rows that are no whole vectors."""
    a, b = drawn(35, 45, dtype=torch.float16), drawn(45, 37, dtype=torch.float16, seed=2)
    c = drawn(*bias, dtype=torch.float16, seed=3)
    true = torch.relu(a.double() @ b.double() + c.double())
    close(weft.ops.addmm(c, a, b, activation="relu"), true, torch.float16)


def test_aligned_copies_are_for_large_products() -> None:
    large, small = drawn(1222, 2039, dtype=torch.float16), drawn(9, 45, dtype=torch.float16)
    for a, copied in ((large, True), (small, False)):
        chosen = weft.ops.explain(weft.ops.matmul, a, a.t()).choice.used.name
        assert chosen.startswith("aligned copies") == copied


@pytest.mark.parametrize(
    ("rows", "terms", "dtype"),
    [
        (1, 4, torch.float32),
        (9, 3, torch.float32),
        pytest.param(9, 40, torch.float32, marks=pytest.mark.slow),
        pytest.param(9, 8, torch.float16, marks=pytest.mark.slow),
    ],
)
def test_a_batch_larger_than_a_dimension_of_the_grid(rows: int, terms: int, dtype: Any) -> None:
    """The grid has two dimensions for 32769 products, and blocks for more than there are."""
    a = drawn(1, rows, terms, dtype=dtype).expand(32769, -1, -1)
    b = drawn(32769, terms, dtype=dtype, seed=2)[:, :, None]
    if rows > 8:
        b = b.expand(-1, -1, 9)
    close(weft.ops.matmul(a, b), a.double() @ b.double(), dtype)


def test_special_values() -> None:
    """Overflow is infinite, and what is not finite stays so."""
    a = torch.full((16, 40), 200.0, dtype=torch.float16)
    assert torch.isinf(weft.ops.matmul(a, a.t().contiguous())).all()
    a[3, 7] = float("nan")
    ours, theirs = weft.ops.matmul(a, a[:8].t().contiguous()), a.double() @ a[:8].double().t()
    assert torch.equal(ours.isnan(), theirs.isnan())


ACTIVATIONS = {
    "": lambda v: v, "relu": torch.relu, "gelu": F.gelu, "silu": F.silu,
    "gelu_tanh": lambda v: F.gelu(v, approximate="tanh"),
}  # fmt: skip
LAYERS = [
    ((3, 5, 12), 9, True, "relu", torch.float32),
    ((12,), 5, False, "", torch.float32),
    ((7, 12), 9, True, "gelu_tanh", torch.float32),
    ((0, 12), 9, True, "silu", torch.float32),
    ((7, 40), 48, True, "gelu", torch.bfloat16),
]


@pytest.mark.parametrize(("shape", "out", "bias", "activation", "dtype"), LAYERS)
def test_layers(shape: Any, out: int, bias: bool, activation: str, dtype: Any) -> None:
    tensors = [drawn(*shape, dtype=dtype), drawn(out, shape[-1], dtype=dtype, seed=2)]
    tensors += [drawn(out, dtype=dtype, seed=3)] if bias else []
    ours = [t.clone().requires_grad_() for t in tensors]
    theirs = [t.double().requires_grad_() for t in tensors]
    y = weft.ops.linear(*ours, activation=activation)
    true = ACTIVATIONS[activation](F.linear(*theirs))
    dy = drawn(*y.shape, dtype=dtype, seed=4)
    y.backward(dy)
    true.backward(dy.double())
    close(y, true, dtype)
    with torch.no_grad():  # the activation in the launch of the product
        close(weft.ops.linear(*ours, activation=activation), true, dtype)
    for mine, other in zip(ours, theirs, strict=True):
        close(mine.grad, other.grad, dtype)


def test_compiled() -> None:
    x, w, b = drawn(4, 6), drawn(5, 6, seed=2), drawn(5, seed=3)
    for activation in ("relu", "gelu"):
        ours, theirs = (w.clone().requires_grad_() for _ in range(2))
        function = torch.compile(
            lambda v, a=activation: weft.ops.linear(x, v, b, a), backend="aot_eager", fullgraph=True
        )
        function(ours).sum().backward()
        ACTIVATIONS[activation](F.linear(x, theirs, b)).sum().backward()
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-5)


def test_verified() -> None:
    x, w = drawn(3, 4).requires_grad_(), drawn(5, 4, seed=2).requires_grad_()
    assert weft.ops.linear.verify(x, w, drawn(5, seed=3).requires_grad_(), "relu").passed


REFUSED = {
    "dtypes": (lambda: (drawn(2, 3), drawn(4, 3).half()), "dtype"),
    "double": (lambda: (drawn(2, 3).double(), drawn(4, 3).double()), "dtype"),
    "inner": (lambda: (drawn(2, 3), drawn(3, 4)), "incompatible shapes"),
    "bias": (lambda: (drawn(2, 3), drawn(4, 3), drawn(3)), r"shape \(3,\), expected \(4,\)"),
    "number": (lambda: (torch.tensor(1.0), drawn(4, 3)), "incompatible shapes"),
    "activation": (lambda: (drawn(2, 3), drawn(4, 3), None, "exp"), "unknown activation 'exp'"),
}


@pytest.mark.parametrize("subject", REFUSED)
def test_refused(subject: str) -> None:
    args, message = REFUSED[subject]
    with pytest.raises(weft.ArgumentError, match=message):
        weft.ops.linear(*args())


def test_refused_products() -> None:
    a = drawn(4, 4, dtype=torch.float16)
    with pytest.raises(weft.ArgumentError, match="incompatible dtypes"):
        weft.ops.matmul(a, drawn(4, 4))
    with pytest.raises(weft.ArgumentError, match="unknown precision '3xtf32'"):
        weft.ops.matmul(a, a, precision="3xtf32")


def test_sanitized() -> None:
    """No kernel reads what nothing wrote, or races: copies of 16 and of 2 bytes, parts of K."""
    with weft.sanitize() as session:
        weft.ops.linear(drawn(5, 40, dtype=torch.bfloat16), drawn(8, 40, dtype=torch.bfloat16))
        weft.ops.matmul(drawn(5, 600, dtype=torch.bfloat16), drawn(600, 7, dtype=torch.bfloat16))
    assert not session.findings


def test_a_gradient_of_odd_columns_is_copied_once(monkeypatch: Any) -> None:
    """Both products read the copy; it is large enough, so that each would copy it."""
    from weft.ops.families.matmul import linear

    monkeypatch.setattr(linear, "LARGE", 1)
    x, w = drawn(2, 9, 24, dtype=torch.bfloat16), drawn(37, 24, dtype=torch.bfloat16, seed=2)
    b, dy = drawn(37, dtype=torch.bfloat16, seed=3), drawn(2, 9, 37, dtype=torch.bfloat16, seed=4)
    leaves = [t.requires_grad_() for t in (x, w, b)]
    weft.ops.linear(x, w, b).backward(dy)
    doubles = [t.detach().double().requires_grad_() for t in leaves]
    F.linear(*doubles).backward(dy.double())
    for ours, theirs in zip(leaves, doubles, strict=True):
        close(ours.grad, theirs.grad, torch.bfloat16)


def test_aligned_rows() -> None:
    call = library.call("aligned_rows")
    for rows, columns in ((5, 37), (3, 8), (0, 9), (4, 1)):
        x = drawn(rows, columns, dtype=torch.float16)
        got = call(x)
        assert got.shape == (rows, -(-columns // 8) * 8)
        assert torch.equal(got[:, :columns], x) and not got[:, columns:].any()
    x = drawn(5, 40, dtype=torch.float16)[:, 3:16].requires_grad_()
    assert torch.equal(call(x)[:, :13], x)
    (gradient,) = torch.autograd.grad(call(x)[:, 2:5].sum(), x)
    assert gradient.sum() == 15 and gradient.shape == x.shape
    with pytest.raises(weft.ArgumentError, match="no matrix"):
        call(x.T)
