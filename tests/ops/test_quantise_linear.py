"""linear_int8: rows quantised as they come, times a weight of int8."""

from __future__ import annotations

from typing import Any

import pytest

import draw
import weft
from candidates import by

torch = pytest.importorskip("torch")

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
ROUNDED = {F32: 1e-6, F16: 1e-3, BF16: 8e-3}


def weights(n: int, k: int, rows: bool = True) -> tuple[Any, Any]:
    made = draw.seeded(2).integers(-127, 128, (n, k)).to(torch.int8)
    return made, draw.seeded(3).uniform(n if rows else 1, 1) * 0.01 + 0.001


def tensor(*shape: int, dtype: Any = F32) -> Any:
    return draw.seeded(1).normal(*shape).to(dtype)


def exact(x: Any, weight: Any, scale: Any, bias: Any = None) -> Any:
    """In float64, of rows that are quantised."""
    q, of_rows = weft.ops.quantise(x, torch.int8)
    made = (q.double() * of_rows) @ (weight.double() * scale).T
    return made if bias is None else made + bias.double()


def close(result: Any, want: Any) -> None:
    assert result.shape == want.shape
    assert (result.double() - want).norm() <= ROUNDED[result.dtype] * want.norm()


@pytest.mark.parametrize("dtype", ROUNDED)
@pytest.mark.parametrize("rows", [True, False])
def test_a_layer(dtype: Any, rows: bool) -> None:
    x, (weight, scale) = tensor(2, 5, 160, dtype=dtype), weights(24, 160, rows)
    bias = tensor(24, dtype=dtype)
    close(weft.ops.linear_int8(x, weight, scale, bias), exact(x, weight, scale, bias))
    close(weft.ops.linear_int8(x, weight, scale), exact(x, weight, scale))


def test_it_is_near_the_layer_in_single_precision() -> None:
    x, (weight, scale) = tensor(9, 256), weights(32, 256)
    want = x.double() @ (weight.double() * scale).T
    error = (weft.ops.linear_int8(x, weight, scale).double() - want).norm() / want.norm()
    assert error < 0.01


@pytest.mark.parametrize("name", ["int8, pipelined", "64 x 64, int8"])
def test_both_kernels(name: str) -> None:
    given = tensor(70, 144, dtype=BF16), *weights(40, 144), None
    close(by(name, "linear_int8", *given), exact(*given))


def test_two_launches() -> None:
    given = tensor(4, 128, dtype=F16), *weights(16, 128)
    function = weft.ops.linear_int8.op
    assert len(function.choice(function.request(*given)).used.build().steps) == 2


def test_layouts() -> None:
    """Rows of x that are not contiguous, rows that begin anywhere, and one row."""
    for x in (tensor(64, 6).t(), tensor(3, 70)[:, :64], tensor(64), tensor(2, 3, 64)[:, 1]):
        given = x, *weights(8, 64)
        close(weft.ops.linear_int8(*given), exact(*given))
    given = tensor(3, 35, dtype=F16), *weights(5, 35)
    close(weft.ops.linear_int8(*given), exact(*given))
    x, (weight, scale) = tensor(3, 64), weights(8, 80)
    close(weft.ops.linear_int8(x, weight[:, :64], scale), exact(x, weight[:, :64], scale))
    assert weft.ops.linear_int8(x[:0], weight[:, :64], scale).shape == (0, 8)


@pytest.mark.parametrize("dtype", [F32, BF16])
def test_gradients(dtype: Any) -> None:
    """Those of x and of the bias, as of a product with the dequantised weight."""
    x, bias = (tensor(*s, dtype=dtype).requires_grad_() for s in ((2, 3, 48), (16,)))
    weight, scale = weights(16, 48)
    y = weft.ops.linear_int8(x, weight, scale, bias)
    dy = draw.seeded(7).normal(2, 3, 16).to(dtype)
    of_x, of_bias = torch.autograd.grad(y, (x, bias), dy)
    assert of_x.dtype is of_bias.dtype is dtype
    want = dy.double() @ (weight.double() * scale)
    assert (of_x.double() - want).norm() <= 2 * ROUNDED[dtype] * want.norm()
    want = dy.double().sum((0, 1))
    assert (of_bias.double() - want).norm() <= 2 * ROUNDED[dtype] * want.norm()


def test_calls() -> None:
    given = tensor(4, 64), *weights(8, 64)
    assert torch.equal(torch.ops.weft.linear_int8(*given), weft.ops.linear_int8(*given))
    assert torch.ops.weft.linear_int8(*(t.to("meta") for t in given)).shape == (4, 8)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"x": lambda x: x.int()}, "'x' has a dtype"),
        ({"weight": lambda w: w.float()}, "'weight' has a dtype"),
        ({"scale": lambda s: s.half()}, "'scale' has a dtype"),
        ({"x": lambda x: x[:, :8]}, "incompatible shapes"),
        ({"weight": lambda w: w.T.contiguous().T}, "rows of weight are not contiguous"),
        ({"scale": lambda s: s[:, 0]}, "scale has a shape of no scaling"),
        ({"bias": lambda _: torch.zeros(9)}, "bias has another shape or dtype"),
        ({"bias": lambda _: torch.zeros(8).half()}, "bias has another shape or dtype"),
    ],
)
def test_what_is_refused(change: Any, words: str) -> None:
    weight, scale = weights(8, 64)
    given = {"x": tensor(4, 64), "weight": weight, "scale": scale}
    given |= {name: make(given.get(name)) for name, make in change.items()}
    with pytest.raises(weft.ArgumentError, match=words):
        weft.ops.linear_int8(**given)


def test_no_findings() -> None:
    given = tensor(5, 160, dtype=F16), *weights(24, 160)
    with weft.sanitize() as session:
        weft.ops.linear_int8(*given)
    assert not session.findings
