"""`weft.fuse`: results, gradients, the number of kernels, and what it refuses."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import draw
import weft

torch = pytest.importorskip("torch")
F = torch.nn.functional

from weft.ops.fuse import fused as fused_module  # noqa: E402
from weft.ops.fuse.program import FusedProgram  # noqa: E402

ROWS, N = 5, 24


def _tensors(*shapes: tuple[int, ...], dtype: Any = torch.float32) -> list[Any]:
    generator = draw.seeded(3)
    return [generator.normal(s).to(dtype) for s in shapes]


FULL, ROW, COLUMN = (ROWS, N), (N,), (ROWS, 1)
ONE_KERNEL: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "sigmoid of a + b * c": (lambda a, b, c: torch.sigmoid(a + b * c), (FULL, FULL, FULL)),
    "swish and residual": (lambda x, r: x * torch.sigmoid(x) + r, (FULL, FULL)),
    "broadcast row": (lambda x, b: F.relu(x + b) * 2, (FULL, ROW)),
    "broadcast column": (lambda x, c: (x - c).exp(), (FULL, COLUMN)),
    "gelu": (F.gelu, (FULL,)),
    "gelu by tanh": (lambda x: F.gelu(x, approximate="tanh"), (FULL,)),
    "activations": (lambda x: F.mish(x) + F.silu(x) * F.softplus(x, 2.0) - F.elu(x, 0.5), (FULL,)),
    "where": (lambda x, y: torch.where(x > 0.5, x, -y).clamp(-1, 1), (FULL, FULL)),
    "softmax": (lambda x: F.softmax(x * 0.5, -1), (FULL,)),
    "log_softmax": (lambda x: F.log_softmax(x, -1), (FULL,)),
    "layer norm": (lambda x, w, b: F.layer_norm(x, (N,), w, b), (FULL, ROW, ROW)),
    "rms norm of a sum": (lambda x, r, w: F.rms_norm(x + r, (N,), w), (FULL, FULL, ROW)),
    "rows of two warps": (lambda x: F.softmax(x, -1), ((3, 2048),)),
    "two dims of a row": (lambda x: x / x.norm(dim=(-2, -1), keepdim=True), ((3, 4, 6),)),
    "statistics": (lambda x: (x.mean(-1), x.var(-1), x - x.amax(-1, keepdim=True)), (FULL,)),
    "a number": (lambda x, y: x + y, (FULL, ())),
}


def _close(got: Any, want: Any, tolerance: float) -> None:
    for one, other in zip(
        *((v if isinstance(v, tuple) else (v,)) for v in (got, want)), strict=True
    ):
        assert (one.shape, one.dtype, one.stride()) == (other.shape, other.dtype, other.stride())
        assert torch.allclose(one.double(), other.double(), rtol=tolerance, atol=tolerance)


def test_tensors_with_gaps_that_need_long_indices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Halves of rows, as a gate has them."""
    monkeypatch.setattr("weft.ops.fuse.launch.INT32_INDICES", 0)
    left, right = _tensors((7, 80))[0].split(40, dim=-1)
    got = weft.fuse(lambda a, b: F.silu(a) * b)(left, right)
    _close(got, F.silu(left) * right, 1e-6)


@pytest.mark.parametrize("name", ONE_KERNEL)
def test_one_kernel(name: str) -> None:
    function, shapes = ONE_KERNEL[name]
    tensors = _tensors(*shapes)
    fused = weft.fuse(function)
    _close(fused(*tensors), function(*tensors), 2e-6)
    assert len(fused.explain().splitlines()) == 1 and fused.source.count("__global__") == 1


@pytest.mark.parametrize("name", ["swish and residual", "softmax", "layer norm"])
def test_half_precision_is_rounded_at_the_end(name: str) -> None:
    function, shapes = ONE_KERNEL[name]
    tensors = _tensors(*shapes, dtype=torch.bfloat16)
    exact = function(*(t.double() for t in tensors))
    got = weft.fuse(function)(*tensors)
    assert got.dtype is torch.bfloat16
    assert (got.double() - exact).abs().max() <= exact.abs().max() * 2**-8


@pytest.mark.parametrize(
    "name", ["sigmoid of a + b * c", "broadcast row", "softmax", "layer norm", "activations"]
)
def test_gradients(name: str) -> None:
    function, shapes = ONE_KERNEL[name]
    ours, theirs = ([t.requires_grad_() for t in _tensors(*shapes)] for _ in range(2))
    got, want = weft.fuse(function)(*ours), function(*theirs)
    upstream = _tensors(tuple(want.shape))[0]
    got.backward(upstream)
    want.backward(upstream)
    for mine, torchs in zip(ours, theirs, strict=True):
        _close(mine.grad, torchs.grad, 1e-4)


def test_a_gradient_of_one_argument_only() -> None:
    fused = weft.fuse(lambda x, labels: x * (labels > 2))
    x, labels = torch.ones(4, requires_grad=True), torch.arange(4)
    fused(x, labels).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [0, 0, 0, 1]


# ---- dropout -----------------------------------------------------------------------------------
DROPOUTS: dict[str, tuple[Callable[[Any, Any], Any], tuple[int, ...], Any]] = {
    "alone": (lambda drop, x: drop(x, 0.3), (3000,), torch.float32),
    "half precision": (lambda drop, x: drop(x, 0.3), FULL, torch.bfloat16),
    "odd rows": (lambda drop, x: drop(x, 0.5) + x[:1], (7, 33), torch.float32),
    "in rows, twice": (lambda drop, x: drop(F.softmax(drop(x, 0.2), -1), 0.5), FULL, torch.float32),
    "of a statistic": (
        lambda drop, x: x * drop(x.mean(-1, keepdim=True), 0.5),
        FULL,
        torch.float32,
    ),
    "transposed": (lambda drop, x: drop(x.t() * 2, 0.5), FULL, torch.float32),
}


@pytest.mark.parametrize("name", DROPOUTS)
def test_dropout_has_the_numbers_of_the_op_in_both_passes(name: str) -> None:
    function, shape, dtype = DROPOUTS[name]
    ours, theirs = (_tensors(shape, dtype=dtype)[0].requires_grad_() for _ in range(2))
    fused = weft.fuse(lambda x: function(F.dropout, x))
    torch.manual_seed(5)
    got = fused(ours)
    assert "aten" not in fused.explain().replace("aten.t.default", "").replace("aten.slice", "")
    torch.manual_seed(5)
    want = function(weft.ops.dropout, theirs)
    _close(got.contiguous(), want.contiguous(), 0 if dtype is torch.bfloat16 else 2e-6)
    upstream = _tensors(tuple(want.shape), dtype=dtype)[0]
    got.backward(upstream)
    want.backward(upstream)
    _close(ours.grad, theirs.grad, 1e-5)
    assert not torch.equal(fused(ours), got)  # the next call has other numbers


def test_dropout_that_does_nothing() -> None:
    x = torch.ones(8)
    for p, training in ((0.5, False), (0.0, True)):
        assert torch.equal(weft.fuse(lambda x, p, t: F.dropout(x, p, t) + 1)(x, p, training), x + 1)
    assert not weft.fuse(lambda x: F.dropout(x, 1.0))(x).any()
    with pytest.raises(weft.ArgumentError, match="expected 0 to 1"):
        weft.fuse(lambda x: F.dropout(x, 1.5))(x)


def test_other_random_numbers_have_no_gradient() -> None:
    fused = weft.fuse(lambda x: x * torch.rand_like(x))
    x = torch.ones(8, requires_grad=True)
    y = fused(x)
    assert "aten.rand_like.default apart: it draws random numbers" in fused.explain()
    with pytest.raises(weft.ArgumentError, match="needs the same random numbers again"):
        y.sum().backward()


# ---- layouts -----------------------------------------------------------------------------------
LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "transposed": lambda x: x.t(),
    "every second column": lambda x: x[:, ::2],
    "misaligned": lambda x: x.reshape(-1)[1:].reshape(-1, 1, 7)[:4],
    "channels last": lambda x: x.reshape(1, 5, 4, 6).to(memory_format=torch.channels_last),
    "expanded": lambda x: x[:, :1].expand(5, 9),
    "a number": lambda x: x[0, 0],
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(name: str) -> None:
    x = LAYOUTS[name](_tensors((5, 24))[0])
    y = _tensors(tuple(x.shape))[0]
    for function in (
        lambda a, b: torch.tanh(a) * b + 1,
        lambda a, b: (a + b).softmax(-1) if a.dim() else a + b,
    ):
        _close(
            weft.fuse(function)(x, y),
            function(x, y).contiguous() if name == "expanded" else function(x, y),
            2e-6,
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_misaligned_tensors_are_read_in_vectors(dtype: Any) -> None:
    fused = weft.fuse(lambda a, b: a * b + 1)
    whole = _tensors((2605,), dtype=dtype)[0]
    for offset in (1, 2, 3, 5):
        for n in (1, 9, 2600):
            x, y = whole[offset : offset + n], whole[:n]
            want = x.double() * y.double() + 1
            assert torch.allclose(fused(x, y).double(), want, rtol=1e-2), (offset, n)
        assert f", {offset % (16 // dtype.itemsize)}>(p" in fused.source


def test_long_rows_are_read_in_each_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.ops.fuse.model.ROW_BLOCK", 32)
    (x,) = _tensors((3, 601))  # more than 16 elements for each of 32 threads
    fused = weft.fuse(lambda x: x.softmax(-1))
    _close(fused(x), x.softmax(-1), 2e-6)
    assert "held_p0" not in fused.source and len(fused.explain().splitlines()) == 1


def test_the_same_code_for_other_sizes() -> None:
    fused = weft.fuse(lambda x, y: (x * y).amax(-1))
    sources = set()
    for n in (32, 64):
        x, y = _tensors((6, n), (6, n))
        _close(fused(x, y), (x * y).amax(-1), 0)
        sources.add(fused.source)
    assert len(sources) == 1


# ---- what is not fused -------------------------------------------------------------------------
APART: dict[str, tuple[Callable[..., Any], str]] = {
    "a product": (lambda x: F.relu(x @ x.t()) + 1, "aten.mm.default apart"),
    "columns": (lambda x: x.sum(0) * 2, "along other dimensions than the last"),
    "few long rows": (lambda x: x.repeat(1, 300).sum() * 2, "too few results"),
    "integers": (lambda x: (x > 0).sum(-1) * 2, "a reduction to integers"),
    "a sort": (
        lambda x: x.sort(-1)[0] * 2,
        "aten.sort.default apart: its result is not one tensor",
    ),
    "a view": (lambda x: x[:, 1:] * 2, "aten.slice.Tensor apart: a view, which moves no data"),
    "rounding": (lambda x: torch.div(x, 3, rounding_mode="floor"), "division with a rounding mode"),
}


@pytest.mark.parametrize("name", APART)
def test_apart(name: str) -> None:
    function, why = APART[name]
    (x,) = _tensors(FULL)
    fused = weft.fuse(function)
    _close(fused(x), function(x), 1e-5)
    assert why in fused.explain()


def test_a_result_smaller_than_the_space() -> None:
    x, b = _tensors(FULL, ROW)
    function: Callable[..., Any] = lambda x, b: (b * 2, x + b * 2)  # noqa: E731
    _close(weft.fuse(function)(x, b), function(x, b), 0)


def test_refused() -> None:
    with pytest.raises(weft.ArgumentError, match="changes one of its arguments"):
        weft.fuse(lambda x: x.add_(1))(torch.ones(3))
    with pytest.raises(weft.ArgumentError, match="without a tensor"):
        weft.fuse(lambda x: x)(3.0)
    with pytest.raises(weft.Error, match="needs a call first"):
        _ = weft.fuse(lambda x: x).source


# ---- torch -------------------------------------------------------------------------------------
def test_as_a_decorator_with_numbers() -> None:
    @weft.fuse
    def scaled(x: Any, scale: float = 2.0, *, shift: float = 0.0) -> Any:
        """Scales."""
        return x * scale + shift

    x = torch.ones(3)
    assert scaled(x).tolist() == [2, 2, 2] and scaled(x, 3.0, shift=1.0).tolist() == [4, 4, 4]
    assert scaled.__doc__ == "Scales."


def test_vmap_sees_the_function() -> None:
    fused = weft.fuse(lambda x: x.sin() + 1)
    x = torch.ones(3, 2)
    assert torch.equal(torch.func.vmap(fused)(x), x.sin() + 1)


def _compiled(function: Callable[..., Any]) -> tuple[Callable[..., Any], list[Any]]:
    """A function compiled as a whole, and the operations of its graphs, backward ones as well."""
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    operations: list[Any] = []

    def compiler(module: Any, _: Any) -> Any:
        operations.extend(n.target for n in module.graph.nodes if n.op == "call_function")
        return make_boxed_func(module)

    backend = aot_autograd(fw_compiler=compiler, bw_compiler=compiler)
    return torch.compile(function, backend=backend, fullgraph=True), operations


def test_one_operation_in_a_compiled_graph() -> None:
    fused = weft.fuse(lambda x, scale, *, r: (F.softmax(x * scale, -1) * r, r))

    def whole(x: Any, r: Any) -> Any:
        y, same = fused(x, 0.5, r=r)
        return y * 2 + same

    compiled, operations = _compiled(whole)
    ours, theirs = ([t.requires_grad_() for t in _tensors(FULL, FULL)] for _ in range(2))
    ours[1].requires_grad_(False)
    got = compiled(*ours)
    want = F.softmax(theirs[0] * 0.5, -1) * theirs[1] * 2 + theirs[1]
    _close(got, want, 2e-6)
    upstream = _tensors(FULL)[0]
    got.backward(upstream)
    want.backward(upstream)
    _close(ours[0].grad, theirs[0].grad, 1e-5)
    ops = torch.ops.weft
    assert operations.count(ops.fused.default) == operations.count(ops.fused_backward.default) == 1
    assert torch.ops.aten._softmax.default not in operations


def test_dropout_in_a_compiled_graph() -> None:
    fused = weft.fuse(lambda x: F.dropout(x, 0.5) * 3)
    compiled, operations = _compiled(lambda x: fused(x) + 1)
    x = torch.ones(500, requires_grad=True)
    first, second = compiled(x), compiled(x)
    first.sum().backward()
    assert x.grad is not None and torch.equal(x.grad, (first - 1).detach())
    assert not torch.equal(first, second)
    assert torch.ops.weft.fused.default in operations


# ---- random expressions ------------------------------------------------------------------------
UNARY = ("sigmoid", "tanh", "exp", "neg", "abs", "relu", "square", "sin")
BINARY = ("add", "sub", "mul", "maximum", "minimum")


def _random(rng: random.Random) -> Callable[..., Any]:
    steps = [(rng.random(), rng.choice(UNARY), rng.choice(BINARY), rng.random()) for _ in range(6)]

    def function(x: Any, b: Any, c: Any) -> Any:
        values = [x, b, c]
        for kind, unary, binary, pick in steps:
            first, second = values[int(pick * len(values))], values[-1]
            if kind < 0.4:
                values.append(getattr(torch, unary)(first).clamp(-3, 3))
            elif kind < 0.8:
                values.append(getattr(torch, binary)(first, second))
            else:
                values.append(second - second.mean(-1, keepdim=True))
        return values[-1] + x * 0

    return function


@pytest.mark.draws
@pytest.mark.parametrize("case", range(6))
def test_random_expressions(seed: str, case: int) -> None:
    rng = random.Random(f"{seed} {case}")
    function = _random(rng)
    rows, n = rng.randrange(1, 9), rng.choice((1, 3, 8, 17, 64))
    generator = draw.seeded(case)
    x, b, c = (generator.normal(s) for s in ((rows, n), (n,), (rows, 1)))
    want = function(x.double(), b.double(), c.double())
    assert torch.allclose(weft.fuse(function)(x, b, c).double(), want, rtol=1e-4, atol=1e-4)


def _same_layouts(tensors: Any, types: Any, keep: Any) -> Callable[..., int]:
    """The guard of a GPU, by Python."""
    layouts = [(t.dtype, t.shape, t.stride()) for t in tensors]
    return lambda *given: [(t.dtype, t.shape, t.stride()) for t in given] == layouts


def test_a_repeated_call_records_its_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU, a call like the last one looks neither for its program nor for the gradient's."""
    monkeypatch.setattr(fused_module, "_on_gpu", lambda tensors: True)
    monkeypatch.setattr(fused_module, "guard", _same_layouts)
    searched: list[FusedProgram] = []
    run = FusedProgram.__call__
    monkeypatch.setattr(
        FusedProgram, "__call__", lambda self, *args: searched.append(self) or run(self, *args)
    )
    function = weft.fuse(lambda gate, up: F.silu(gate) * up)
    counts = []
    # Gradients of both tensors, and of the second alone.
    for seed, needs in enumerate([(True, True)] * 4 + [(False, True)] * 3):
        values = draw.seeded(seed).normal((3, 5, 24))
        ours, theirs = ([values[i].to(d) for i in (0, 1)] for d in (torch.float32, torch.float64))
        for tensors in (ours, theirs):
            for tensor, need in zip(tensors, needs, strict=True):
                tensor.requires_grad_(need)
        before = len(searched)
        got, want = function(*ours), F.silu(theirs[0]) * theirs[1]
        got.backward(values[2])
        want.backward(values[2].double())
        counts.append(len(searched) - before)
        _close(got.detach(), want.detach().float(), 2e-6)
        for a, b, need in zip(ours, theirs, needs, strict=True):
            assert (a.grad is None) == (not need)
            if need:
                _close(a.grad, b.grad.float(), 2e-6)
    assert counts[:4] == [2, 1, 0, 0]
