"""cross_entropy: losses and gradients against float64, labels out of range, torch.compile."""

from __future__ import annotations

from typing import Any

import pytest

import draw

torch = pytest.importorskip("torch")

import weft  # noqa: E402
from weft.ops.core import library  # noqa: E402

SHAPES = {
    "a row": (7,),
    "short rows": (40, 7),
    "rows of whole vectors": (5, 64),
    "rows of several warps": (3, 1003),
    "columns": (2, 5, 3, 4),
    "one class": (3, 1, 350),
    "two classes": (2, 2, 31, 37),
    "four classes": (5, 4, 3, 7),
    "planes of a block": (70, 9, 2),
    "long columns, transposed": (1, 20000, 2),
    "no rows": (0, 4),
}
OPTIONS = {
    "plain": {},
    "sum": {"reduction": "sum"},
    "each": {"reduction": "none"},
    "smooth": {"label_smoothing": 0.1},
    "weighted": {"weighted": True, "ignore_index": 2},
    "all": {"weighted": True, "label_smoothing": 0.3, "ignore_index": 0},
}
CASES = [
    *((shape, "plain", torch.float32) for shape in SHAPES),
    *(("short rows", options, torch.float32) for options in OPTIONS if options != "plain"),
    ("columns", "all", torch.float32),
    ("columns", "each", torch.bfloat16),
    ("two classes", "all", torch.float32),
    ("two classes", "each", torch.float16),
    ("four classes", "all", torch.bfloat16),
    ("four classes", "each", torch.float32),
    ("rows of several warps", "all", torch.bfloat16),
    ("rows of several warps", "each", torch.float16),
    ("rows of whole vectors", "plain", torch.bfloat16),
    ("no rows", "sum", torch.float32),
    ("no rows", "each", torch.float32),
]
LIMITS = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 2e-2}


def logits(shape: tuple[int, ...], seed: int) -> Any:
    return 3 * draw.seeded(seed).normal(shape)


def labels(x: Any, seed: int) -> Any:
    dim = 0 if x.dim() == 1 else 1
    shape = (*x.shape[:dim], *x.shape[dim + 1 :])
    return draw.seeded(seed).integers(0, x.shape[dim], shape)


def both(x: Any, target: Any, options: dict[str, Any], scale: float = 1.0) -> tuple[Any, ...]:
    """Our loss and gradient, and torch's in float64."""
    options = dict(options)
    weight = None
    if options.pop("weighted", False):
        weight = logits((x.shape[1],), 9).abs().to(x.dtype)
    results = []
    for function, point, w in (
        (weft.ops.cross_entropy, x.clone(), weight),
        (
            torch.nn.functional.cross_entropy,
            x.double(),
            None if weight is None else weight.double(),
        ),
    ):
        point.requires_grad_()
        loss = function(point, target, w, **options)
        dy = torch.full(loss.shape, scale, dtype=loss.dtype)
        loss.backward(dy)
        results += [loss.double(), point.grad.double()]
    return tuple(results)


@pytest.mark.parametrize(("subject", "options", "dtype"), CASES)
def test_loss_and_gradient(subject: str, options: str, dtype: Any) -> None:
    x = logits(SHAPES[subject], 1).to(dtype)
    loss, dx, true_loss, true_dx = both(x, labels(x, 2), OPTIONS[options])
    limit = LIMITS[dtype]
    close = {"rtol": limit, "equal_nan": True}
    torch.testing.assert_close(loss, true_loss, atol=limit, **close)
    largest = true_dx.abs().max().item() if true_dx.numel() else 1.0
    torch.testing.assert_close(dx, true_dx, atol=limit * largest, **close)


@pytest.mark.parametrize("classes", [1, 2, 3, 4])
def test_thread_per_label(classes: int) -> None:
    """Labels that do not count hide NaN; other logits that are not finite give what torch gives."""
    x = logits((3, classes, 400), 1)
    target = labels(x, 2)
    target[0, ::3] = target[2] = -100
    x[2], x[1, 0, 7], x[0, 0, 1] = torch.nan, torch.nan, torch.inf
    used = weft.ops.explain(weft.ops.cross_entropy, x, target, reduction="none").choice.used
    assert used.name == "thread per label"
    with weft.sanitize() as session:
        loss, dx, true_loss, true_dx = both(x, target, {"reduction": "none"})
    assert not session.findings
    close = {"rtol": 1e-5, "atol": 1e-5, "equal_nan": True}
    torch.testing.assert_close(loss, true_loss, **close)
    ignored = (target == -100).unsqueeze(1).expand_as(dx)
    assert not dx[ignored].any()
    torch.testing.assert_close(dx[~ignored], true_dx[~ignored], **close)


@pytest.mark.parametrize("way", ["kept", "scaled", "twice", "created"])
def test_gradient_of_the_loss(way: str) -> None:
    """A gradient that is not 1 scales the saved one, unless the graph is needed again."""
    x = logits((6, 16), 3)
    target = labels(x, 4)
    ours, theirs = (x.clone().requires_grad_() for _ in range(2))
    for function, point in (
        (weft.ops.cross_entropy, ours),
        (torch.nn.functional.cross_entropy, theirs),
    ):
        loss = function(point, target) * (1.0 if way == "kept" else -2.5)
        if way == "created":
            (dx,) = torch.autograd.grad(loss, point, create_graph=True)
            dx.pow(2).sum().backward()
        else:
            loss.backward(retain_graph=way == "twice")
        if way == "twice":
            loss.backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-5, atol=1e-7)


def test_long_rows() -> None:
    """Rows that several blocks share, by the plan that few long rows would have on a GPU."""
    x = logits((1, 40_000), 5)
    target = labels(x, 6)
    found = weft.ops.explain(weft.ops.cross_entropy, x, target)
    assert "long rows" in str(found)
    loss, dx, true_loss, true_dx = both(x, target, {"label_smoothing": 0.1})
    torch.testing.assert_close(loss, true_loss, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(dx, true_dx, rtol=1e-5, atol=1e-7)


def test_layouts() -> None:
    """Strides, gaps and misaligned bases give what a contiguous tensor gives."""
    x = logits((9, 24), 7)
    target = labels(x, 8)
    loss = weft.ops.cross_entropy(x, target)
    gaps = torch.empty(9, 40)[:, :24].copy_(x)
    shifted = torch.empty(9 * 24 + 1)[1:].view(9, 24).copy_(x)
    for same in (x.t().contiguous().t(), gaps, shifted):
        torch.testing.assert_close(weft.ops.cross_entropy(same, target), loss)
    spread = torch.stack([target, target], 1)[:, 0]
    torch.testing.assert_close(weft.ops.cross_entropy(x, spread), loss)
    for dtype in (torch.int32, torch.uint8):
        torch.testing.assert_close(weft.ops.cross_entropy(x, target.to(dtype)), loss)


def test_long_rows_of_odd_stride() -> None:
    """A half that is held in shared memory takes a word there."""
    wide = draw.seeded(9).normal(2, 8_301).bfloat16()
    x = wide[:, :8_300].requires_grad_()
    target = labels(x, 10)
    with weft.sanitize():
        (dx,) = torch.autograd.grad(weft.ops.cross_entropy(x, target), x)
    *_, true_dx = both(x.detach(), target, {})
    torch.testing.assert_close(dx, true_dx, rtol=1e-2, atol=1e-5, check_dtype=False)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_special_values(value: float) -> None:
    x = logits((4, 12), 10)
    x[1, 3] = value
    x[2] = value
    target = torch.tensor([0, 5, 1, -100])
    loss, dx, true_loss, true_dx = both(x, target, {"reduction": "none"})
    torch.testing.assert_close(loss, true_loss, rtol=1e-5, atol=1e-5, equal_nan=True)
    torch.testing.assert_close(dx, true_dx, rtol=1e-5, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("size", [1e3, 6e4, 7e4, 1e10, 3e38])
def test_huge_logits(size: float) -> None:
    """Products with log2(e) round or overflow; masked classes have no gradient at all."""
    x = (size * (2 * draw.seeded(2).uniform(3, 64) - 1)).bfloat16()
    x[:, 5:13] = -float("inf")
    loss, dx, true_loss, true_dx = both(x, torch.tensor([0, 1, 2]), {"reduction": "none"})
    torch.testing.assert_close(loss, true_loss.bfloat16().double(), rtol=1e-2, atol=0)
    torch.testing.assert_close(dx, true_dx, rtol=1e-2, atol=1e-5)
    assert not dx[:, 5:13].any()


def test_ignored_rows() -> None:
    x = logits((3, 5), 11)
    loss, dx, true_loss, _ = both(x, torch.full((3,), -100), {})
    assert loss.isnan() and true_loss.isnan()
    assert not dx.any()
    loss, dx, *_ = both(x, torch.full((3,), -100), {"reduction": "sum"})
    assert loss == 0 and not dx.any()


@pytest.mark.parametrize("label", [-1, 5, 2**40])
def test_label_out_of_range(label: int) -> None:
    """A label that is no class is an error that names the line, never a result."""
    target = torch.tensor([0, label, 1])
    with pytest.raises(weft.AssertFailed, match="a label must be 0 to classes - 1"):
        weft.ops.cross_entropy(logits((3, 5), 12), target)
    with pytest.raises(weft.AssertFailed, match=r"classes\.cuh"):
        weft.ops.cross_entropy(logits((3, 5, 2), 12), target.unsqueeze(1).expand(3, 2))


REFUSED = {
    "dtype": (lambda: (torch.zeros(2, 3).double(), torch.zeros(2).long()), "dtype"),
    "labels": (lambda: (torch.zeros(2, 3), torch.zeros(2).bool()), "must have the labels"),
    "probabilities": (lambda: (torch.zeros(2, 3), torch.zeros(2)), "must be like .input"),
    "shapes": (lambda: (torch.zeros(2, 3), torch.zeros(3).long()), "target has shape"),
    "number": (lambda: (torch.tensor(1.0), torch.tensor(0)), "target has shape"),
    "weight": (
        lambda: (torch.zeros(2, 3), torch.zeros(2).long(), torch.zeros(2)),
        "one number per class",
    ),
    "classes": (lambda: (torch.zeros(2, 0), torch.zeros(2).long()), "at least 1 class"),
    "reduction": (
        lambda: (torch.zeros(2, 3), torch.zeros(2).long(), None, -100, "max"),
        "reduction is 'max'",
    ),
    "smoothing": (
        lambda: (torch.zeros(2, 3), torch.zeros(2).long(), None, -100, "sum", 1.5),
        "label_smoothing must be 0 to 1",
    ),
}


@pytest.mark.parametrize("subject", REFUSED)
def test_refused(subject: str) -> None:
    args, message = REFUSED[subject]
    with pytest.raises(weft.ArgumentError, match=message):
        weft.ops.cross_entropy(*args())


def test_weight_has_no_gradient() -> None:
    weight = torch.ones(3).requires_grad_()
    loss = weft.ops.cross_entropy(torch.zeros(2, 3).requires_grad_(), torch.tensor([0, 1]), weight)
    with pytest.raises(weft.ArgumentError, match="no gradient of 'weight'"):
        loss.backward()


def test_compiled() -> None:
    x = logits((4, 6), 13)
    target = labels(x, 14)
    ours, theirs = (x.clone().requires_grad_() for _ in range(2))
    function = torch.compile(
        lambda v: 2 * weft.ops.cross_entropy(v, target), backend="aot_eager", fullgraph=True
    )
    function(ours).backward()
    (2 * torch.nn.functional.cross_entropy(theirs, target)).backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-5, atol=1e-7)


def test_verified() -> None:
    x = logits((3, 4), 15).requires_grad_()
    target = labels(x, 16)
    assert weft.ops.cross_entropy.verify(x, target).passed
    backward = library.call("cross_entropy_backward")
    assert backward.verify(torch.tensor(2.0), x, target, None, -100, "mean", 0.0).passed


def test_sanitized() -> None:
    """No kernel reads what nothing wrote, or races."""
    with weft.sanitize() as session:
        for shape in (5, 37), (2, 3, 4):
            x = logits(shape, 17).requires_grad_()
            (2 * weft.ops.cross_entropy(x, labels(x, 18), label_smoothing=0.1)).backward()
    assert not session.findings


PROBABILITIES: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "rows": ((5, 37), {}),
    "one row": ((9,), {"reduction": "sum"}),
    "columns": ((3, 7, 6), {"label_smoothing": 0.2}),
    "of each": ((4, 300), {"reduction": "none", "label_smoothing": 0.1}),
    "no rows": ((0, 5), {"reduction": "sum"}),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", PROBABILITIES)
def test_probabilities_of_classes(name: str, weighted: bool) -> None:
    shape, options = PROBABILITIES[name]
    generator = draw.seeded(2)
    x, target = (generator.normal(shape) for _ in range(2))
    classes = shape[0 if len(shape) == 1 else 1]
    target = target.softmax(0 if len(shape) == 1 else 1)
    weight = generator.uniform(classes) if weighted else None
    ours, theirs = x.clone().requires_grad_(), x.double().requires_grad_()
    got = weft.ops.cross_entropy(ours, target, weight, **options)
    doubled = None if weight is None else weight.double()
    want = torch.nn.functional.cross_entropy(theirs, target.double(), doubled, **options)
    assert torch.allclose(got.double(), want, rtol=1e-5, atol=1e-5)
    upstream = generator.uniform(want.shape)
    got.backward(upstream)
    want.backward(upstream.double())
    assert torch.allclose(ours.grad.double(), theirs.grad, rtol=1e-4, atol=1e-6)
    with torch.no_grad():
        assert torch.equal(weft.ops.cross_entropy(x, target, weight, **options), got)


def test_probabilities_that_do_not_fit() -> None:
    x = torch.zeros(2, 3)
    for target, options, message in (
        (torch.zeros(2), {}, "must be like 'input'"),
        (torch.zeros(2, 3, dtype=torch.float64), {}, "must be like 'input'"),
        (torch.zeros(2, 3), {"ignore_index": 1}, "no label to ignore"),
    ):
        with pytest.raises(weft.ArgumentError, match=message):
            weft.ops.cross_entropy(x, target, **options)
    loss = weft.ops.cross_entropy(x.requires_grad_(), torch.zeros(2, 3, requires_grad=True))
    with pytest.raises(weft.ArgumentError, match="no gradient of 'target'"):
        loss.backward()
