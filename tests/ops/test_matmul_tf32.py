"""Products of float32 in tf32, on Hopper's tensor cores."""

from __future__ import annotations

from typing import Any

import pytest

import draw
import weft
from candidates import by

torch = pytest.importorskip("torch")


def matrix(rows: int, columns: int, seed: int) -> Any:
    return draw.seeded(seed).normal((rows, columns))


def rounded(x: Any) -> Any:
    """To 10 bits of fraction, to nearest even, as copies by tensor maps round."""
    bits = x.contiguous().view(torch.int32)
    return ((bits + 0xFFF + (bits >> 13 & 1)) & ~0x1FFF).view(torch.float32).double()


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("tf32, 64 x 32, pipelined", (70, 40, 136)),
        ("tf32, 64 x 32, turned, pipelined", (70, 37, 100)),
        ("tf32, 64 x 32, K in 2, pipelined", (33, 72, 200)),
    ],
)
def test_tiles(name: str, size: tuple[int, int, int]) -> None:
    """Operands are rounded, and sums are those of single precision."""
    m, n, k = size
    a, b = matrix(m, k, 1), matrix(n, k, 2).T
    got = by(name, "matmul", a, b, precision="tf32")
    want = rounded(a) @ rounded(b.T).T
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("orders", [(True, False), (False, True), (False, False)])
def test_operands_that_are_copied(orders: tuple[bool, bool]) -> None:
    """K is not contiguous in A or in B; batches, and B that all of them share."""
    a, b = draw.seeded(1).normal((3, 40, 68)), matrix(68, 48, 2)
    a = a if orders[0] else a.transpose(1, 2).contiguous().transpose(1, 2)
    b = b.T.contiguous().T if orders[1] else b
    got = by("copy, tf32, 64 x 16, pipelined", "matmul", a, b, precision="tf32")
    want = rounded(a) @ rounded(b)
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("turned", ["", "turned, "])
def test_bias_and_activation(turned: str) -> None:
    a, b = matrix(40, 64, 3), matrix(40, 64, 4).T
    name = f"tf32, 64 x 32, {turned}pipelined"
    for shape in ((40,), (40, 40), (40, 1)):
        bias = draw.seeded(5).normal(shape)
        got = by(name, "addmm", bias, a, b, activation="silu", precision="tf32")
        want = torch.nn.functional.silu(rounded(a) @ rounded(b) + bias.double())
        torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-4)


def test_it_is_allowed_and_not_demanded() -> None:
    """Other GPUs, and rows that no copy can align, have the kernels of single precision."""
    a, b = torch.empty(4096, 4096), torch.empty(4096, 4096).T
    chosen = weft.ops.explain(weft.ops.matmul, a, b, precision="tf32").choice.used.name
    assert chosen.startswith("tf32")
    used = weft.ops.explain(weft.ops.matmul, a, b).choice.used.name
    assert not used.startswith("tf32")
    odd = weft.ops.explain(weft.ops.matmul, a[:, :4095], b[:4095], precision="tf32")
    ampere = weft.ops.explain(weft.ops.matmul, a, b, precision="tf32", device="sim:a100")
    for found in (odd, ampere):
        names = [c.name for c in (found.choice.used, *found.choice.others)]
        assert not any("tf32" in name.removeprefix("3xtf32") for name in names)


def test_gradients_have_the_precision() -> None:
    """All three products of a linear layer are in tf32."""
    x, weight = matrix(40, 64, 6).requires_grad_(), matrix(48, 64, 7).requires_grad_()
    result = weft.ops.linear(x, weight, None, "", "tf32")
    grad = matrix(40, 48, 8)
    found = torch.autograd.grad(result, [x, weight], grad)
    for got, a, b in ((result, x, weight.T), (found[0], grad, weight), (found[1], grad.T, x)):
        want = a.detach().double() @ b.detach().double()
        assert (got.double() - want).norm() / want.norm() < 1e-3


def test_a_precision_of_no_dtype() -> None:
    x = torch.zeros(4, 4, dtype=torch.float16)
    with pytest.raises(weft.ArgumentError, match="unknown precision 'tf32'"):
        weft.ops.linear(x, x, precision="tf32")
    with pytest.raises(weft.ArgumentError, match="precision 'fp64'"):
        weft.ops.matmul(x.float(), x.float(), precision="fp64")
