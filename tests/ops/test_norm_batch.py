"""batch_norm in training and in evaluation, forward and backward, held against float64."""

from __future__ import annotations

from typing import Any

import pytest

import draw

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

import weft  # noqa: E402
from weft.ops.core import library  # noqa: E402
from weft.ops.core.runner import runner  # noqa: E402
from weft.ops.families.norm import model, resident  # noqa: E402

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
LIMITS = {F32: 2e-5, F16: 8e-3, BF16: 6e-2}


def drawn(shape: Any, seed: int, dtype: Any = F32, scale: float = 1, shift: float = 0) -> Any:
    values = draw.seeded(seed).normal(shape)
    return (values * scale + shift).to(dtype)


def close(got: Any, want: Any, dtype: Any) -> None:
    scale = max(1.0, float(want.detach().abs().max())) if want.numel() else 1.0
    torch.testing.assert_close(
        got.detach().double(),
        want.detach().double(),
        rtol=LIMITS[dtype],
        atol=LIMITS[dtype] * scale,
    )


def arguments(shape: Any, dtype: Any, of_weights: Any, layout: str) -> list[Any]:
    """(x, running mean, running variance, weight, bias), with x in a layout."""
    x = drawn(shape, 1, dtype)
    if layout == "channels last":
        x = x.movedim(1, -1).contiguous().movedim(-1, 1)
    if layout == "strided":
        x = drawn((*shape[:-1], 2 * shape[-1]), 1, dtype)[..., ::2]
    if layout == "misaligned":
        x = drawn((x.numel() + 1,), 1, dtype)[1:].view(shape)
    c = shape[1]
    running = [drawn((c,), 2), drawn((c,), 3).abs() + 0.5]
    weights = [None, None] if of_weights is None else [drawn((c,), i, of_weights) for i in (4, 5)]
    return [x, *running, *weights]


def leaves(tensors: Any, wide: bool = False) -> list[Any]:
    """Copies; those of input and weights want gradients."""
    made = []
    for i, t in enumerate(tensors):
        copy = None if t is None else t.detach().clone()
        copy = copy.double() if wide and copy is not None else copy
        made.append(copy if copy is None or i in (1, 2) else copy.requires_grad_())
    return made


CASES: dict[str, tuple[tuple[int, ...], Any, Any, str]] = {
    "planes": ((3, 5, 4, 8), F32, F32, "dense"),
    "planes of 5 dimensions": ((2, 3, 2, 2, 4), F32, F32, "dense"),
    "odd planes": ((3, 5, 3, 3), F32, F32, "dense"),
    "odd planes of many vectors": ((2, 3, 13, 11), F16, F16, "dense"),
    "small planes of whole vectors": ((9, 16, 7, 7), F16, F32, "dense"),
    "small planes, several blocks": ((300, 8, 3, 3), F32, F32, "dense"),
    "small planes, odd channels": ((9, 12, 3, 5), BF16, BF16, "dense"),
    "several blocks per channel": ((2, 2, 80, 100), F32, F32, "dense"),
    "channels last": ((3, 8, 5, 5), F32, F32, "channels last"),
    "channels last, several blocks": ((5, 72, 9, 9), F16, F32, "channels last"),
    "odd channels last": ((3, 37, 7, 5), F32, F32, "channels last"),
    "channels last of two vectors": ((3, 6, 11, 5), BF16, F32, "channels last"),
    "one channel": ((7, 1, 5, 9), F16, F16, "dense"),
    "a matrix": ((37, 12), F32, F32, "dense"),
    "a tall matrix": ((3000, 3), F32, F32, "dense"),
    "bf16 with weights of float": ((3, 16, 4, 2), BF16, F32, "channels last"),
    "half": ((3, 4, 16), F16, F16, "dense"),
    "no weights": ((3, 5, 4, 8), F32, None, "dense"),
    "strided": ((3, 5, 4, 8), F32, F32, "strided"),
    "misaligned": ((3, 5, 3, 3), F32, F32, "misaligned"),
    "no batch": ((0, 5, 4, 8), F32, F32, "dense"),
}


EVALUATED = ("planes", "channels last", "no batch", "half")
"""Cases of evaluation; its kernels are those of training but for the sums."""


@pytest.mark.parametrize(
    ("subject", "training"), [*((s, True) for s in CASES), *((s, False) for s in EVALUATED)]
)
def test_against_float64(subject: str, training: bool) -> None:
    shape, dtype, of_weights, layout = CASES[subject]
    tensors = arguments(shape, dtype, of_weights, layout)
    ours, theirs = leaves(tensors), leaves(tensors, wide=True)
    got = weft.ops.batch_norm(*ours, training=training, momentum=0.3)
    want = F.batch_norm(*theirs, training=training, momentum=0.3)
    dy = drawn(shape, 6, dtype)
    got.backward(dy)
    want.backward(dy.double())
    close(got, want, dtype)
    for a, b in zip(ours, theirs, strict=True):
        if a is not None and a.requires_grad:
            close(a.grad, b.grad, dtype)
    close(ours[1], theirs[1], F32)
    close(ours[2], theirs[2], F32)
    if layout == "channels last":
        assert got.movedim(1, -1).is_contiguous()
    with torch.no_grad():
        again = weft.ops.batch_norm(tensors[0], *leaves(tensors)[1:], training=training)
    assert torch.equal(again, got)


@pytest.mark.parametrize(
    "subject", ["odd channels last", "channels last of two vectors", "one channel"]
)
def test_whole_vectors_of_odd_rows(subject: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results of rows of channels that are no whole vectors are written in such vectors."""
    monkeypatch.setattr(model, "FOLD_BYTES", 1)
    for name in ("batch_norm", "batch_norm_apply", "batch_norm_backward"):
        library.function(name).forget()
    tensors = arguments(*CASES[subject])
    wide = 16 // tensors[0].itemsize
    explained = weft.ops.explain(weft.ops.batch_norm, *tensors)
    assert f"vectors of {wide}" in explained.choice.used.why
    with weft.sanitize() as session:
        test_against_float64(subject, True)
    assert not session.findings
    for name in ("batch_norm", "batch_norm_apply", "batch_norm_backward"):
        library.function(name).forget()


def candidate(op: str, name: str, *args: Any) -> tuple[str, Any]:
    """The reason of a candidate of an op, and its results."""
    function = library.function(op)
    found = {c.name: c for c in function.definition.candidates(function.request(*args))}
    tensors = [
        a for a, row in zip(args, function.arguments, strict=True) if row.name in function.tensors
    ]
    run = runner(found[name].build(), len(tensors), torch.device("cpu"))
    return found[name].why, run(*tensors)


WAYS = {
    "in two passes": "channels",
    "on chip": "resident",
    "partly on chip": "resident",
    "alone": "resident",
    "in clusters": "resident",
}
FLAT_WAYS, WHOLE_WAYS = ("alone", "in clusters"), ("on chip", "alone", "in clusters")
"""Ways of channels that are innermost, and those with all vectors on chip."""
ON_CHIP = {
    "channels last": ((5, 72, 27, 9), F16, F16, "channels last"),
    "vectors of 8 bytes": ((70, 36, 5), BF16, F32, "channels last"),
    "planes": ((3, 2, 64, 60), F32, F32, "dense"),
    "small planes": ((400, 16, 7, 7), F16, F32, "dense"),
    "planes of 8-byte vectors": ((3, 2, 82, 62), F16, None, "dense"),
}


@pytest.mark.parametrize(
    ("way", "subject"),
    [
        (w, s)
        for w in WAYS
        for s, c in ON_CHIP.items()
        if w not in FLAT_WAYS or c[3] == "channels last"
    ],
)
def test_ways(way: str, subject: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every candidate gives the results of training, with several blocks for a channel."""
    name = WAYS[way]
    monkeypatch.setattr(model, "NARROW_VECTORS", 1000 if way == "alone" else 0)
    if way != "in clusters":
        monkeypatch.setattr(model, "CLUSTER_BLOCKS", 1)
    x, _, _, weight, bias = arguments(*ON_CHIP[subject])
    dy, dtype = drawn(x.shape, 6, x.dtype).movedim(1, -1).contiguous().movedim(-1, 1), x.dtype
    if way == "partly on chip":
        # Six vectors for a thread, and room for two.
        monkeypatch.setattr(model, "RESIDENT_VECTORS", 6)
        room = resident.vector_bytes
        monkeypatch.setattr(resident, "room_of", lambda made: 2 * 512 * room(made))
    why, (y, mean, var) = candidate("batch_norm_training", name, x, weight, bias, 1e-5)
    assert ("100 % on chip" in why) == (way in WHOLE_WAYS)
    assert why.startswith("1 blocks") or way != "alone"
    assert ("of a cluster" in why) == (way == "in clusters")
    wide = [None if t is None else t.double().requires_grad_() for t in (x, weight, bias)]
    want = F.batch_norm(wide[0], None, None, *wide[1:], True)
    want.backward(dy.double())
    close(y, want, dtype)
    dims = (0, *range(2, x.dim()))
    close(mean, x.double().mean(dims), F32)
    close(var, x.double().var(dims, correction=0), F32)
    given = (dy, x, mean, var, weight, True, 1e-5, True)
    why, (dx, dw, db) = candidate("batch_norm_backward", name, *given)
    assert ("100 % on chip" in why) == (way in WHOLE_WAYS)
    close(dx, wide[0].grad, dtype)
    if weight is not None:
        close(dw, wide[1].grad, dtype)
        close(db, wide[2].grad, dtype)


def test_an_outlier_at_the_start() -> None:
    """Sums of differences from an element that is far from the others keep their digits."""
    x = drawn((4, 8, 16, 16), 7, F32).contiguous(memory_format=torch.channels_last)
    x[0, :, 0, 0] = 3e3
    _, (_, mean, var) = candidate("batch_norm_training", "resident", x, None, None, 1e-5)
    wide = x.double()
    torch.testing.assert_close(var.double(), wide.var((0, 2, 3), correction=0), rtol=1e-4, atol=0)
    torch.testing.assert_close(mean.double(), wide.mean((0, 2, 3)), rtol=1e-4, atol=0)


def test_large_mean() -> None:
    """Variances of values around 10,000 lose no digits."""
    x, mean, var = drawn((8, 3, 8, 8), 7, shift=1e4), torch.zeros(3), torch.zeros(3)
    weft.ops.batch_norm(x, mean, var, training=True, momentum=1.0)
    torch.testing.assert_close(var.double(), x.double().var((0, 2, 3)), rtol=1e-5, atol=0)
    torch.testing.assert_close(mean.double(), x.double().mean((0, 2, 3)), rtol=1e-7, atol=0)


@pytest.mark.parametrize("layout", ["channels last", "small planes"])
def test_large_mean_of_half(layout: str) -> None:
    """Sums of 16-bit elements are those of differences from one of them."""
    x, mean, var = drawn((40, 8, 5, 5), 7, F16, shift=500), torch.zeros(8), torch.zeros(8)
    if layout == "channels last":
        x = x.contiguous(memory_format=torch.channels_last)
    weft.ops.batch_norm(x, mean, var, training=True, momentum=1.0)
    torch.testing.assert_close(var.double(), x.double().var((0, 2, 3)), rtol=1e-5, atol=0)
    torch.testing.assert_close(mean.double(), x.double().mean((0, 2, 3)), rtol=1e-6, atol=0)


def test_no_running_statistics() -> None:
    x = drawn((3, 5, 4, 8), 8)
    close(weft.ops.batch_norm(x, None, None, training=True),
          F.batch_norm(x.double(), None, None, training=True), F32)  # fmt: skip


def test_running_statistics_of_half() -> None:
    x, mean, var = drawn((3, 4, 16), 9, F16), torch.zeros(4).half(), torch.ones(4).half()
    other = mean.float(), var.float()
    weft.ops.batch_norm(x, mean, var, training=True)
    F.batch_norm(x.float(), *other, training=True)
    close(mean, other[0], F16)
    close(var, other[1], F16)


def test_changed_statistics_are_noticed() -> None:
    """A graph that needs the running statistics as they were says so, as for torch's own ops."""
    x, mean, var, weight, bias = leaves(arguments((3, 5, 4, 8), F32, F32, "dense"))
    y = weft.ops.batch_norm(x, mean, var, weight, bias)
    weft.ops.batch_norm(x, mean, var, weight, bias, training=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_second_derivatives() -> None:
    def second(of: Any, made: Any) -> Any:
        wanted = [made[0], made[3], made[4]]
        first = torch.autograd.grad(
            of(*made, training=True).pow(3).sum(), wanted, create_graph=True
        )
        return torch.autograd.grad(sum(g.pow(2).sum() for g in first), wanted)

    tensors = arguments((3, 5, 4, 8), F32, F32, "dense")
    ours = second(weft.ops.batch_norm, leaves(tensors))
    for got, want in zip(ours, second(F.batch_norm, leaves(tensors, wide=True)), strict=True):
        scale = float(want.abs().max())
        torch.testing.assert_close(got.double() / scale, want / scale, rtol=1e-3, atol=1e-4)


def test_compiled() -> None:
    """torch.compile keeps the update of the running statistics."""
    tensors = arguments((3, 5, 4, 8), F32, F32, "dense")
    ours, theirs = leaves(tensors), leaves(tensors, wide=True)
    function = torch.compile(
        lambda *t: weft.ops.batch_norm(*t, training=True).pow(3).sum(),
        backend="aot_eager",
        fullgraph=True,
    )
    function(*ours).backward()
    F.batch_norm(*theirs, training=True).pow(3).sum().backward()
    for i in (0, 3, 4):
        close(ours[i].grad, theirs[i].grad, F32)
    close(ours[1], theirs[1], F32)
    close(ours[2], theirs[2], F32)


def test_verified() -> None:
    """torch's own checks of the ops: schema, fake tensors, autograd."""
    x, mean, var, weight, bias = leaves(arguments((3, 8, 5, 5), F32, F32, "channels last"))
    apply = library.call("batch_norm_apply")
    assert apply.verify(x, mean, var, weight, bias, False, 1e-5).passed
    assert library.call("batch_norm_statistics").verify(x.detach()).passed
    assert library.call("batch_norm_training").verify(x, weight, bias, 1e-5).passed
    found = torch.zeros(8), torch.ones(8)
    assert library.call("batch_norm_update").verify(mean, var, *found, 0.1, 75).passed


X, ONE = torch.zeros(4, 3), torch.ones(3)
REFUSED = {
    "one value per channel": (
        lambda: weft.ops.batch_norm(X[:1], ONE, ONE, training=True), "more than one value"),
    "no statistics": (lambda: weft.ops.batch_norm(X, None, None), "are needed in evaluation"),
    "a vector": (lambda: weft.ops.batch_norm(ONE, ONE, ONE), "needs a batch and a channel"),
    "statistics of another size": (
        lambda: weft.ops.batch_norm(X, torch.ones(4), ONE), "running_mean has shape"),
    "statistics with gaps": (
        lambda: weft.ops.batch_norm(X, torch.ones(6)[::2], ONE, training=True),
        "'running_mean' must be contiguous"),
    "weight of another dtype": (
        lambda: weft.ops.batch_norm(X, ONE, ONE, ONE.half()), "'weight' has a dtype"),
    "double": (lambda: weft.ops.batch_norm(X.double(), ONE, ONE), "dtype that no kernel takes"),
    "the op in training": (
        lambda: library.call("batch_norm").definition(X, ONE, ONE, None, None, True),
        "this op does not train"),
    "vmap in training": (
        lambda: torch.vmap(lambda x: weft.ops.batch_norm(x, ONE, ONE, training=True))(
            torch.zeros(2, 4, 3)), "cannot update running statistics"),
}  # fmt: skip


@pytest.mark.parametrize("subject", REFUSED)
def test_refused(subject: str) -> None:
    call, message = REFUSED[subject]
    with pytest.raises(weft.ArgumentError, match=message):
        call()


@pytest.mark.parametrize("subject", ["several blocks per channel", "channels last, several blocks"])
def test_sanitized(subject: str) -> None:
    """No kernel reads what nothing wrote, or races."""
    with weft.sanitize() as session:
        tensors = leaves(arguments(*CASES[subject]))
        weft.ops.batch_norm(*tensors, training=True).sum().backward()
    assert not session.findings
