"""Ladders as ops of the library: values, gradients and torch's own checks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import devices
import draw
import weft
from weft.climbing import ladder

torch = pytest.importorskip("torch")


def tensor(*shape: int, grad: bool = True, dtype: Any = None) -> Any:
    generator = draw.seeded(sum(shape) + len(shape))
    if dtype is torch.int32:
        return generator.integers(0, 256, shape, dtype=dtype).to(where())
    values = generator.normal(shape).to(where(), dtype or torch.float32)
    return values.requires_grad_(grad)


def where() -> str:
    return "cuda" if devices.current.name == "gpu" else "cpu"


def counted(x: Any) -> Any:
    return torch.bincount(x.reshape(-1), minlength=256).int()


OPS: dict[str, tuple[Callable[..., Any], list[tuple[Any, ...]]]] = {
    "add": (torch.add, [((37,), (37,)), ((3, 5), (3, 5))]),
    "transpose": (torch.t, [((5, 7),), ((64, 64),)]),
    "matmul": (torch.matmul, [((5, 7), (7, 3)), ((36, 8), (8, 12))]),
    "sum": (torch.sum, [((37,),), ((5, 7),)]),
    "amax": (torch.amax, [((37,),), ((5, 7),)]),
    "argmax": (lambda x: x.argmax(), [((37,),)]),
    "histogram": (counted, [((300,),)]),
    "scan": (lambda x: x.cumsum(0), [((37,),), ((4100,),)]),
    "softmax": (lambda x: x.softmax(-1), [((3, 8),), ((2, 3, 7),), ((8,),)]),
}
SLOW = {"matmul", "argmax", "amax"}  # first launches of large kernels
ROWS = [
    pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else [], id=name) for name in OPS
]


LADDERS = {"vecadd": "add", "reduce": "sum", "reduce_max": "amax"}
"""Ladders whose op has another name."""


ELSEWHERE = {
    "adamw": "test_optim.py",
    "attention": "test_attention.py",
    "batch_norm": "test_norm_batch.py",
    "conv2d": "test_conv.py",
    "conv_block": "test_conv_block.py",
    "cross_entropy": "test_loss_cross_entropy.py",
    "dropout": "test_random.py",
    "fft": "test_fft.py",
    "gelu": "test_activation.py",
    "layer_norm": "test_norm_layer.py",
    "max_pool": "test_pool.py",
    "quantised_gemv": "test_quantised.py",
    "rfft": "test_fft.py",
    "rms_norm": "test_norm_layer.py",
}
"""Ladders whose op has a file of tests of its own."""


def test_every_ladder_has_a_row() -> None:
    names = {name.removesuffix("_bf16") for name in ladder.names()} - set(ELSEWHERE)
    assert {LADDERS.get(name, name) for name in names} == set(OPS) <= set(dir(weft.ops))
    assert all((Path(__file__).parent / file).exists() for file in ELSEWHERE.values())


@pytest.mark.parametrize(("old", "new"), LADDERS.items())
def test_old_names(old: str, new: str) -> None:
    x = tensor(3, 5, grad=False)
    with pytest.warns(DeprecationWarning, match=f"weft.ops.{old} is deprecated; use .*{new}") as w:
        op = getattr(weft.ops, old)
    assert w[0].filename == __file__ and old not in dir(weft.ops)
    got = op(x, x) if old == "vecadd" else op(x)
    want = x + x if old == "vecadd" else OPS[new][0](x).reshape(1)
    torch.testing.assert_close(got, want)


def rounding(name: str, want: torch.Tensor) -> dict[str, float]:
    """Long sums in another order: a roundoff of the largest for the root of their length."""
    if name != "scan":
        return {}
    return {"rtol": 1.3e-6, "atol": 6e-8 * want.numel() ** 0.5 * float(want.detach().abs().max())}


@pytest.mark.parametrize("name", ROWS)
def test_values_and_gradients(name: str) -> None:
    op, (reference, cases) = getattr(weft.ops, name), OPS[name]
    dtype = torch.int32 if name == "histogram" else None
    for shapes in cases:
        args = [tensor(*shape, dtype=dtype) for shape in shapes]
        got, want = op(*args), reference(*args)
        torch.testing.assert_close(got, want, **rounding(name, want))
        if not want.requires_grad:
            assert not got.requires_grad
            continue
        weight = tensor(*want.shape, grad=False)
        grads = [torch.autograd.grad((y * weight).sum(), args) for y in (got, want)]
        torch.testing.assert_close(*grads, **rounding(name, grads[1][0]))


@pytest.mark.parametrize("name", ROWS)
def test_verify(name: str) -> None:
    dtype = torch.int32 if name == "histogram" else None
    args = [tensor(*shape, dtype=dtype) for shape in OPS[name][1][0]]
    assert getattr(weft.ops, name).verify(*args).passed


def test_softmax_of_bfloat16() -> None:
    x = tensor(4, 16, dtype=torch.bfloat16)
    y, want = weft.ops.softmax(x), x.float().softmax(-1)
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.float(), want, atol=2e-2, rtol=2e-2)
    grad = tensor(4, 16, grad=False)
    got = torch.autograd.grad(y, x, grad.bfloat16())[0]
    torch.testing.assert_close(
        got.float(), torch.autograd.grad(want, x, grad)[0].float(), atol=2e-2, rtol=5e-2
    )


def test_softmax_twice_differentiable() -> None:
    x = tensor(2, 6)

    def second(op: Callable[..., Any]) -> Any:
        (first,) = torch.autograd.grad((op(x) ** 2).sum(), x, create_graph=True)
        return torch.autograd.grad((first**3).sum(), x)[0]

    torch.testing.assert_close(second(weft.ops.softmax), second(lambda x: x.softmax(-1)))


def test_softmax_compiled_batched_and_cast() -> None:
    softmax = weft.ops.softmax
    compiled = torch.compile(lambda x: softmax(2 * x) + 1, fullgraph=True, backend="aot_eager")
    x = tensor(3, 8)
    torch.testing.assert_close(compiled(x), (2 * x).softmax(-1) + 1)
    rows = tensor(3, 5, 8, grad=False)
    torch.testing.assert_close(torch.vmap(softmax, in_dims=2)(rows), rows.movedim(2, 0).softmax(-1))
    with torch.autocast(where(), dtype=torch.bfloat16):
        assert softmax(x.half()).dtype == torch.float32


def test_a_slice_that_begins_anywhere() -> None:
    x = tensor(3000, grad=False)
    torch.testing.assert_close(weft.ops.add(x[1:2001], x[2:2002]), x[1:2001] + x[2:2002])
    torch.testing.assert_close(weft.ops.add(x[::2], x[1::2]), x[::2] + x[1::2])


def test_empty() -> None:
    assert weft.ops.add(tensor(0), tensor(0)).shape == (0,)
    assert weft.ops.transpose(tensor(0, 4)).shape == (4, 0)
    assert weft.ops.sum(tensor(0, grad=False)).tolist() == 0


@pytest.mark.gpu
def test_graph_with_scratch() -> None:
    x = torch.randn(64, 20000, device="cuda")  # rows that several blocks share
    weft.ops.softmax(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = weft.ops.softmax(x)
    for seed in range(3):
        x.copy_(draw.seeded(seed).normal(64, 20000))
        graph.replay()
        torch.testing.assert_close(y, x.softmax(-1))
        torch.testing.assert_close(weft.ops.softmax(x), y)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        pytest.param(
            lambda: weft.ops.add(tensor(4), tensor(5)),
            "weft.ops.add: the shapes cannot be broadcast together\n  got: [4], [5]",
            id="sizes differ",
        ),
        pytest.param(lambda: weft.ops.transpose(tensor(4)), "dim 1 of 1 dimensions", id="rank"),
        pytest.param(
            lambda: weft.ops.softmax(tensor(4, 4).double()),
            "float32, float16, bfloat16",
            id="dtype",
        ),
    ],
)
def test_messages(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(weft.ArgumentError) as caught:
        call()
    assert words in str(caught.value)


def test_no_such_ladder() -> None:
    with pytest.raises(AttributeError, match=r"weft.ops has no 'sofmax'; did you mean 'softmax'\?"):
        _ = weft.ops.sofmax
    with pytest.raises(AttributeError, match=r"no 'qqq'; dir\(weft.ops\) lists the ops"):
        _ = weft.ops.qqq
