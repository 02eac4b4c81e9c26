"""The sweep's calls at small sizes: every op of the sweep is right, on drawn shapes and strides.

`weft bench ops` draws from the same functions, at sizes for a GPU.
"""

from __future__ import annotations

import dataclasses
import math
import random
from typing import Any

import pytest
import torch

import devices
import weft
from weft.ops.sweep import draw, run
from weft.ops.sweep.case import Case
from weft.ops.sweep.cases import CASES
from weft.ops.sweep.draw import Call, Tensor

pytestmark = pytest.mark.filterwarnings("ignore:var")  # torch's, for the variance of one element
NAMES = [case.name for case in CASES]
MOST = 1500
"""Elements of a tensor at the most: each has several blocks, and the simulator is quick."""
SANITIZED = ("add", "sum", "log_softmax", "cumsum")
"""Ops of a default run with the sanitizer; test_elementwise.py has others, the slow set all."""


def where() -> str:
    return "cuda" if devices.current.name == "gpu" else "cpu"


def calls(name: str, seed: str, count: int) -> Any:
    (case,) = run.cases([name])
    return case, list(run.calls(case, int(seed), count, MOST))


def judge(case: Any, call: Call, seed: str) -> None:
    """The call is right, and a second one gives the same bits; random ones with the same seed."""
    result, made = run.check(case, call, where(), int(seed))
    assert result.right, f"seed {seed}: {result}"
    first, second = (torch.manual_seed(1) and made.of(case.call) for _ in range(2))
    torch.testing.assert_close(first, second, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", [case.name for case in CASES if not case.shared])
def test_a_drawn_call(name: str, seed: str) -> None:
    case, (call,) = calls(name, seed, 1)
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
@pytest.mark.parametrize("name", NAMES)
def test_more_drawn_calls(name: str, seed: str) -> None:
    print(f"WEFT_SEED={seed}")
    case, drawn = calls(name, seed, 16)
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
    x = torch.linspace(-3, 3, 400).view(4, 100)
    call = Call("sum", (Tensor((4, 100), "float32", (0, 1)),), {"dim": 1, "keepdim": False})
    want = x.double().sum(1)
    assert run.largest_error(case, call, [x], want.float(), want) <= 1
    got = want.float()
    got[2] += {"value": 1e-3, "infinite": math.inf, "missing": math.nan}.get(wrong, 0)
    got = got.reshape(4, 1) if wrong == "shape" else got
    assert not run.largest_error(case, call, [x], got, want) <= 1


RANDOM: dict[str, tuple[Any, Any]] = {
    "rand": (torch.rand, lambda x: torch.rand(x.shape) * 0.9),
    "uniform": (lambda n: torch.rand(n) * 8 - 2, lambda x: torch.rand(x.shape) * 9 - 2),
    "randn": (torch.randn, lambda x: torch.randn(x.shape) + 0.1),
    "normal": (lambda n: torch.randn(n) * 2 + 0.5, lambda x: torch.randn(x.shape) * 2.2 + 0.5),
    "bernoulli": (lambda n: torch.full((n,), 0.25).bernoulli(), lambda x: torch.ones(x.shape)),
    "randperm": (torch.randperm, lambda x: torch.zeros(x.shape, dtype=torch.int64)),
    "dropout": (None, lambda x: torch.nn.functional.dropout(x, 0.5)),
}
"""Numbers that are right, and some that are not: too narrow, shifted, repeated or scaled."""


@pytest.mark.parametrize("op", RANDOM)
def test_wrong_random_numbers_are_refused(op: str) -> None:
    torch.manual_seed(5)
    (case,) = run.cases([op])
    assert case.judge is not None
    right, wrong = RANDOM[op]
    x = torch.full((5000,), 0.25) if op == "bernoulli" else torch.randn(5000)
    good = torch.nn.functional.dropout(x, 0.25) if right is None else right(5000)
    assert case.judge(good, x) <= 1 < case.judge(wrong(x), x)


def test_an_overflow_of_the_dtype_is_infinite() -> None:
    """A quotient that is finite in float64 and not in float16."""
    (case,) = run.cases(["div"])
    call = Call("div", (Tensor((2,), "float16", (0,)),) * 2, {})
    want = torch.tensor([1e5, 2.0], dtype=torch.float64)
    assert run.largest_error(case, call, [], torch.tensor([math.inf, 2]).half(), want) == 0
    assert run.largest_error(case, call, [], torch.tensor([65504.0, 2]).half(), want) == math.inf


# ---- gradients, labels, several results --------------------------------------------------------
def pick(x: Any, labels: Any, weight: Any, scale: float) -> Any:
    """An op of two results, one of which has no gradient; a weight is optional."""
    rows = x if weight is None else x * weight
    return scale * rows.gather(1, labels[:, None]).square(), x.argmax(1)


def drawn_pick(rng: random.Random, most: int) -> Call:
    n, classes = draw.size(rng, 9), 2 + draw.size(rng, 9)
    x = draw.tensor(rng, (n, classes), rng.choice(("float32", "bfloat16")))
    weight = rng.choice((None, Tensor((classes,), x.dtype, (0,), grad=False)))
    return Call("pick", (x, draw.integers((n,), 0, classes), weight), {"scale": 2.0})


PICK = Case("pick", drawn_pick, pick, weft=pick)


def test_forward_and_backward(seed: str) -> None:
    case = PICK.with_backward()
    assert (case.name, case.op) == ("pick backward", "pick")
    for call in run.calls(case, int(seed), 20, 100):
        result, made = run.check(case, call, "cpu", int(seed))
        assert result.right, f"seed {seed}: {result}"
        x, labels, weight = made.tensors
        assert len(made.of(pick)) == 3, "two results and the gradient of x"
        assert int(labels.max()) < x.shape[1] and (weight is None or not weight.requires_grad)
        assert made.of(pick)[2].shape == x.shape


@pytest.mark.parametrize("part", [0, 1, 2])
def test_each_result_and_gradient_is_compared(part: int, seed: str) -> None:
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 1.25

    def wrong(x: Any, labels: Any, weight: Any, scale: float) -> Any:
        value, index = pick(Wrong.apply(x) if part == 2 else x, labels, weight, scale)
        return value + 0.5 * (part == 0), index + (part == 1)

    for call in run.calls(PICK, int(seed), 3, 100):
        case = dataclasses.replace(PICK, weft=wrong)
        assert run.check(case, call, "cpu", 1)[0].right == (part == 2)
        assert not run.check(case.with_backward(), call, "cpu", 1)[0].right


def test_labels_are_in_their_range() -> None:
    labels = draw.integers((1000,), 3, 7, "int32", mixed=-100)
    assert str(Call("x", (labels, None), {})) == "int32 1000 3..7 or -100, none"
    made = labels.make("cpu", torch.Generator().manual_seed(1))
    assert set(made.tolist()) == {-100, 3, 4, 5, 6} and made.dtype == torch.int32
    assert set(labels.empty("cpu").tolist()) == {3}
