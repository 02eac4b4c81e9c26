"""Cross-entropy of so few rows that one cluster has them all: losses and gradients of float64."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import draw

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

import weft  # noqa: E402
from weft.ops.core import library  # noqa: E402
from weft.ops.core.runner import runner  # noqa: E402
from weft.ops.core.target import named  # noqa: E402

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
H200 = named("sim:h200")
LIMITS = {F32: 1e-6, F16: 6e-4, BF16: 4e-3}
ROWS = {
    "one row of a warp": ((1, 1000), F16, 1),
    "a block": ((16, 1000), F16, 1),
    "blocks of several warps": ((70, 1000), BF16, 5),
    "odd rows": ((35, 71), F32, 1),
    "rows of blocks": ((3, 4104), BF16, 3),
    "rows of blocks, odd": ((8, 2049), F32, 8),
}
"""The shape and dtype of logits, and the blocks that have them."""


def plan_of(op: str, args: tuple[Any, ...], target: Any = H200) -> tuple[Any, list[Any]]:
    """The plan of an op by one cluster, and its tensors."""
    function = library.function(op)
    request = dataclasses.replace(function.request(*args), target=target)
    found = {c.name: c for c in function.definition.candidates(request)}
    tensors = [
        a for a, row in zip(args, function.arguments, strict=True) if row.name in function.tensors
    ]
    return found["few rows"].build(), tensors


def run(op: str, *args: Any) -> Any:
    plan, tensors = plan_of(op, args)
    assert len(plan.steps) == 1
    return runner(plan, len(tensors), torch.device("cpu"))(*tensors)


def call_of(subject: str, reduction: str) -> tuple[tuple[Any, ...], Any, Any]:
    """The arguments of a call, and the loss and the gradient of float64.

    One label does not count, and its row is NaN. Sums have weights and smoothing.
    """
    shape, dtype, _ = ROWS[subject]
    x = (draw.seeded(1).normal(shape) * 2).to(dtype)
    labels = torch.arange(shape[0]) * 7919 % shape[1]
    wide = x.double()
    if shape[0] > 1:
        labels[1], x[1] = -100, torch.nan
    smoothing, weight = 0.0, None
    if reduction == "sum":
        smoothing, weight = 0.1, draw.seeded(2).normal(shape[1:]).abs().to(dtype)
    wide.requires_grad_()
    want = F.cross_entropy(
        wide, labels, None if weight is None else weight.double(), reduction=reduction,
        label_smoothing=smoothing,
    )  # fmt: skip
    want.sum().backward()
    return (x, labels, weight, -100, reduction, smoothing), want.detach(), wide.grad


def close(got: Any, want: Any, dtype: Any) -> None:
    assert (got.double() - want).norm() / want.norm() < LIMITS[dtype]


SUMS = ("a block", "rows of blocks, odd")
"""Rows whose sums, with weights and smoothing, are in the default set."""
REDUCED = [
    pytest.param(row, how, marks=pytest.mark.slow if how == "sum" and row not in SUMS else ())
    for row in ROWS
    for how in ("mean", "sum", "none")
]


@pytest.mark.parametrize(("subject", "reduction"), REDUCED)
def test_losses_and_gradients(subject: str, reduction: str) -> None:
    args, loss, gradient = call_of(subject, reduction)
    dtype = args[0].dtype
    got, slope = run("cross_entropy_with_gradient", *args)
    close(got, loss, dtype)
    close(slope, gradient, dtype)
    assert torch.equal(run("cross_entropy", *args), got)
    factors = torch.full(got.shape, 2.0, dtype=dtype)
    close(run("cross_entropy_backward", factors, *args), 2 * gradient, dtype)


@pytest.mark.parametrize("subject", ROWS)
def test_a_cluster_where_losses_are_added(subject: str) -> None:
    args, _, _ = call_of(subject, "mean")
    blocks = ROWS[subject][2]
    step = plan_of("cross_entropy", args)[0].steps[0]
    assert step.grid == (blocks,) and step.cluster == ((blocks, 1, 1) if blocks > 1 else None)
    alone = plan_of("cross_entropy_backward", (torch.ones(()), *args))[0].steps[0]
    assert alone.grid == (blocks,) and alone.cluster is None


def test_wrong_label() -> None:
    args, _, _ = call_of("a block", "mean")
    args[1][3] = 1000
    with pytest.raises(weft.AssertFailed):
        run("cross_entropy", *args)


def test_others_have_no_such_plan() -> None:
    """Too many rows, rows that need shared memory, and GPUs without clusters."""
    for shape, target in (
        ((300, 1000), H200),
        ((9, 5000), H200),
        ((1, 90_000), H200),
        ((4, 1000), dataclasses.replace(H200, capability=(8, 0))),
    ):
        x, labels = torch.zeros(shape, dtype=BF16), torch.zeros(shape[0], dtype=torch.int64)
        with pytest.raises(KeyError, match="few rows"):
            plan_of("cross_entropy", (x, labels, None, -100, "mean", 0.0), target)


def test_sanitized() -> None:
    args, _, _ = call_of("blocks of several warps", "mean")
    with weft.sanitize() as session:
        run("cross_entropy_with_gradient", *args)
    assert not session.findings
