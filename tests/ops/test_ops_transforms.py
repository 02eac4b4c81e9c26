"""Transforms of torch.func over ops: gradients, batches of gradients, Jacobians, against torch."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import draw

torch = pytest.importorskip("torch")

from torch.func import grad, jacfwd, jacrev, vjp, vmap  # noqa: E402

import weft  # noqa: E402

F = torch.nn.functional
OURS = weft.ops
THEIRS = SimpleNamespace(
    **{n: getattr(F, n) for n in ("cross_entropy", "layer_norm", "group_norm", "linear", "gelu",
                                  "silu", "conv2d", "max_pool2d", "embedding")},
    **{n: getattr(torch, n) for n in ("softmax", "sum", "amax", "var", "matmul", "mul", "cumsum")},
    attention=lambda q, k, v: torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1) @ v,
    rfft=torch.fft.rfft,
)  # fmt: skip


def drawn(*shape: int, seed: int = 1) -> Any:
    return draw.seeded(seed).normal(shape)


def network(ops: Any, first: Any, second: Any, bias: Any, x: Any, label: Any) -> Any:
    hidden = ops.layer_norm(ops.gelu(ops.linear(x[None], first, bias)), (6,))
    return ops.cross_entropy(ops.linear(hidden, second), label[None])


PARAMETERS = (drawn(6, 8), drawn(3, 6, seed=2), drawn(6, seed=3))
EACH = (None, None, None, 0, 0)
ROWS, LABELS = drawn(4, 8, seed=4), torch.tensor([0, 2, 1, 1])
IMAGES, FILTERS = drawn(3, 1, 2, 6, 6), drawn(4, 2, 3, 3, seed=2)
HEADS = tuple(drawn(2, 1, 2, 5, 8, seed=s) for s in range(3))
INDICES = torch.tensor([0, 2, 2])

TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "grad": lambda ops: grad(lambda *p: network(ops, *p, ROWS[0], LABELS[0]), (0, 1, 2))(
        *PARAMETERS
    ),
    "gradients of each sample": lambda ops: vmap(
        grad(lambda *a: network(ops, *a), (0, 1, 2)), in_dims=EACH
    )(*PARAMETERS, ROWS, LABELS),
    "gradient of a batch": lambda ops: grad(
        lambda *p: vmap(lambda *a: network(ops, *a), in_dims=EACH)(*p, ROWS, LABELS).sum(),
        (0, 1, 2),
    )(*PARAMETERS),
    "jacrev": lambda ops: jacrev(lambda x: ops.softmax(x, -1))(ROWS),
    "vjp, after its transform has ended": lambda ops: vjp(ops.silu, ROWS)[1](ROWS),
    "jacrev of jacrev": lambda ops: jacrev(jacrev(lambda x: ops.silu(x).sum()))(ROWS[0]),
    "grad of grad": lambda ops: grad(
        lambda x: grad(lambda y: ops.softmax(y, -1).square().sum())(x).square().sum()
    )(ROWS),
    "attention": lambda ops: vmap(grad(lambda *qkv: ops.attention(*qkv).square().sum(), (0, 1, 2)))(
        *HEADS
    ),
    "convolution and pooling": lambda ops: vmap(
        grad(lambda w, x: ops.max_pool2d(ops.conv2d(x, w), 2).square().sum()), in_dims=(None, 0)
    )(FILTERS, IMAGES),
    "group_norm": lambda ops: grad(lambda x: (ops.group_norm(x, 2) * IMAGES[1]).sum())(IMAGES[0]),
    "reductions": lambda ops: grad(
        lambda x: (ops.sum(x, -1).square() + ops.amax(x, -1) + ops.var(x, -1)).sum()
    )(ROWS),
    "scans": lambda ops: grad(lambda x: ops.cumsum(x, -1).square().sum())(ROWS),
    "a product, twice": lambda ops: jacrev(grad(lambda x: ops.matmul(x, x.t()).sin().sum()))(
        ROWS[:2, :3]
    ),
    "a broadcast operand": lambda ops: vmap(
        grad(lambda x, y: ops.mul(x, y).square().sum(), (0, 1)), in_dims=(0, None)
    )(ROWS, ROWS[0]),
    "rows of a table": lambda ops: grad(lambda t: ops.embedding(INDICES, t).square().sum())(ROWS),
    "a Fourier transform": lambda ops: grad(
        lambda x: torch.view_as_real(ops.rfft(x)).square().sum()
    )(ROWS),
}


@pytest.mark.parametrize("subject", TRANSFORMS)
def test_as_torch(subject: str) -> None:
    transform = TRANSFORMS[subject]
    torch.testing.assert_close(transform(OURS), transform(THEIRS), rtol=1e-4, atol=1e-4)


def test_outer_gradients_are_recorded() -> None:
    """A leaf outside of the transform gets its gradient."""
    leaves = [w.clone().requires_grad_() for w in (ROWS, ROWS)]
    for ops, leaf in zip((OURS, THEIRS), leaves, strict=True):
        grad(lambda x, w=leaf, o=ops: o.mul(o.silu(x), w).sum())(ROWS[0]).sum().backward()
    torch.testing.assert_close(leaves[0].grad, leaves[1].grad)


def test_an_op_of_a_kernel() -> None:
    source = """extern "C" __global__ void cube(const float* x, float* y, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) y[i] = x[i] * x[i] * x[i];
    }"""
    cube = weft.cuda(source).cube.as_op(
        "transforms::cube",
        block=32,
        vmap="leading",
        backward=lambda ctx, grad: 3 * ctx.x.square() * grad,
    )
    torch.testing.assert_close(grad(lambda x: cube(x).sum())(ROWS), 3 * ROWS.square())
    each = vmap(grad(lambda x: cube(x=x).sum()))(ROWS)
    torch.testing.assert_close(each, 3 * ROWS.square())


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_refused() -> None:
    with pytest.raises(weft.ArgumentError, match="weft::elementwise has no gradient"):
        grad(lambda x: OURS.elementwise("a * a", x).sum())(ROWS)
    with pytest.raises(NotImplementedError, match="jvp"):  # forward-mode derivatives
        jacfwd(OURS.silu)(ROWS[0])


def test_nothing_to_differentiate() -> None:
    """An op without a gradient may be part of a function whose gradient does not need it."""
    values = grad(lambda x: (x * OURS.argmax(x)).sum())(ROWS)
    torch.testing.assert_close(values, torch.full_like(ROWS, float(ROWS.argmax())))
