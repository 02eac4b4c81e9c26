"""Reductions of strided, short and single elements: every plan, held against torch in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import devices
import draw
import weft

torch = pytest.importorskip("torch")

from weft import ops  # noqa: E402
from weft.ops.core import library  # noqa: E402
from weft.ops.core.runner import runner  # noqa: E402

DEVICE = "cpu" if devices.current.name == "sim" else "cuda"
OPS: dict[str, Callable[..., Any]] = {"sum": torch.sum, "argmax": torch.argmax, "var": torch.var}


def numbers(*shape: int) -> Any:
    return draw.seeded(len(shape)).normal(shape).to(DEVICE)


LAYOUTS = {
    "rows with gaps": (lambda: numbers(12, 45)[:, :41], 0),
    "all of rows with gaps": (lambda: numbers(40, 60)[:, :41], None),
    "kept dimensions in another order": (lambda: numbers(70, 4, 3).permute(0, 2, 1), 0),
    "a long column": (lambda: numbers(3000, 3)[:, :2], 0),
    "one of five dimensions": (lambda: numbers(2, 3, 4, 5, 6).permute(4, 2, 0, 3, 1), 2),
    "short rows in another order": (lambda: numbers(5, 6, 7).transpose(0, 1)[..., :6], 2),
    "rows of no whole vectors": (lambda: numbers(1003, 7).half(), 0),
    "rows of which four are whole vectors": (lambda: numbers(2001, 54).half(), 0),
    "small planes": (lambda: numbers(60, 3, 3).half(), 1),
    "rows in another order": (lambda: numbers(30, 5, 34).transpose(0, 1), 2),
    "columns in vectors, in another order": (lambda: numbers(2, 30, 4).transpose(1, 2), 0),
    "two rows of odd length": (lambda: numbers(2, 2051).half(), 0),
    "pairs": (lambda: numbers(75, 2), 1),
    "elements with gaps": (lambda: numbers(70, 5, 4)[:, :, 0], 1),
    "repeated elements": (lambda: numbers(4, 1, 6).expand(4, 5, 6)[..., :5], 1),
}


STATES = ("one of five dimensions", "rows with gaps", "rows of no whole vectors", "small planes")
"""The layouts for operations with larger states: the other kernels join theirs as these do."""


@pytest.mark.parametrize(
    ("op", "layout"),
    [("sum", name) for name in LAYOUTS]
    + [(op, name) for op in ("argmax", "var") for name in STATES],
)
def test_strides(op: str, layout: str) -> None:
    make, dim = LAYOUTS[layout]
    x, function = make(), library.function(op)
    request = function.request(*function.bound((x, dim), {}))
    plans = [c for c in function.definition.candidates(request) if "copy" not in c.name]
    assert plans, "no plan reads the tensor where it is"
    wanted = OPS[op](x.double(), dim=dim)
    for plan in plans if op == "sum" else plans[-2:]:
        result = runner(plan.build(), 1, x.device)(x)
        limit = 1e-4 if x.dtype is torch.float32 else 1e-3
        torch.testing.assert_close(result.to(wanted.dtype), wanted, rtol=limit, atol=limit)


@pytest.mark.parametrize(
    ("op", "dim"), [("sum", None), ("sum", (0, 2)), ("var", (1, 2)), ("argmax", None)]
)
def test_lines_with_gaps(op: str, dim: Any) -> None:
    """Lines of neighbours that begin anywhere: a warp or a block has one at a time."""
    x, function = numbers(5, 9, 604).half()[:, :, 1:600], library.function(op)
    request = function.request(*function.bound((x, dim), {}))
    found = [c for c in function.definition.candidates(request) if "per line" in c.name]
    assert {c.name.split()[0] for c in found} == {"32", "256"}
    wanted = OPS[op](x.double(), dim=dim)
    for candidate in found:
        result = runner(candidate.build(), 1, x.device)(x)
        torch.testing.assert_close(result.to(wanted.dtype), wanted, rtol=1e-3, atol=2e-2)


def chosen(op: str, *args: Any) -> str:
    function = library.function(op)
    return str(function.choice(function.request(*function.bound(args, {}))).used.name)


# ---- one element along the reduced dimensions --------------------------------------------------
@pytest.mark.parametrize(
    "op", ["sum", "mean", "prod", "amax", "argmin", "norm", "var", "any", "all", "count_nonzero"]
)
def test_single_elements(op: str) -> None:
    """They are an expression of the element, at any strides."""
    x = torch.tensor([[0.0, -2.5, torch.nan], [torch.inf, 1.0, -torch.inf]]).to(DEVICE)
    x = x.t().unsqueeze(1).expand(3, 1, 2)
    assert chosen(op, x, 1).startswith("single")
    for options in ({}, {"correction": 0}) if op == "var" else ({},):
        result = library.call(op)(x, 1, **options)
        if op == "norm":
            wanted = x.squeeze(1).abs()
        elif op == "var":
            wanted = (x - x).squeeze(1) / (1 - options.get("correction", 1))
        elif op == "count_nonzero":
            wanted = (x != 0).sum(1)
        else:
            wanted = getattr(torch, op)(x, 1)
        torch.testing.assert_close(result, wanted, rtol=0, atol=0, equal_nan=True)
    counts = torch.arange(-1, 3, device=DEVICE)[:, None]
    if op in ("sum", "argmin", "any"):
        torch.testing.assert_close(library.call(op)(counts, 1), getattr(torch, op)(counts, 1))


# ---- short rows --------------------------------------------------------------------------------
@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize(("op", "dtype", "n"), [
    ("any", torch.bool, 3), ("sum", torch.uint8, 13), ("argmax", torch.float16, 5),
    ("var", torch.float32, 7), ("count_nonzero", torch.int64, 3),
])  # fmt: skip
def test_short_rows(op: str, dtype: Any, n: int, offset: int) -> None:
    rows = 300  # a block and a part of one
    x = (numbers(rows * n + offset) * 3).to(dtype)[offset:].view(rows, n)
    assert chosen(op, x, 1) == "short rows"
    wanted = (x != 0).sum(1) if op == "count_nonzero" else getattr(torch, op)(x, 1)
    torch.testing.assert_close(library.call(op)(x, 1), wanted)


@pytest.mark.parametrize("dim", [[], ()])
def test_no_named_dimension_means_all(dim: Any) -> None:
    x = torch.arange(12.0).reshape(3, 4)
    for op in ("sum", "amax", "var", "count_nonzero"):
        torch.testing.assert_close(getattr(ops, op)(x, dim=dim), getattr(torch, op)(x, dim=dim))
    with pytest.raises(weft.ArgumentError, match="reduces none"):
        ops.any(x, dim=dim)


def test_variance_of_rows_that_begin_with_an_outlier() -> None:
    """Squares of differences from the first element would cancel."""
    x = numbers(40, 17)
    x[:, 0] += 1000
    x = torch.cat([x, x[:, :1].expand(40, 3)], 1)[:, :17]
    for dim in (0, 1):
        y = x if dim else x.t().contiguous()
        torch.testing.assert_close(
            library.call("var")(y, dim).double(), torch.var(y.double(), dim), rtol=1e-6, atol=0
        )
    z = numbers(500, 4) + 1000
    torch.testing.assert_close(
        library.call("var")(z, 0).double(), torch.var(z.double(), 0), rtol=1e-4, atol=0
    )


# ---- which plan is chosen ----------------------------------------------------------------------
PLANS = {
    "planes of three by three": ((40000, 2, 3, 3), None, torch.bfloat16, 2, "small planes"),
    "two rows of odd length": ((2, 1000001), None, torch.float16, 0, "256 x 1 columns, "),
    "rows whose results are transposed": ((5, 7588, 34), (1, 0, 2), torch.float32, 2,
                                          "4 threads per row"),
    "columns whose results are transposed": ((1, 2, 4, 200000), (0, 1, 3, 2), torch.float32, 1,
                                             "strided, 256 columns x 4"),
    "a row that one block reads at once": ((100000,), None, torch.float32, 0,
                                           "1024 threads per row"),
    "pairs": ((4_000_000, 2), None, torch.bfloat16, 1, "short rows"),
}  # fmt: skip


@pytest.mark.parametrize(("shape", "order", "dtype", "dim", "plan"), PLANS.values(), ids=PLANS)
def test_chosen_plans(shape: Any, order: Any, dtype: Any, dim: int, plan: str) -> None:
    x = torch.empty([shape[d] for d in order] if order else shape, dtype=dtype)
    x = x.permute([order.index(d) for d in range(x.dim())]) if order else x
    assert chosen("sum", x, dim).startswith(plan)


def test_nothing_along_any_strides() -> None:
    """A reduction of no elements gives its neutral element, whatever the strides are."""
    one = torch.ones(())
    given = [
        (one.expand(0, 4, 2, 5), (0, 2, 3)),
        (one.expand(3, 0, 5), (1,)),
        (torch.empty(5, 0, 3).permute(2, 0, 1), (2,)),
        (torch.empty(2, 0, 3), (1,)),
    ]
    for x, dims in given:
        assert torch.equal(weft.ops.sum(x, dims), torch.sum(x, dims))
        assert torch.equal(weft.ops.all(x, dims), torch.all(x, dims))
