"""Calls without gradients: kernels of convolutions, products and norms do what follows them."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch.nn import functional as F  # noqa: E402

from compiled_models import compiled, names, normal, same  # noqa: E402

HALF = torch.float16


def last(*shape: int, seed: int = 0, dtype: Any = HALF) -> Any:
    made = normal(*shape, seed=seed).to(dtype)
    return made.contiguous(memory_format=torch.channels_last)


def equal(function: Any, *inputs: Any, tolerance: float = 4e-3) -> None:
    """Compare the results and the inputs after a call, compiled and not, without gradients."""
    given = [[x.clone() for x in inputs] for _ in range(2)]
    with torch.no_grad():
        ours = compiled(function)(*given[0])
        wanted = function(*given[1])
    assert ours.stride() == wanted.stride() and ours.dtype is wanted.dtype
    for a, b in zip((ours, *given[0]), (wanted, *given[1]), strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


# ---- convolutions ------------------------------------------------------------------------------
WEIGHT, BIAS = last(16, 8, 3, 3, seed=1) / 8, normal(16, seed=2).half()
MEAN, VAR = normal(16, seed=3).half(), normal(16, seed=4).half().square() + 0.5


def conv(x: Any) -> Any:
    return F.conv2d(x, WEIGHT, BIAS, padding=1)


def norm(x: Any) -> Any:
    return F.batch_norm(x, MEAN, VAR, BIAS, None, False, 0.1, 1e-3)


def add_in_place(x: Any, y: Any) -> Any:
    total = conv(x)
    total += y
    return total


CHAINS = {
    "norm": lambda x, y: norm(conv(x)),
    "norm, relu": lambda x, y: F.relu(norm(conv(x)), inplace=True),
    "norm, sum, relu": lambda x, y: F.relu(y + norm(conv(x))),
    "norm, sum": lambda x, y: norm(conv(x)) + y,
    "sum": lambda x, y: y + conv(x),
    "sum in place, relu": lambda x, y: torch.relu(add_in_place(x, y)),
    "relu": lambda x, y: conv(x).relu(),
}


@pytest.mark.parametrize("chain", CHAINS)
def test_what_follows_a_convolution_is_a_part_of_it(chain: str) -> None:
    equal(CHAINS[chain], last(2, 8, 6, 5), last(2, 16, 6, 5, seed=7))
    assert names("inference") == ["weft.conv2d_fused"]


def into_an_input(x: Any, y: Any) -> Any:
    y += conv(x)
    return y.relu()


APART = {
    "the sum is that of an input": into_an_input,
    "two read the result": lambda x, y: norm(made := conv(x)) + made.relu(),
    "training": lambda x, y: F.batch_norm(conv(x), None, None, training=True),
    "groups": lambda x, y: F.relu(F.conv2d(x, WEIGHT[:, :4], padding=1, groups=2)),
    "a sum that is larger": lambda x, y: conv(x[:1]) + y,
}


@pytest.mark.parametrize("case", APART)
def test_what_is_left_apart(case: str) -> None:
    equal(APART[case], last(2, 8, 6, 5), last(2, 16, 6, 5, seed=7), tolerance=8e-3)
    assert "weft.conv2d_fused" not in names("inference")


def test_other_convolutions_are_left_apart() -> None:
    """Those of float32, with the channels first, or with a gradient."""
    for x in (last(2, 8, 6, 5), normal(2, 8, 6, 5).half(), last(2, 8, 6, 5, dtype=torch.float32)):
        w = WEIGHT.to(x.dtype)
        if x.is_contiguous():
            w = w.contiguous()
        made = x.clone().requires_grad_(x.dtype is HALF and not x.is_contiguous())
        result = compiled(lambda x, w=w: F.relu(F.conv2d(x, w, padding=1)))(made)
        want = F.relu(F.conv2d(x, w, padding=1))
        torch.testing.assert_close(result, want, rtol=4e-3, atol=4e-3)
        assert "weft.conv2d" in names("forward" if made.requires_grad else "inference")


def test_a_convolution_under_autocast() -> None:
    x, w = last(2, 8, 6, 5, dtype=torch.float32), WEIGHT.float()
    mean, var = MEAN.float(), VAR.float()

    def function(x: Any) -> Any:
        y = F.conv2d(x, w, padding=1)
        return F.relu(F.batch_norm(y, mean, var, None, None, False))

    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        ours, wanted = compiled(function)(x), function(x)
    assert names("inference")[-1] == "weft.conv2d_fused" and ours.dtype is torch.bfloat16
    torch.testing.assert_close(ours.float(), wanted.float(), rtol=2e-2, atol=2e-2)


# ---- products and norms ------------------------------------------------------------------------
ACTIVATIONS = {
    "relu": F.relu,
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_the_activation_of_a_linear_layer_is_a_part_of_the_product(name: str) -> None:
    weight, bias = normal(12, 8, seed=1), normal(12, seed=2)

    def function(x: Any) -> Any:
        return ACTIVATIONS[name](F.linear(x, weight, bias))

    equal(function, normal(5, 8), tolerance=1e-5)
    assert names("inference") == ["weft.linear"]
    same(function, normal(5, 8))
    assert len(names("forward")) == 2


def test_silu_of_a_group_norm_is_a_part_of_it() -> None:
    weight = normal(16, seed=1).half()

    def function(x: Any) -> Any:
        return F.silu(F.group_norm(x, 4, weight))

    equal(function, last(2, 16, 5, 6))
    assert names("inference") == ["weft.group_norm_silu"]
    equal(function, normal(2, 16, 5, 6).half())
    assert names("inference") == ["weft.group_norm", "silu"]
    x = last(2, 16, 5, 6, dtype=torch.float32)
    same(function_of(weight.float()), x, tolerance=1e-3)
    assert names("forward") == ["weft.group_norm_silu_forward"]
    assert names("backward") == ["weft.group_norm_silu_backward"]


def function_of(weight: Any) -> Any:
    return lambda x: F.silu(F.group_norm(x, 4, weight))


@pytest.mark.parametrize("reader", ["conv", "sum"])
def test_silu_of_a_group_norm_under_autocast(reader: str) -> None:
    """Its result has 16 bits where only convolutions read it, which would convert it."""
    filters, weight = (last(8, 16, 3, 3, seed=i, dtype=torch.float32) for i in (1, 2))
    scale = normal(8, seed=3)

    def function(x: Any) -> Any:
        y = F.silu(F.group_norm(F.conv2d(x, filters), 4, scale))
        return F.conv2d(y, weight.transpose(0, 1)) if reader == "conv" else y + 1

    x = last(2, 16, 8, 8, dtype=torch.float32).requires_grad_()
    found = []
    with torch.autocast("cpu", torch.bfloat16):
        for run in (compiled(function), function):
            y = run(x)
            found.append((y, *torch.autograd.grad(y.float().square().sum(), x)))
    (ours, dx), (wanted, dy) = found
    assert ours.dtype is wanted.dtype
    assert (ours - wanted).float().norm() / wanted.float().norm() < 2e-2
    assert (dx - dy).norm() / dy.norm() < 2e-2
    assert "weft.group_norm_silu_forward" in names("forward")


# ---- joins -------------------------------------------------------------------------------------
@pytest.mark.parametrize("dim", [1, -1])
def test_tensors_are_joined_by_weft(dim: int) -> None:
    function = lambda x, y: torch.cat((x, y), dim)  # noqa: E731
    equal(function, last(2, 8, 4, 4), last(2, 8, 4, 4, seed=1), tolerance=0)
    assert names("inference") == ["weft.cat_2"]
    equal(lambda x, y: torch.stack((x, y), dim), normal(3, 4), normal(3, 4, seed=1), tolerance=0)
    assert names("inference") == ["weft.cat_2"]


def test_joins_of_two_dtypes_or_orders_stay_with_torch() -> None:
    equal(lambda x, y: torch.cat((x, y)), normal(3, 4), normal(3, 4, seed=1).half(), tolerance=0)
    assert "weft.cat_2" not in names("inference")
    equal(
        lambda x, y: torch.cat((x, y), 1), last(1, 4, 3, 3), normal(1, 4, 3, 3).half(), tolerance=0
    )
    equal(lambda x, y: torch.cat((x, y)), normal(0), normal(3, 4), tolerance=0)
