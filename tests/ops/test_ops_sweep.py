"""The sweep's calls at small sizes: every op of the sweep is right, on drawn shapes and strides.

`weft bench ops` draws from the same functions, at sizes for a GPU.
"""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
import torch

import devices
import weft
from weft.ops import library
from weft.ops.sweep import draw, run
from weft.ops.sweep.cases import CASES
from weft.ops.sweep.draw import Call, Tensor

pytestmark = pytest.mark.filterwarnings("ignore:var")  # torch's, for the variance of one element
OPS = [case.op for case in CASES]
MOST = 1500
"""Elements of a tensor at the most: each has several blocks, and the simulator is quick."""
SHARED = {"mul", "amax", "any", "argmax", "mean", "norm", "var", "count_nonzero", "cumprod", "scan"}
"""Ops whose kernels differ from another op's in their arithmetic alone: drawn in the slow set."""
SANITIZED = ("add", "sum", "log_softmax", "cumsum")
"""Ops of a default run with the sanitizer; test_ops_elementwise.py has others, the slow set all."""


def where() -> str:
    return "cuda" if devices.current.name == "gpu" else "cpu"


def calls(op: str, seed: str, count: int) -> Any:
    (case,) = run.cases([op])
    return case, list(run.calls(case, int(seed), count, MOST))


def judge(case: Any, call: Call, seed: str) -> None:
    """The call is right, and a second one gives the same bits."""
    result, tensors = run.check(case, call, where(), int(seed))
    assert result.right, f"seed {seed}: {result}"
    function = library.call(case.op)
    first, second = (function(*tensors, **call.options) for _ in range(2))
    torch.testing.assert_close(first, second, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("op", [op for op in OPS if op not in SHARED])
def test_a_drawn_call(op: str, seed: str) -> None:
    case, (call,) = calls(op, seed, 1)
    judge(case, call, seed)


@pytest.mark.sim
@pytest.mark.parametrize("op", SANITIZED)
def test_sanitized(op: str, seed: str) -> None:
    case, (call,) = calls(op, seed, 1)
    with weft.sanitize() as report:
        result, _ = run.check(case, call, "cpu", int(seed))
    assert result.right, f"seed {seed}: {result}"
    assert not report.findings


@pytest.mark.slow
@pytest.mark.parametrize("op", OPS)
def test_more_drawn_calls(op: str, seed: str) -> None:
    print(f"WEFT_SEED={seed}")
    case, drawn = calls(op, seed, 16)
    for i, call in enumerate(drawn):
        if i % 4 or where() == "cuda":
            judge(case, call, seed)
            continue
        with weft.sanitize():
            result, _ = run.check(case, call, "cpu", int(seed))
        assert result.right, f"seed {seed}: {result}"


# ---- what the draws are ------------------------------------------------------------------------
def test_a_seed_stands_for_its_calls(seed: str) -> None:
    for case in CASES:
        first, again = ([*run.calls(case, int(seed), 5, 2**20)] for _ in range(2))
        assert first == again != [*run.calls(case, int(seed) + 1, 5, 2**20)]


def test_shapes_are_of_every_kind(seed: str) -> None:
    rng = random.Random(seed)
    shapes = [draw.shape(rng, (1, 2, 3), 2**20) for _ in range(300)]
    totals = [math.prod(shape) for shape in shapes]
    assert max(totals) <= 2**20 and min(totals) < 100 and max(totals) > 2**18
    pairs = [shape for shape in shapes if len(shape) == 2]
    assert any(a > 64 * b for a, b in pairs) and any(b > 64 * a for a, b in pairs)
    tensors = [draw.tensor(rng, (8, 9, 10), "float32") for _ in range(100)]
    assert {t.order for t in tensors} > {(0, 1, 2)}
    assert {bool(t.offset) for t in tensors} == {bool(t.gap) for t in tensors} == {True, False}


@pytest.mark.parametrize(
    ("tensor", "strides"),
    [
        pytest.param(Tensor((2, 3), "float32", (0, 1)), (3, 1), id="contiguous"),
        pytest.param(Tensor((2, 3), "float32", (1, 0)), (1, 2), id="transposed"),
        pytest.param(Tensor((2, 3), "float16", (0, 1), offset=1), (3, 1), id="misaligned"),
        pytest.param(Tensor((2, 3), "int32", (0, 1), gap=4), (7, 1), id="gaps"),
        pytest.param(Tensor((), "bool", ()), (), id="number"),
    ],
)
def test_tensors_are_cut_as_they_say(tensor: Tensor, strides: tuple[int, ...]) -> None:
    for made in (tensor.make("cpu", torch.Generator().manual_seed(1)), tensor.empty("cpu")):
        assert tuple(made.shape) == tensor.shape and made.stride() == strides
        assert made.storage_offset() == tensor.offset and str(made.dtype)[6:] == tensor.dtype


# ---- the judge ---------------------------------------------------------------------------------
@pytest.mark.parametrize("wrong", ["value", "shape", "infinite", "missing"])
def test_wrong_results_are_refused(wrong: str) -> None:
    (case,) = run.cases(["sum"])
    x = torch.randn(4, 100, generator=torch.Generator().manual_seed(1))
    call = Call("sum", (Tensor((4, 100), "float32", (0, 1)),), {"dim": 1, "keepdim": False})
    want = x.double().sum(1)
    assert run.largest_error(case, call, [x], want.float(), want)[1]
    got = want.float()
    got[2] += {"value": 1e-3, "infinite": math.inf, "missing": math.nan}.get(wrong, 0)
    got = got.reshape(4, 1) if wrong == "shape" else got
    assert not run.largest_error(case, call, [x], got, want)[1]
