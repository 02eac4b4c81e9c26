"""Kernels as ops of PyTorch, on CPU tensors (simulated) or, with --device gpu, on CUDA tensors."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import draw
import weft

torch = pytest.importorskip("torch")

from torch_kernels import MODULE, randn, row_sums, sized, square, where  # noqa: E402


# ---- schemas ---------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kernel", "options", "schema"),
    [
        pytest.param("square", {}, "(Tensor x) -> Tensor y", id="n is the number of elements"),
        pytest.param(
            "cubic<double>", {}, "(Tensor x, float a, float b) -> Tensor y", id="template"
        ),
        pytest.param("split", {}, "(Tensor x, bool up) -> (Tensor whole, Tensor sign)", id="two"),
        pytest.param(
            "row_sums", {}, "(Tensor x, int rows, int columns) -> Tensor y", id="sizes as ints"
        ),
        pytest.param(
            "row_sums",
            {"args": {"rows": "x.shape[0]", "columns": "x.shape[1]"}},
            "(Tensor x) -> Tensor y",
            id="sizes declared",
        ),
    ],
)
def test_schema_is_that_of_the_signature(kernel: str, options: Any, schema: str) -> None:
    op = MODULE.kernel(kernel).as_op("mine::derived", **options)
    assert op.body.schema.text == schema
    assert str(op.overload._schema) == f"mine::derived{schema}"


def test_signature_with_sizes() -> None:
    op, x = sized(), randn(5, 70)
    assert op.body.schema.text == "(Tensor x) -> Tensor y"
    torch.testing.assert_close(op(x), x.sum(1))
    assert op.verify(x).passed
    both = MODULE.square_backward.as_op(
        "mine::both", "x:f32[m,n] grad:f32[m,n] -> dx:f32[m,n]", args={"n": "m * n"}
    )
    x = randn(4, 6)
    assert torch.equal(both(x, x), 2 * x * x)


# ---- values ----------------------------------------------------------------------------------
def test_plain_call_and_gradient() -> None:
    op, x = square(), randn(1000, grad=True)
    y = op(x)
    assert torch.equal(y, x * x) and y.device == x.device
    (dx,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(dx, 2 * x)
    assert torch.equal(torch.ops.mine.square(x), y)


def test_second_derivative_of_a_formula() -> None:
    x = randn(10, grad=True)
    (dx,) = torch.autograd.grad(square()(x).sum(), x, create_graph=True)
    (ddx,) = torch.autograd.grad(dx.sum(), x)
    assert torch.equal(ddx, torch.full_like(x, 2))


@pytest.mark.parametrize("made", ["kernel", "op"])
def test_backward_by_a_kernel(made: str) -> None:
    backward = MODULE.square_backward
    if made == "op":
        backward = backward.as_op("mine::dsquare", "(Tensor grad, Tensor x) -> Tensor")
    op, x = square("mine::square_k", backward=backward), randn(300, grad=True)
    (dx,) = torch.autograd.grad(op(x).sum(), x)  # the gradient of a sum is an expanded number
    assert torch.equal(dx, 2 * x)


def test_several_results_and_scalars() -> None:
    op = MODULE.split.as_op(
        "mine::split",
        "(Tensor x, bool up=False) -> (Tensor whole, Tensor sign)",
        differentiable=False,
    )
    x = randn(50, grad=True)
    for args, whole in (((x,), x.floor()), ((x, True), x.ceil())):
        found = op(*args)
        assert torch.equal(found[0], whole) and torch.equal(found[1], x.sign().int())
        assert not found[0].requires_grad
    assert torch.equal(op(x, up=True)[0], x.ceil())


def test_declared_sizes_shapes_and_shared_memory() -> None:
    x = randn(5, 70, grad=True)
    y = row_sums()(x)
    assert y.shape == (5,)
    torch.testing.assert_close(y, x.sum(1))
    (dx,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(dx, torch.ones_like(x))


def test_results_that_start_as_zeros() -> None:
    op = MODULE.counts.as_op("mine::counts", grid="cdiv(x.numel(), 256)", out=(8,), clear="bins")
    x = torch.arange(100, dtype=torch.int32, device=where()) % 8
    for _ in range(2):
        assert torch.equal(op(x), torch.bincount(x, minlength=8).int())


def test_in_place() -> None:
    op = MODULE.axpy.as_op("mine::axpy_", "(float a, Tensor x, Tensor(a!) y) -> ()")
    x, y = randn(20), torch.ones(20, device=where())
    assert op(2.0, x, y) is None
    torch.testing.assert_close(y, 1 + 2 * x)
    assert op.verify(2.0, x, y).passed


def test_function_that_launches_several() -> None:
    @weft.as_op("mine::fourth", "(Tensor x) -> Tensor y", backward=lambda ctx, g: 4 * ctx.x**3 * g)
    def fourth(x: Any, y: Any) -> None:
        between, grid = torch.empty_like(x), weft.cdiv(x.numel(), 64)
        MODULE.square[grid, 64](x, between, x.numel())
        MODULE.square[grid, 64](between, y, x.numel())

    x = randn(100, grad=True)
    assert torch.equal(fourth(x), (x * x) ** 2)
    (dx,) = torch.autograd.grad(fourth(x).sum(), x)
    torch.testing.assert_close(dx, 4 * x**3)


def test_own_setup_of_the_context() -> None:
    def save(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])

    op = square(
        "mine::square_s", setup_context=save, backward=lambda ctx, g: 2 * ctx.saved_tensors[0] * g
    )
    x = randn(10, grad=True)
    assert torch.equal(torch.autograd.grad(op(x).sum(), x)[0], 2 * x)


def test_copies_where_declared() -> None:
    x = randn(6, 4).t()
    assert torch.equal(square("mine::square_c", contiguous=True)(x), x * x)
    with pytest.raises(weft.ArgumentError, match="not contiguous"):
        square()(x)


def test_empty_tensors() -> None:
    assert square()(randn(0)).shape == (0,)


# ---- torch's systems -------------------------------------------------------------------------
def test_compile_without_a_graph_break() -> None:
    op = square()
    compiled = torch.compile(lambda x: op(x + 1) * 3, fullgraph=True, backend="aot_eager")
    for n in (20, 33, 47):  # the second size makes it dynamic
        x = randn(n, grad=True)
        y = compiled(x)
        torch.testing.assert_close(y, 3 * (x + 1) ** 2)
        torch.testing.assert_close(torch.autograd.grad(y.sum(), x)[0], 6 * (x + 1))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # inductor's own
def test_compile_by_inductor() -> None:
    op, x = square(), randn(64, grad=True)
    y = torch.compile(lambda x: (op(x.sin()) + 1).relu(), fullgraph=True)(x)
    torch.testing.assert_close(y, x.sin() ** 2 + 1)


def test_meta_tensors_give_shapes() -> None:
    y = row_sums()(torch.empty(5, 7, device="meta"))
    assert y.shape == (5,) and y.device.type == "meta" and y.dtype == torch.float32


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("how", ["leading", "loop"])
def test_vmap(how: str, dim: int) -> None:
    x = randn(3, 4, 5)
    op = square("mine::square_v", vmap=how)
    assert torch.equal(torch.vmap(op, in_dims=dim, out_dims=dim)(x), x * x)
    per_row = torch.vmap(row_sums(vmap="loop"), in_dims=dim)(x)
    torch.testing.assert_close(per_row, x.movedim(dim, 0).sum(2))


def test_autocast() -> None:
    op, x = square("mine::square_a", autocast=torch.float32), randn(10).bfloat16()
    with torch.autocast(where(), dtype=torch.bfloat16):
        assert torch.equal(op(x), x.float() ** 2)
    with pytest.raises(weft.ArgumentError, match="bfloat16"):
        op(x)


def test_made_twice() -> None:
    first = square("mine::again")
    backward = square("mine::holder", backward=lambda ctx, g: g * first(ctx.x))
    second = MODULE.square.as_op("mine::again", "(Tensor x) -> Tensor", block=64)
    assert first is second and first(randn(10)).shape == (10,)
    x = randn(10, grad=True)
    torch.testing.assert_close(torch.autograd.grad(backward(x).sum(), x)[0], x * x)


def test_copied_and_pickled() -> None:
    op = square()
    assert copy.deepcopy(op) is op and pickle.loads(pickle.dumps(op)) is op
    gone = pickle.dumps(op).replace(b"mine::square", b"mine::sqare_")
    with pytest.raises(weft.ArgumentError, match="is not made in this process"):
        pickle.loads(gone)


@pytest.mark.gpu
def test_cuda_graph() -> None:
    op = square()
    x = torch.randn(1000, device="cuda")
    op(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = op(x) + 1
    for seed in range(3):
        x.copy_(draw.seeded(seed).normal(1000))
        graph.replay()
        torch.testing.assert_close(y, x * x + 1)


@pytest.mark.gpu
def test_cuda_and_cpu_by_one_op() -> None:
    op, x = square(), draw.seeded(1).normal(1000)
    assert torch.equal(op(x.cuda()).cpu(), op(x))
    with pytest.raises(weft.ArgumentError, match="is not where"):
        MODULE.square_backward.as_op("mine::mixed")(x, x.cuda())


# ---- verify ----------------------------------------------------------------------------------
def test_verify_reports() -> None:
    cubic = MODULE.kernel("cubic<double>").as_op(
        "mine::cubic", backward=lambda ctx, g: (3 * ctx.a * ctx.x + 2 * ctx.b) * ctx.x * g
    )
    report = cubic.verify(randn(5, dtype=torch.float64, grad=True), 2.0, -1.0)
    assert report.passed and "gradcheck" in str(report) and "steps of 1e-06" in str(report)
    plain = weft.ops.verify(square(), randn(5))
    assert plain.rows[-1].passed is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        pytest.param(
            {"backward": lambda ctx, g: 3 * ctx.x * g}, "gradcheck: Jacobian", id="wrong gradient"
        ),
        pytest.param({"backward": None}, "has no backward", id="no gradient"),
    ],
)
def test_verify_refuses(options: Any, words: str) -> None:
    with pytest.raises(weft.CheckFailed) as caught:
        weft.ops.verify(square("mine::wrong", **options), randn(5, grad=True))
    assert words in str(caught.value)


def test_verify_finds_a_fake_kernel_that_lies() -> None:
    shapes = iter([(5,), (6,), (5,), (6,), (5,), (6,)] * 20)
    op = MODULE.square.as_op("mine::lies", out=lambda x: next(shapes), grid=1)
    with pytest.raises(weft.CheckFailed, match="faketensor"):
        op.verify(randn(5))
