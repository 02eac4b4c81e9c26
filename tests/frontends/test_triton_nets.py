"""The kernels that networks are made of, in Triton, against torch in float64."""

from __future__ import annotations

import math
from typing import Any

import pytest

import draw

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")

import weft.triton  # noqa: E402
from triton_kernels import nets  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
weft.triton.install(alone=True)  # also where there is a GPU


def normal(*shape: int, seed: int = 0) -> Any:
    return draw.seeded(seed).normal(*shape)


def close(got: Any, wanted: Any, tolerance: float) -> None:
    torch.testing.assert_close(got.double(), wanted.double(), rtol=tolerance, atol=tolerance)


def test_dropout() -> None:
    x, out = normal(1000), torch.zeros(1000)
    nets.dropout[(4,)](x, out, 1000, 0.25, 7, BLOCK=256)
    kept = out != 0
    assert 650 < kept.sum() < 850
    close(out[kept], x[kept].double() / 0.75, 1e-6)
    again = torch.zeros(1000)
    nets.dropout[(8,)](x, again, 1000, 0.25, 7, BLOCK=128)
    assert torch.equal(out, again), "the same seed gives the same numbers in other blocks"


def test_layer_norm() -> None:
    rows, n = 12, 100
    x, dy = normal(rows, n), normal(rows, n, seed=1)
    w, b = 1 + normal(n, seed=2), normal(n, seed=3)
    y, dx = torch.zeros(2, rows, n)
    mean, rstd = torch.zeros(2, rows)
    nets.layer_norm[(rows,)](x, y, w, b, mean, rstd, n, n, 1e-5, BLOCK=128, num_warps=1)
    groups = 4
    part_w, part_b = torch.zeros(2, groups, n)
    locks = torch.zeros(2 * groups, dtype=torch.int32)
    nets.layer_norm_dx[(rows,)](
        dx, dy, part_w, part_b, x, w, mean, rstd, locks, n, n, GROUPS=groups, BLOCK=128
    )
    dw, db = torch.zeros(2, n)
    nets.layer_norm_dwdb[(4,)](part_w, part_b, dw, db, groups, n, BM=4, BN=32)
    leaves = [t.double().requires_grad_() for t in (x, w, b)]
    wanted = torch.nn.functional.layer_norm(leaves[0], (n,), leaves[1], leaves[2], 1e-5)
    wanted.backward(dy.double())
    close(y, wanted.detach(), 1e-5)
    for got, leaf in zip((dx, dw, db), leaves, strict=True):
        close(got, leaf.grad, 1e-5)


MATMULS = {
    "f16": (torch.float16, torch.float16, "ieee", 2e-3),
    "bf16": (torch.bfloat16, torch.float32, "ieee", 1e-4),
    "tf32": (torch.float32, torch.float32, "tf32", 3e-2),
    "tf32x3": (torch.float32, torch.float32, "tf32x3", 1e-4),
    "int8": (torch.int8, torch.int32, "ieee", 0),
}


@pytest.mark.parametrize(
    ("inputs", "output", "precision", "tolerance"), MATMULS.values(), ids=MATMULS.keys()
)
def test_matmul(inputs: Any, output: Any, precision: str, tolerance: float) -> None:
    """Ragged edges, a transposed operand, and an activation."""
    M, N, K = 70, 50, 90
    scale = 20 if inputs == torch.int8 else 1
    a, b = (normal(M, K) * scale).to(inputs), (normal(N, K, seed=1) * scale).to(inputs).t()
    c = torch.zeros(M, N, dtype=output)
    grid = lambda meta: (triton.cdiv(M, meta["BM"]) * triton.cdiv(N, meta["BN"]),)  # noqa: E731
    nets.matmul[grid](
        a, b, c, M, N, K, *a.stride(), *b.stride(), *c.stride(),
        BM=32, BN=32, BK=32, GROUP=2, PRECISION=precision, ACTIVATION="relu", num_stages=2,
    )  # fmt: skip
    close(c, (a.double() @ b.double()).relu(), tolerance)


def test_fast_tensor_cores() -> None:
    """The same code, other sums: near, and not the same bits."""
    n = 64
    a, b = normal(n, n).half(), normal(n, n, seed=1).half()
    exact, fast = torch.zeros(2, n, n)
    tile: dict[str, Any] = dict(BM=32, BN=32, BK=32, GROUP=2, PRECISION="ieee", ACTIVATION="")
    for math_mode, c in (("exact", exact), ("fast", fast)):
        kernel = weft.kernel(nets.matmul, math=math_mode)
        kernel[(4,)](a, b, c, n, n, n, n, 1, n, 1, n, 1, **tile, num_stages=2)
        close(c, a.double() @ b.double(), 1e-4)
    assert not torch.equal(exact, fast)
    with pytest.raises(weft.LaunchError, match="unknown math mode"):
        weft.kernel(nets.matmul, math="quick")


@pytest.mark.parametrize("causal", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_attention(causal: bool) -> None:
    heads, T, D = 2, 64, 32
    q, k, v, do = (normal(heads, T, D, seed=s).half() for s in range(4))
    out, lse = torch.zeros_like(q), torch.zeros(heads, T)
    scale = 1 / math.sqrt(D)
    tile: dict[str, Any] = dict(D=D, BM=32, BN=32, CAUSAL=causal)
    nets.attention[T // 32, heads](q, k, v, out, lse, scale, T, **tile)
    delta = torch.zeros(heads, T)
    nets.attention_delta[(heads * T // 32,)](out, do, delta, D=D, BM=32)
    dq, dk, dv = torch.zeros(3, heads, T, D)
    nets.attention_backward[T // 32, heads](
        q, k, v, do, dq, dk, dv, lse, delta, scale, T, **tile, num_stages=1
    )
    leaves = [t.double().requires_grad_() for t in (q, k, v)]
    scores = leaves[0] @ leaves[1].transpose(1, 2) * scale
    if causal:
        scores = scores.masked_fill(~torch.ones(T, T, dtype=torch.bool).tril(), -math.inf)
    wanted = torch.softmax(scores, -1) @ leaves[2]
    wanted.backward(do.double())
    close(out, wanted.detach(), 4e-3)
    for got, leaf in zip((dq, dk, dv), leaves, strict=True):
        close(got, leaf.grad, 1e-2)
