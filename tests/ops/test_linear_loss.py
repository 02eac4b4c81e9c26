"""linear_cross_entropy: losses and gradients chunk by chunk, held against float64."""

from __future__ import annotations

import math
from typing import Any

import pytest

import draw

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

import weft  # noqa: E402
from weft.ops.core import library  # noqa: E402
from weft.ops.core.choose import Request  # noqa: E402
from weft.ops.core.plan import Layout  # noqa: E402
from weft.ops.core.target import named  # noqa: E402
from weft.ops.families.linear_loss import model  # noqa: E402

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
LIMITS = {F32: 1e-5, F16: 2e-3, BF16: 1e-2}


def tensors(rows: Any, hidden: int, classes: int, dtype: Any, bias: bool = False) -> list[Any]:
    """(input, weight, labels, bias); one label in five is ignored."""
    generator = draw.seeded(7)
    lead = (rows,) if isinstance(rows, int) else rows
    x = generator.normal(*lead, hidden)
    w = 2 * generator.normal(classes, hidden) / hidden**0.5
    labels = generator.integers(0, classes, lead)
    labels.view(-1)[1::5] = -100
    b = generator.normal(classes).to(dtype) if bias else None
    return [x.to(dtype), w.to(dtype), labels, b]


def gradients(loss: Any, given: list[Any], wide: bool, scale: float) -> tuple[Any, list[Any]]:
    """The loss, and the gradients of input, weight and bias."""
    x, w, labels, b = given
    points = [None if t is None else t.detach().clone() for t in (x, w, b)]
    points = [t.double() if wide and t is not None else t for t in points]
    wanted = [t.requires_grad_() for t in points if t is not None]
    found = loss(points[0], points[1], labels, points[2])
    up = torch.full(found.shape, scale, dtype=found.dtype)
    return found.detach(), list(torch.autograd.grad(found, wanted, up))


def by_torch(x: Any, w: Any, labels: Any, b: Any, **options: Any) -> Any:
    logits = F.linear(x, w, b)
    loss = F.cross_entropy(logits.flatten(0, -2), labels.flatten().long(), **options)
    return loss.view(labels.shape) if options.get("reduction") == "none" else loss


def compare(given: list[Any], scale: float = 1.0, chunk: int | None = None, **options: Any) -> None:
    def ours(*tensors: Any) -> Any:
        return weft.ops.linear_cross_entropy(*tensors, chunk=chunk, **options)

    loss, found = gradients(ours, given, False, scale)
    true, want = gradients(lambda *t: by_torch(*t, **options), given, True, scale)
    limit = LIMITS[given[0].dtype]
    assert loss.dtype is F32 and loss.shape == true.shape
    torch.testing.assert_close(loss.double(), true, rtol=limit, atol=limit)
    for got, expected in zip(found, want, strict=True):
        assert got.dtype is given[0].dtype and got.shape == expected.shape
        assert (got.double() - expected).norm() <= limit * expected.norm()


CASES: dict[str, Any] = {
    "one chunk": ((10, 16, 40, F32), {}),
    "chunks": ((10, 16, 40, F32), {"chunk": 4}),
    "rows that are no whole vectors": ((10, 16, 41, F32, True), {"chunk": 4}),
    "smooth": ((10, 16, 41, F32, True), {"chunk": 4, "label_smoothing": 0.1}),
    "sum": ((10, 16, 41, F32), {"chunk": 3, "reduction": "sum"}),
    "each": (((2, 5), 16, 41, F32, True), {"chunk": 4, "reduction": "none"}),
    "tensor maps": ((200, 96, 300, BF16), {"chunk": 64}),
    "rows of whole vectors and less": ((200, 96, 301, BF16), {"chunk": 64}),
    "tensor maps and a bias": ((200, 96, 301, BF16, True), {"chunk": 64, "label_smoothing": 0.1}),
    "tensor maps, float16": ((200, 96, 301, F16, True), {"chunk": 64}),
    "rounded products": ((60, 31, 75, BF16), {"chunk": 16}),
    "rounded products, float16": ((60, 31, 75, F16, True), {"chunk": 16}),
    "one chunk of bfloat16": ((60, 32, 75, BF16), {}),
}


SLOW = ("sum", "tensor maps, float16", "rounded products, float16", "one chunk of bfloat16")
"""Cases whose kernels differ from another's in little."""


@pytest.mark.parametrize(
    "case", [pytest.param(c, marks=pytest.mark.slow) if c in SLOW else c for c in CASES]
)
def test_loss_and_gradients(case: str) -> None:
    shape, options = CASES[case]
    compare(tensors(*shape), **options)


def test_long_rows() -> None:
    """Threads read what their registers do not hold once more."""
    compare(tensors(3, 8, 40_000, F32), chunk=2, label_smoothing=0.1)


@pytest.mark.parametrize("hidden", [64, 63], ids=["tensor maps", "rounded products"])
def test_the_sums_are_in_single_precision(hidden: int) -> None:
    """All chunks add to one row of the weight's gradient; sums in 16 bits would lose digits."""
    rows, classes = 1024, 16
    x = (1 + draw.seeded(3).uniform(rows, hidden)).to(BF16)
    w = torch.zeros(classes, hidden, dtype=BF16, requires_grad=True)
    labels = torch.zeros(rows, dtype=torch.int64)
    weft.ops.linear_cross_entropy(x, w, labels, chunk=64).backward()
    want = -(x.double().mean(0) * (1 - 1 / classes))
    error = (w.grad[0].double() - want).norm() / want.norm()
    assert error < 2.2e-3  # that of one rounding is 1.6e-3, of one for each chunk 3.8e-3


@pytest.mark.parametrize("way", ["scaled", "twice", "created"])
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_gradient_of_the_loss(way: str, reduction: str) -> None:
    """A gradient that is not 1 scales the saved ones, unless the graph is needed again."""
    x, w, labels, b = tensors(6, 8, 16, F32, True)
    found = []
    for function in (weft.ops.linear_cross_entropy, by_torch):
        points = [t.clone().requires_grad_() for t in (x, w, b)]
        loss = function(points[0], points[1], labels, points[2], reduction=reduction)
        loss = (loss * -2.5).sum()
        if way == "created":
            first = torch.autograd.grad(loss, points, create_graph=True)
            sum(g.pow(2).sum() for g in first).backward()
        else:
            loss.backward(retain_graph=way == "twice")
        if way == "twice":
            loss.backward()
        found.append([p.grad for p in points])
    for got, want in zip(*found, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("which", [0, 1, 3])
def test_one_gradient(which: int) -> None:
    """Products for gradients that nobody wants are not computed."""
    given = tensors(10, 16, 41, BF16, True)
    point = given[which] = given[which].requires_grad_()
    loss = weft.ops.linear_cross_entropy(*given, chunk=4)
    (got,) = torch.autograd.grad(loss, point)
    want = gradients(by_torch, given, True, 1.0)[1][min(which, 2)]
    assert (got.double() - want).norm() <= 1e-2 * want.norm()


def test_layouts_and_labels() -> None:
    """Strides, gaps and misaligned bases give what contiguous tensors give."""
    x, w, labels, _ = tensors(9, 24, 33, F32)
    loss = weft.ops.linear_cross_entropy(x, w, labels)
    gaps = torch.empty(9, 40)[:, :24].copy_(x)
    shifted = torch.empty(9 * 24 + 1)[1:].view(9, 24).copy_(x)
    for same in (x.t().contiguous().t(), gaps, shifted):
        for weight in (w, w.t().contiguous().t()):
            again = weft.ops.linear_cross_entropy(same, weight, labels, chunk=4)
            torch.testing.assert_close(again, loss)
    spread = torch.stack([labels, labels], 1)[:, 0]
    for kind in (spread, labels.int()):
        torch.testing.assert_close(weft.ops.linear_cross_entropy(x, w, kind), loss)


def test_ignored_rows() -> None:
    """Rows that are ignored hide NaN; the mean of none is NaN, as in PyTorch."""
    x, w, labels, _ = tensors(8, 16, 24, F32)
    x[1] = torch.nan
    labels[1] = -100
    x.requires_grad_()
    loss = weft.ops.linear_cross_entropy(x, w, labels, chunk=4)
    loss.backward()
    assert loss.isfinite() and not x.grad[1].any() and x.grad.isfinite().all()
    all_ignored = torch.full_like(labels, -100)
    assert weft.ops.linear_cross_entropy(x.detach(), w, all_ignored).isnan()


def test_no_rows() -> None:
    x, w = torch.empty(0, 4, requires_grad=True), torch.ones(5, 4, requires_grad=True)
    loss = weft.ops.linear_cross_entropy(x, w, torch.empty(0, dtype=torch.int64), reduction="sum")
    loss.backward()
    assert loss == 0 and x.grad.shape == (0, 4) and not w.grad.any()


def test_a_label_that_is_no_class_stops_the_kernel() -> None:
    x, w, labels, _ = tensors(4, 8, 16, F32)
    labels[2] = 16
    with pytest.raises(weft.AssertFailed, match="a label must be 0 to classes - 1"):
        weft.ops.linear_cross_entropy(x, w, labels)


@pytest.mark.parametrize("hidden", [24, pytest.param(31, marks=pytest.mark.slow)])
def test_no_findings(hidden: int) -> None:
    """The kernels of both kinds of sums under the sanitizer; chunks end with a shorter one."""
    x, w, labels, b = tensors(166, hidden, 75, BF16, True)
    points = [t.requires_grad_() for t in (x, w, b)]
    with weft.sanitize() as session:
        loss = weft.ops.linear_cross_entropy(x, w, labels, b, chunk=64 if hidden == 24 else 96)
        torch.autograd.grad(loss, points)
    assert not session.findings


def test_chunks_bound_the_memory() -> None:
    """A plan has the logits of one chunk, and sums that take as much memory as the gradient."""
    x, w, labels, _ = tensors(200, 96, 301, BF16)
    function = library.function("linear_cross_entropy_with_gradient")
    options = (-100, "mean", 0.0, 64, True, True, False)
    plan = function.entry(x, w, labels, None, *options).plan
    scratch = sum(math.prod(b.shape) * b.dtype.itemsize for b in plan.scratch)
    logits, sums, losses = 64 * 304 * 2, 301 * 96 * 2, 200 * 8
    assert logits + sums < scratch <= logits + sums + losses + 64


def test_the_choice_of_chunks() -> None:
    """The least memory that costs little time; one chunk, where the sums need as much."""
    assert model.chunk_sizes(100) == [100]
    assert model.chunk_sizes(8192) == [1024, 2048, 4096, 8192]
    assert model.chunk_sizes(100_000)[0] == 3200
    found = {}
    for rows, hidden, classes in ((8192, 768, 50257), (4096, 2048, 128256)):
        shapes = ((rows, hidden), (classes, hidden))
        x, w = (Layout(BF16, shape, (shape[1], 1), 16) for shape in shapes)
        labels = Layout(torch.int64, (rows,), (1,), 16)
        options = {
            "ignore_index": -100, "reduction": "mean", "label_smoothing": 0.0, "chunk": None,
            "of_input": True, "of_weight": True, "of_bias": False,
        }  # fmt: skip
        name = "linear_cross_entropy_with_gradient"
        request = Request(name, (x, w, labels, None), options, named("sim:h200"))
        used = library.function(name).choice(request).used
        found[classes] = used.name
    assert found == {50257: "chunks of 2048 rows", 128256: "chunks of 4096 rows"}


def test_no_plan_of_torch() -> None:
    """Under torch.func and torch.compile the result is that of an eager call."""
    x, w, labels, _ = tensors(6, 8, 16, F32)
    loss = weft.ops.linear_cross_entropy(x, w, labels)
    grad = torch.func.grad(lambda x: weft.ops.linear_cross_entropy(x, w, labels))(x)
    want = gradients(by_torch, [x, w, labels, None], True, 1.0)[1][0]
    torch.testing.assert_close(grad.double(), want, rtol=1e-5, atol=1e-7)
    compiled = torch.compile(weft.ops.linear_cross_entropy, backend="aot_eager", fullgraph=True)
    point = x.clone().requires_grad_()
    again = compiled(point, w, labels)
    again.backward()
    torch.testing.assert_close(again.detach(), loss)
    torch.testing.assert_close(point.grad.double(), want, rtol=1e-5, atol=1e-7)


def test_autocast() -> None:
    x, w, labels, _ = tensors(6, 8, 16, F32)
    with torch.autocast("cpu", dtype=BF16):
        loss = weft.ops.linear_cross_entropy(x, w, labels)
    want = weft.ops.linear_cross_entropy(x.bfloat16(), w.bfloat16(), labels)
    assert loss == want and loss.dtype is F32


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"input": torch.zeros(4, 7)}, "incompatible shapes"),
        ({"input": torch.zeros(4, 8, dtype=F16)}, "another dtype"),
        ({"target": torch.zeros(3, dtype=torch.int64)}, "target has shape"),
        ({"target": torch.zeros(4)}, "labels of classes"),
        ({"bias": torch.zeros(15)}, "bias has shape"),
        ({"reduction": "most"}, "reduction is 'most'"),
        ({"label_smoothing": 2.0}, "label_smoothing must be 0 to 1"),
        ({"chunk": 0}, "chunk must be at least 1"),
    ],
)
def test_bad_arguments(change: dict[str, Any], words: str) -> None:
    given = {
        "input": torch.zeros(4, 8),
        "weight": torch.zeros(16, 8),
        "target": torch.zeros(4, dtype=torch.int64),
    }
    with pytest.raises(weft.errors.ArgumentError, match=words):
        weft.ops.linear_cross_entropy(**{**given, **change})
