"""layer_norm and rms_norm, alone and of a sum: forward and backward, held against float64."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import pytest

import draw

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

import weft  # noqa: E402
from weft.ops.core import library  # noqa: E402
from weft.ops.core.runner import runner  # noqa: E402
from weft.ops.families.norm import forward  # noqa: E402
from weft.ops.families.norm.rows import RowStrategy  # noqa: E402

EPS = 1e-5
LIMITS = {torch.float32: 2e-5, torch.float16: 8e-3, torch.bfloat16: 6e-2}
F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16


def drawn(shape: Any, seed: int, dtype: Any = F32, scale: float = 1, shift: float = 0) -> Any:
    values = draw.seeded(seed).normal(shape)
    return (values * scale + shift).to(dtype)


def wide(tensors: Any) -> list[Any]:
    return [None if t is None else t.detach().double().requires_grad_() for t in tensors]


def leaves(tensors: Any) -> list[Any]:
    return [None if t is None else t.detach().clone().requires_grad_() for t in tensors]


def reference(name: str, tensors: Any, shape: Any, eps: float = EPS) -> tuple[Any, ...]:
    """The results of an op by torch: of x, residual where there is one, and weights."""
    added = name.startswith("add_")
    x, weights = (tensors[0] + tensors[1], tensors[2:]) if added else (tensors[0], tensors[1:])
    if name.endswith("layer_norm"):
        y = F.layer_norm(x, shape, *weights, eps=eps)
    else:
        y = F.rms_norm(x, shape, weights[0], eps)
    return (y, x) if added else (y,)


def results(name: str, tensors: Any, shape: Any, eps: float = EPS) -> tuple[Any, ...]:
    rows = 1 + name.startswith("add_")
    y = getattr(weft.ops, name)(*tensors[:rows], shape, *tensors[rows:], eps=eps)
    return y if isinstance(y, tuple) else (y,)


def compare(name: str, tensors: Any, shape: Any, seed: int) -> None:
    """Results without gradients, results with them, and all gradients."""
    dtype = tensors[0].dtype
    plain = results(name, tensors, shape)
    ours, theirs = leaves(tensors), wide(tensors)
    got, want = results(name, ours, shape), reference(name, theirs, shape)
    grads = [drawn(g.shape, seed + i, dtype) for i, g in enumerate(got)]
    torch.autograd.backward(got, grads)
    torch.autograd.backward(want, [g.double() for g in grads])
    for a, b, c in zip(got, want, plain, strict=True):
        assert torch.equal(a, c)
        close(a, b, dtype)
    for a, b in zip(ours, theirs, strict=True):
        if a is not None:
            close(a.grad, b.grad, a.dtype if a.dtype is not F32 else dtype)


def close(got: Any, want: Any, dtype: Any) -> None:
    scale = max(1.0, float(want.detach().abs().max())) if want.numel() else 1.0
    torch.testing.assert_close(
        got.detach().double(), want.detach(), rtol=LIMITS[dtype], atol=LIMITS[dtype] * scale
    )


# Shapes that share kernels stand together: compiling takes longer than running.
CASES: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], Any, Any]] = {
    "layer norm of whole vectors": ("layer_norm", (5, 64), (64,), F32, F32),
    "layer norm over two dimensions": ("layer_norm", (3, 2, 4, 16), (4, 16), F32, F32),
    "layer norm of ragged rows": ("layer_norm", (11, 61), (61,), F32, F32),
    "layer norm of short odd rows": ("layer_norm", (37, 3), (3,), F32, F32),
    "layer norm of bf16 with weights of float": ("layer_norm", (9, 136), (136,), BF16, F32),
    "layer norm without weights": ("layer_norm", (2, 8), (8,), F16, None),
    "layer norm of a long row": ("layer_norm", (2, 33000), (33000,), F32, F32),
    "layer norm of one long row": ("layer_norm", (1, 33000), (33000,), F32, F32),
    "RMS norm of one long odd row": ("rms_norm", (1, 70001), (70001,), BF16, BF16),
    "RMS norm of whole vectors": ("rms_norm", (5, 64), (64,), F32, F32),
    "RMS norm of half": ("rms_norm", (11, 40), (40,), F16, F16),
    "layer norm of a sum": ("add_layer_norm", (5, 64), (64,), F32, F32),
    "RMS norm of a sum": ("add_rms_norm", (5, 64), (64,), F32, F32),
    "no rows": ("layer_norm", (0, 64), (64,), F32, F32),
    "rows of no elements": ("rms_norm", (3, 0), (0,), F32, F32),
}


@pytest.mark.parametrize("subject", CASES)
def test_against_float64(subject: str) -> None:
    name, shape, normalized, dtype, of_weights = CASES[subject]
    rows = [drawn(shape, i, dtype) for i in range(1 + name.startswith("add_"))]
    count = 2 if name.endswith("layer_norm") else 1
    weights = [
        None if of_weights is None else drawn(normalized, 10 + i, of_weights) for i in range(count)
    ]
    compare(name, [*rows, *weights], normalized, 20)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["layer_norm", "rms_norm", "add_layer_norm", "add_rms_norm"])
@pytest.mark.parametrize("dtype", [F32, BF16])
@pytest.mark.parametrize("n", [1, 7, 257, 1000, 4096, 8193, 40000, 70001])
def test_all_lengths(name: str, dtype: Any, n: int) -> None:
    rows = [drawn((3, n), i, dtype) for i in range(1 + name.startswith("add_"))]
    count = 2 if name.endswith("layer_norm") else 1
    compare(name, [*rows, *(drawn((n,), 10 + i) for i in range(count))], (n,), 20)


@pytest.mark.parametrize("n", [64, 33000], ids=["in registers", "in two passes"])
def test_large_mean(n: int) -> None:
    """Elements of 10,000 with small differences lose no digits: their own are the limit."""
    x = drawn((2, n), 1, shift=1e4)
    want = F.layer_norm(x.double(), (n,))
    assert float((weft.ops.layer_norm(x, (n,)) - want).abs().max()) < 1e-5


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_no_finite_numbers(name: str) -> None:
    """A row with NaN or infinity does not change others, and is what torch gives."""
    x = drawn((5, 64), 3)
    x[1, 7], x[3, 60] = torch.nan, torch.inf
    got, want = results(name, [x, None], (64,)), reference(name, [x.double(), None], (64,))
    torch.testing.assert_close(got[0].double(), want[0], equal_nan=True, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
@pytest.mark.parametrize("dtype", [F32, BF16])
def test_blocks_that_read_their_next_row_ahead(
    name: str, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long row has a block of 1,024 threads to itself; this is the same with 64 threads."""
    strategy = RowStrategy(64, 1, 2, 1, prefetch=True)
    monkeypatch.setattr(forward, "_strategy", lambda *args: strategy)
    tensors = [drawn((300, 488), 1, dtype, shift=3), *(drawn((488,), s, dtype) for s in (2, 3))]
    tensors = tensors[: 3 if name == "layer_norm" else 2]
    call = getattr(weft.ops, name).op
    request = call.request(*call.bound((tensors[0], (488,), *tensors[1:]), {}))
    chosen = next(c for c in _all(call.choice(request)) if c.name == "rows")
    got = runner(chosen.build(), len(tensors), tensors[0].device)(*tensors)
    (want,) = reference(name, wide(tensors), (488,))
    close(got, want, dtype)


def _all(choice: Any) -> tuple[Any, ...]:
    return (choice.used, *choice.others)


GRADIENTS = {
    "several rows of a block": ((40, 136), BF16, "rows and weights"),
    "columns of a block that are not there": ((7, 72), F16, "rows and weights"),
    "a block for a row": ((5, 2056), F32, "rows and weights"),
    "odd rows": ((37, 61), F32, "rows and weights"),
    "many rows": ((40, 136), BF16, "rows"),
    "many odd rows": ((37, 61), F32, "rows"),
}


@pytest.mark.parametrize("subject", GRADIENTS)
@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_gradients_of_rows_and_weights(name: str, subject: str) -> None:
    """By one launch for rows and weights, and by one for each."""
    shape, dtype, candidate = GRADIENTS[subject]
    x, dy, total = (drawn(shape, 30 + i, dtype) for i in range(3))
    weight = drawn(shape[1:], 33, dtype)
    centred = name == "layer_norm"
    exact = wide([x, weight, drawn(shape[1:], 34)])[: 2 + centred]
    (y,) = reference(name, exact, shape[1:])
    torch.autograd.backward([y, exact[0]], [dy.double(), total.double()])
    mean, rstd = exact[0].mean(1), (exact[0] - centred * exact[0].mean(1, True)).square().mean(1)
    statistics = [mean.float()] * centred + [(rstd + EPS).rsqrt().float()]
    call = library.function(f"{name}_backward")
    args = (dy, x, weight, *(s.detach() for s in statistics), total, list(shape[1:]), True)
    chosen = next(c for c in _all(call.choice(call.request(*args))) if c.name == candidate)
    got = runner(chosen.build(), len(args) - 2, dy.device)(*args[:-2])
    assert len(chosen.build().steps) == (1 if candidate == "rows and weights" else 2)
    for ours, theirs in zip(got, exact, strict=True):
        close(ours, theirs.grad, dtype)


class Streamed(NamedTuple):
    """Rows for one SM, their dtype and that of their weights."""

    shape: tuple[int, int]
    dtype: Any
    weight: Any
    added: bool = True


STREAMED = {
    "a warp for a row": Streamed((100, 776), BF16, BF16),
    "nothing added": Streamed((70, 768), BF16, BF16, added=False),
    "several rows of a warp": Streamed((150, 72), F16, F32),
    "a block for a row": Streamed((9, 2056), F32, F32),
    "floats": Streamed((50, 264), F32, F32),
}


@pytest.mark.parametrize("subject", STREAMED)
@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_streamed_rows(name: str, subject: str) -> None:
    """Blocks that stay have more rows than are on their way at once."""
    shape, dtype, of_weight, added = STREAMED[subject]
    x, dy, total = (drawn(shape, 30 + i, dtype) for i in range(3))
    weight = drawn(shape[1:], 33, of_weight)
    centred = name == "layer_norm"
    exact = wide([x, weight, drawn(shape[1:], 34)])[: 2 + centred]
    (y,) = reference(name, exact, shape[1:])
    given = [dy.double(), total.double()] if added else [dy.double()]
    torch.autograd.backward([y, exact[0]][: 1 + added], given)
    mean, rstd = exact[0].mean(1), (exact[0] - centred * exact[0].mean(1, True)).square().mean(1)
    statistics = [mean.float()] * centred + [(rstd + EPS).rsqrt().float()]
    call = library.function(f"{name}_backward")
    args = (dy, x, weight, *(s.detach() for s in statistics), total if added else None,
            list(shape[1:]), True)  # fmt: skip
    request = call.request(*args)
    request = dataclasses.replace(request, target=dataclasses.replace(request.target, sms=1))
    chosen = next(c for c in _all(call.choice(request)) if c.name == "streamed rows")
    with weft.sanitize() as session:
        got = runner(chosen.build(), len(args) - 2, dy.device)(*args[:-2])
    assert not session.findings
    for ours, theirs in zip(got, exact, strict=True):
        close(ours, theirs.grad, ours.dtype)


class Mixed(NamedTuple):
    """Rows of float32 for one SM, and their gradients.

    narrow  how many have 16 bits
    dy      one has 32 bits as well
    lowered the gradient of the rows is stored in 16 bits as well
    """

    shape: tuple[int, int]
    dtype: Any
    narrow: int
    dy: bool = False
    added: bool = True
    lowered: bool = True
    gap: int = 0


MIXED = {
    "one gradient": Mixed((30, 264), BF16, 1),
    "gradients of three products": Mixed((150, 72), BF16, 3, added=False),
    "those of products and of a residual": Mixed((50, 264), F16, 2, dy=True, added=False),
    "a block for a row": Mixed((9, 1544), BF16, 3, dy=True),
    "no result of 16 bits": Mixed((20, 40), F16, 1, lowered=False),
    "a result of 16 bits alone": Mixed((20, 40), BF16, 0, dy=True),
    "tensors at any address": Mixed((12, 40), BF16, 2, dy=True, gap=1),
}


def _behind(x: Any, gap: int) -> Any:
    """The same numbers, so many elements behind an aligned address."""
    return torch.cat([x.new_zeros(gap), x.flatten()])[gap:].view(x.shape)


@pytest.mark.parametrize("subject", MIXED)
@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_gradients_of_16_bits_of_rows_of_32(name: str, subject: str) -> None:
    shape, dtype, narrow, wanted, added, lowered, gap = MIXED[subject]
    x, wide_dy, total = (_behind(drawn(shape, 30 + i), gap) for i in range(3))
    weight = _behind(drawn(shape[1:], 33), gap)
    halves = [_behind(drawn(shape, 35 + i, dtype), gap) for i in range(narrow)]
    centred = name == "layer_norm"
    exact = wide([x, weight, drawn(shape[1:], 34)])[: 2 + centred]
    (y,) = reference(name, exact, shape[1:])
    dy = sum(t.double() for t in (*halves, *[wide_dy] * wanted))
    given = [dy, total.double()] if added else [dy]
    torch.autograd.backward([y, exact[0]][: 1 + added], given)
    mean, rstd = exact[0].mean(1), (exact[0] - centred * exact[0].mean(1, True)).square().mean(1)
    statistics = [mean.float()] * centred + [(rstd + EPS).rsqrt().float()]
    call = library.function(f"{name}_backward_mixed")
    args = (x, weight, *(s.detach() for s in statistics), wide_dy if wanted else None, *halves,
            *[None] * (3 - narrow), total if added else None, list(shape[1:]),
            dtype if lowered else None)  # fmt: skip
    request = call.request(*args)
    request = dataclasses.replace(request, target=dataclasses.replace(request.target, sms=1))
    run = runner(call.choice(request).used.build(), len(args) - 2, x.device)
    with weft.sanitize() as session:
        got = run(*args[:-2])
    assert not session.findings
    with weft.schedule("random:3"):
        assert all(map(torch.equal, run(*args[:-2]), got))
    for ours, theirs in zip(got, exact, strict=False):
        close(ours, theirs.grad, F32)
    if lowered:
        assert torch.equal(got[-1], got[0].to(dtype))
    else:
        assert not got[-1].numel()


def test_few_rows_have_more_threads() -> None:
    """Loads of a row take the time where most threads of the GPU have no work."""
    for count, threads in ((1, 512), (591, 256), (30000, 64)):
        x = torch.empty((1, 3584), dtype=BF16).expand(count, 3584)
        x = x.contiguous() if count < 1000 else torch.empty((count, 3584), dtype=BF16)
        used = weft.ops.explain(weft.ops.rms_norm, x, (3584,), x[0]).choice.used
        assert used.why.startswith(f"{threads} threads"), used.why


def test_odd_rows_that_have_too_few_registers() -> None:
    """Long rows of two bytes that may begin anywhere are read twice, whole vectors once."""
    for n, name in ((16381, "long rows"), (8191, "long rows"), (1001, "rows"), (16384, "rows")):
        x = torch.empty((1, n), dtype=F16).expand(2000, n).contiguous()
        assert weft.ops.explain(weft.ops.rms_norm, x, (n,), x[0]).choice.used.name == name


def test_strides() -> None:
    """Rows with gaps, transposed, and at any address."""
    base = drawn((64, 70), 4)
    for x in (base[:5, :64], base.t()[:5, :64], base.view(-1)[1:321].view(5, 64)):
        want = F.layer_norm(x.double(), (64,))
        close(weft.ops.layer_norm(x, (64,)), want, F32)
    weight = drawn((65,), 5)[1:]
    close(weft.ops.layer_norm(base[:5, :64], (64,), weight),
          F.layer_norm(base[:5, :64].double(), (64,), weight.double()), F32)  # fmt: skip


TURNED: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], tuple[int, ...], Any]] = {
    "rows of a transposed tensor": ("layer_norm", (8, 300), (1, 0), (1, 0), F32),
    "rows of three elements": ("rms_norm", (3, 131), (1, 0), (1, 0), F16),
    "a transposed residual": ("add_rms_norm", (8, 41), (1, 0), (0, 1), F32),
    "a transposed input": ("add_layer_norm", (8, 41), (0, 1), (1, 0), F32),
    "both, with two threads per row": ("add_layer_norm", (24, 70), (1, 0), (1, 0), F32),
    "rows in two dimensions": ("add_rms_norm", (2, 29, 16), (2, 1, 0), (1, 2, 0), BF16),
    "rows of two dimensions": ("layer_norm", (2, 3, 37), (2, 0, 1), (2, 0, 1), F32),
}
"""The op, the shape in memory, the order of dimensions of the input and of the residual."""


@pytest.mark.parametrize("subject", TURNED)
def test_transposed_rows(subject: str) -> None:
    """Short rows whose elements are apart are read where they are."""
    name, memory, *orders, dtype = TURNED[subject]
    added = name.startswith("add_")
    shape = drawn(memory, 1).permute(orders[0] if not added else max(orders)).shape
    rows = [_in_order(shape, o, i, dtype) for i, o in enumerate(orders[: 1 + added])]
    normalized = tuple(shape[-2:]) if "of two" in subject else tuple(shape[-1:])
    weights = [drawn(normalized, 5 + i, dtype) for i in range(1 + name.endswith("layer_norm"))]
    op = getattr(weft.ops, name)
    explained = weft.ops.explain(op, *rows, normalized, *weights)
    assert explained.choice.used.name == "transposed rows"
    tensors = [*rows, *weights]
    with weft.sanitize() as session:
        got = results(name, tensors, normalized)
    assert not session.findings
    want = reference(name, wide(tensors), normalized)
    for ours, theirs in zip(got, want, strict=True):
        close(ours, theirs, dtype)
    compare(name, tensors, normalized, 30)


def _in_order(shape: Any, order: Any, seed: int, dtype: Any) -> Any:
    """A tensor of a shape whose dimension order[i] in memory is i."""
    memory = [shape[order.index(d)] for d in range(len(shape))]
    return drawn(memory, seed, dtype, shift=2).permute(order)


def test_gradient_of_any_strides() -> None:
    x = drawn((5, 64), 6).requires_grad_()
    weft.ops.layer_norm(x, (64,)).sum().backward()  # the gradient is one number, repeated
    assert float(x.grad.abs().max()) < 1e-5


def test_gradient_of_another_dtype() -> None:
    """torch.autograd.grad accepts a gradient of float for a result of half."""
    x, dy = drawn((11, 40), 25, F16).requires_grad_(), drawn((11, 40), 26)
    y = weft.ops.rms_norm(x, (40,), drawn((40,), 27, F16))
    (wide,) = torch.autograd.grad(y, x, dy, retain_graph=True)
    assert torch.equal(wide, torch.autograd.grad(y, x, dy.half())[0])


def test_second_derivatives() -> None:
    tensors = [drawn((5, 64), 7), drawn((64,), 8), drawn((64,), 9)]

    def second(of: Any, name: str, made: Any) -> Any:
        (y,) = of(name, made, (64,))
        first = torch.autograd.grad(y.square().sum(), made, create_graph=True)
        return torch.autograd.grad(sum(g.pow(2).sum() for g in first), made)

    pairs = zip(second(results, "layer_norm", leaves(tensors)),
                second(reference, "layer_norm", wide(tensors)), strict=True)  # fmt: skip
    for got, want in pairs:
        torch.testing.assert_close(got.double(), want, rtol=1e-3, atol=1e-2)


def test_the_op_without_statistics() -> None:
    """torch.ops.weft.layer_norm keeps no statistics; its gradients are the same."""
    ours, other = leaves([drawn((5, 64), 10)]), leaves([drawn((5, 64), 10)])
    library.call("layer_norm")
    torch.ops.weft.layer_norm(ours[0], [64]).square().sum().backward()
    weft.ops.layer_norm(other[0], (64,)).square().sum().backward()
    assert torch.equal(ours[0].grad, other[0].grad)


@pytest.mark.parametrize("name", ["layer_norm", "add_rms_norm"])
def test_compiled(name: str) -> None:
    """torch.compile sees one op for each direction."""
    tensors = [drawn((5, 64), 11 + i) for i in range(1 + name.startswith("add_"))]
    tensors += [drawn((64,), 14 + i) for i in range(2 if name == "layer_norm" else 1)]
    ours, theirs = leaves(tensors), wide(tensors)
    function = torch.compile(
        lambda *t: sum(r.square().sum() for r in results(name, t, (64,))),
        backend="aot_eager",
        fullgraph=True,
    )
    function(*ours).backward()
    sum(r.square().sum() for r in reference(name, theirs, (64,))).backward()
    for a, b in zip(ours, theirs, strict=True):
        close(a.grad, b.grad, F32)


def test_verified() -> None:
    """torch's own checks of an op: schema, fake tensors, autograd."""
    tensors = leaves([drawn((5, 64), 16), drawn((64,), 17), drawn((64,), 18)])
    for name in ("layer_norm", "layer_norm_forward"):
        assert library.call(name).verify(tensors[0], [64], *tensors[1:], 1e-5).passed


def test_batches() -> None:
    """vmap of rows is one call; vmap of weights is one for each."""
    x, weight = drawn((3, 5, 64), 19), drawn((3, 64), 20)
    rows = torch.vmap(lambda v: weft.ops.layer_norm(v, (64,), weight[0]))(x)
    close(rows, F.layer_norm(x.double(), (64,), weight[0].double()), F32)
    each = torch.vmap(lambda v, w: weft.ops.layer_norm(v, (64,), w))(x, weight)
    close(each[2], F.layer_norm(x[2].double(), (64,), weight[2].double()), F32)


def test_autocast() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        assert weft.ops.layer_norm(drawn((5, 64), 21, BF16), (64,)).dtype is F32


X = torch.zeros(4, 6)
REFUSED = {
    "another shape": (lambda: weft.ops.layer_norm(X, (5,)), "'normalized_shape' must be"),
    "no shape": (lambda: weft.ops.rms_norm(X, ()), "'normalized_shape' must be"),
    "too many dimensions": (lambda: weft.ops.layer_norm(X, (2, 4, 6)), "'normalized_shape' must"),
    "weight of another shape": (
        lambda: weft.ops.rms_norm(X, (6,), torch.zeros(5)), "weight has shape"),
    "bias of another dtype": (
        lambda: weft.ops.layer_norm(X, (6,), None, torch.zeros(6).half()), "'bias' has a dtype"),
    "weights of two dtypes": (
        lambda: weft.ops.layer_norm(X.half(), (6,), torch.zeros(6), torch.zeros(6).half()),
        "must have one dtype"),
    "double": (lambda: weft.ops.layer_norm(X.double(), (6,)), "dtype that no kernel takes"),
    "residual of another shape": (
        lambda: weft.ops.add_rms_norm(X, X[:2], (6,)), "'residual' must have"),
}  # fmt: skip


@pytest.mark.parametrize("subject", REFUSED)
def test_refused(subject: str) -> None:
    call, message = REFUSED[subject]
    with pytest.raises(weft.ArgumentError, match=message):
        call()


@pytest.mark.parametrize(
    "n", [64, pytest.param(61, marks=pytest.mark.slow), pytest.param(33000, marks=pytest.mark.slow)]
)
def test_sanitized(n: int) -> None:
    """No kernel reads what nothing wrote, or races."""
    with weft.sanitize() as session:
        tensors = leaves([drawn((5, n), 22), drawn((n,), 23), drawn((n,), 24)])
        results("layer_norm", tensors, (n,))[0].sum().backward()
    assert not session.findings
