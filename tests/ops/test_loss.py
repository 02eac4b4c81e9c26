"""Losses of pairs of numbers, and nll_loss: against float64, forward and backward."""

from __future__ import annotations

from typing import Any

import pytest

import draw

torch = pytest.importorskip("torch")

import weft  # noqa: E402

F = torch.nn.functional
LIMITS = {torch.float32: 1e-6, torch.float16: 4e-3, torch.bfloat16: 2e-2}


def numbers(*shape: int, seed: int = 1) -> Any:
    return draw.seeded(seed).normal(shape)


def parts(*shape: int, seed: int = 1) -> Any:
    """Probabilities, with both ends."""
    p = draw.seeded(seed).uniform(shape)
    p.view(-1)[:2] = torch.tensor([0.0, 1.0])
    return p


def inside(*shape: int, seed: int = 1) -> Any:
    return 0.1 + 0.8 * parts(*shape, seed=seed)


PAIRS = {
    "mse_loss": (numbers, numbers, {}),
    "l1_loss": (numbers, numbers, {"reduction": "sum"}),
    "smooth_l1_loss": (numbers, numbers, {"beta": 0.5}),
    "huber_loss": (numbers, numbers, {"delta": 0.7, "reduction": "none"}),
    "binary_cross_entropy": (parts, inside, {"weight": inside(5, 1, seed=3)}),
    "binary_cross_entropy_with_logits": (
        numbers,
        parts,
        {"pos_weight": inside(33, seed=3), "reduction": "sum"},
    ),
    "kl_div": (lambda *s, seed=1: inside(*s, seed=seed).log(), inside, {"reduction": "batchmean"}),
}


def wide(options: dict[str, Any], dtype: Any) -> dict[str, Any]:
    return {k: v.to(dtype) if torch.is_tensor(v) else v for k, v in options.items()}


def compared(name: str, x: Any, t: Any, options: dict[str, Any], dtype: Any) -> None:
    ours = [v.to(dtype).requires_grad_() for v in (x, t)]
    theirs = [v.detach().double().requires_grad_() for v in ours]
    loss = getattr(weft.ops, name)(*ours, **wide(options, dtype))
    true = getattr(F, name)(*theirs, **wide(wide(options, dtype), torch.float64))
    dy = numbers(*loss.shape, seed=9).to(dtype)
    loss.backward(dy)
    true.backward(dy.double())
    assert loss.dtype is dtype
    pairs = [(loss, true), *((m.grad, o.grad) for m, o in zip(ours, theirs, strict=True))]
    for mine, other in pairs:
        finite = other.detach()[other.isfinite()]
        size = finite.abs().max().item() if finite.numel() else 1.0
        torch.testing.assert_close(
            mine.double(), other, rtol=LIMITS[dtype], atol=LIMITS[dtype] * size, equal_nan=True
        )


QUICK = ("mse_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div")
"""The others differ in their formulas alone."""
NAMES = [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in PAIRS]


@pytest.mark.parametrize("name", NAMES)
def test_pairs(name: str) -> None:
    left, right, options = PAIRS[name]
    compared(name, left(5, 33), right(5, 33, seed=2), options, torch.float32)


def test_two_bytes() -> None:
    compared("mse_loss", numbers(5, 33), numbers(5, 33, seed=2), {}, torch.bfloat16)


@pytest.mark.slow
def test_log_target() -> None:
    x, t = inside(4, 6).log(), inside(4, 6, seed=2).log()
    compared("kl_div", x, t, {"log_target": True, "reduction": "sum"}, torch.float32)


def test_layouts() -> None:
    """Strides, misaligned bases, several blocks, and no elements."""
    x, t = numbers(300, 16), numbers(300, 16, seed=2)
    loss = weft.ops.mse_loss(x, t)
    torch.testing.assert_close(loss, F.mse_loss(x, t))
    shifted = torch.empty(4801)[1:].view(300, 16).copy_(t)
    torch.testing.assert_close(weft.ops.mse_loss(x, shifted), loss)
    torch.testing.assert_close(weft.ops.mse_loss(x.t().contiguous().t(), t), loss)
    assert weft.ops.mse_loss(x[:0], t[:0]).isnan()
    assert weft.ops.mse_loss(x[:0], t[:0], "sum") == 0
    assert weft.ops.mse_loss(x[:0], t[:0], "none").shape == (0, 16)


def test_losses_of_tensors_with_gaps() -> None:
    """One launch reads them where they are, forward and backward."""
    x, t, up = numbers(5, 40)[:, :33], numbers(5, 33, seed=2), numbers(33, 5, seed=3).t()
    gap = x.detach().requires_grad_()
    plan = weft.ops.explain(weft.ops.smooth_l1_loss, gap, t, "none", 0.3).choice.used
    assert plan.name.startswith("strided") and len(plan.build().steps) == 1
    ours = weft.ops.smooth_l1_loss(gap, t, "none", 0.3)
    wanted = F.smooth_l1_loss(x, t, reduction="none", beta=0.3)
    torch.testing.assert_close(ours, wanted)
    dense = x.clone().requires_grad_()
    F.smooth_l1_loss(dense, t, reduction="none", beta=0.3).backward(up)
    torch.testing.assert_close(torch.autograd.grad(ours, gap, up)[0], dense.grad)
    with pytest.raises(weft.AssertFailed, match="must be a probability"):
        weft.ops.binary_cross_entropy(1.5 + x.abs(), t.t().contiguous().t(), reduction="none")


GAPS: dict[str, tuple[Any, Any]] = {
    "rows of odd length": (numbers(37, 7, seed=1)[:, :5], numbers(37, 5, seed=2)),
    "rows of vectors": (numbers(5, 11, 3, 5, seed=1)[..., :4], numbers(5, 11, 3, 4, seed=2)),
    "a target with gaps": (numbers(300, 8, seed=1), numbers(300, 12, seed=2)[:, :8]),
    "both, at an odd address": (numbers(900, 9, seed=1)[:, 1:8], numbers(900, 8, seed=2)[:, :7]),
    "two bytes": (numbers(41, 12, seed=1).half()[:, :8], numbers(41, 8, seed=2).half()),
    "repeated rows": (numbers(6, seed=1).expand(50, 6), numbers(50, 6, seed=2)),
}


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("subject", GAPS)
def test_sums_of_rows_with_gaps(subject: str, reduction: str) -> None:
    """They are read where they are, in one launch, also for gradients."""
    x, t = (v.detach().requires_grad_() for v in GAPS[subject])
    plan = weft.ops.explain(weft.ops.smooth_l1_loss, x, t, reduction, 0.3).choice.used
    assert plan.name == "pairs with gaps" and len(plan.build().steps) == 1
    wide = [v.detach().double().contiguous().requires_grad_() for v in (x, t)]
    with weft.sanitize() as session:
        ours = weft.ops.smooth_l1_loss(x, t, reduction, 0.3)
        got = torch.autograd.grad(ours, (x, t))
    assert not session.findings
    theirs = torch.nn.functional.smooth_l1_loss(*wide, reduction=reduction, beta=0.3)
    want = torch.autograd.grad(theirs, wide)
    limit = 2e-3 if x.dtype is torch.float16 else 2e-6
    for a, b in zip((ours, *got), (theirs, *want), strict=True):
        torch.testing.assert_close(a.double(), b.detach(), rtol=limit, atol=limit)


def test_no_probability() -> None:
    with pytest.raises(weft.AssertFailed, match="must be a probability"):
        weft.ops.binary_cross_entropy(torch.tensor([0.5, 1.5]), torch.tensor([0.0, 1.0]))


def test_second_derivative() -> None:
    x, t = numbers(3, 4).requires_grad_(), numbers(3, 4, seed=2)
    results = []
    for function in (weft.ops.mse_loss, F.mse_loss):
        (dx,) = torch.autograd.grad(function(x, t), x, create_graph=True)
        results.append(torch.autograd.grad(dx.pow(3).sum(), x)[0])
    torch.testing.assert_close(*results)


def test_verified() -> None:
    x, t = numbers(3, 4).requires_grad_(), parts(3, 4, seed=2)
    assert weft.ops.binary_cross_entropy_with_logits.verify(x, t).passed


REFUSED = {
    "shapes": (lambda: weft.ops.mse_loss(numbers(2, 3), numbers(3)), "needs a target"),
    "dtypes": (lambda: weft.ops.mse_loss(numbers(2), numbers(2).half()), "dtype"),
    "reduction": (lambda: weft.ops.mse_loss(numbers(2), numbers(2), "batchmean"), "reduction"),
    "beta": (lambda: weft.ops.smooth_l1_loss(numbers(2), numbers(2), beta=-1.0), "beta"),
    "delta": (lambda: weft.ops.huber_loss(numbers(2), numbers(2), delta=0.0), "delta"),
    "weight": (lambda: weft.ops.binary_cross_entropy(parts(2), parts(2), numbers(3)), "broadcast"),
    "labels": (lambda: weft.ops.nll_loss(numbers(2, 3), torch.tensor([0])), "target has shape"),
}


@pytest.mark.parametrize("subject", REFUSED)
def test_refused(subject: str) -> None:
    call, message = REFUSED[subject]
    with pytest.raises(weft.ArgumentError, match=message):
        call()


# ---- labels ------------------------------------------------------------------------------------
LABELS = {
    "rows": ((6, 5), {"reduction": "mean"}),
    "weighted": ((6, 5), {"weighted": True, "ignore_index": 1}),
    "columns": ((2, 5, 3), {"reduction": "none"}),
    "one": ((5,), {"reduction": "sum"}),
    "none": ((0, 5), {"reduction": "mean"}),
}


@pytest.mark.parametrize("subject", LABELS)
def test_labels(subject: str) -> None:
    shape, options = LABELS[subject]
    options = dict(options)
    x = numbers(*shape)
    weight = inside(5, seed=3) if options.pop("weighted", False) else None
    places = () if len(shape) == 1 else (shape[0], *shape[2:])
    target = draw.seeded(4).integers(0, 5, places)
    ours, theirs = (x.clone().requires_grad_() for _ in range(2))
    for function, point in ((weft.ops.nll_loss, ours), (F.nll_loss, theirs)):
        loss = function(point, target, weight, **options)
        loss.backward(numbers(*loss.shape, seed=5))
    torch.testing.assert_close(ours.grad, theirs.grad)
    with torch.no_grad():
        torch.testing.assert_close(
            weft.ops.nll_loss(x, target, weight, **options),
            F.nll_loss(x, target, weight, **options),
            equal_nan=True,
        )


def test_rows_of_labels_with_gaps() -> None:
    x, target = numbers(6, 8)[:, :5].requires_grad_(), torch.tensor([0, 4, 2, -100, 1, 3])
    for reduction in ("none", "sum"):
        ours = weft.ops.nll_loss(x, target, reduction=reduction)
        theirs = F.nll_loss(x, target, reduction=reduction)
        torch.testing.assert_close(ours, theirs)
        grads = (torch.autograd.grad(loss.sum(), x)[0] for loss in (ours, theirs))
        torch.testing.assert_close(*grads)


@pytest.mark.parametrize(
    "x",
    [numbers(2, 5, 3, 6)[..., :4], numbers(2, 5, 3, 4).permute(3, 1, 0, 2), numbers(5, 7).t(),
     numbers(2, 5, 3, 4, 6)[:, :, :2, :3, :5]],
)  # fmt: skip
def test_labels_of_any_memory_order(x: Any) -> None:
    shape = (x.shape[0], *x.shape[2:])
    target = draw.seeded(3).integers(0, x.shape[1], shape)
    ours, theirs = (f(x, target, reduction="none") for f in (weft.ops.nll_loss, F.nll_loss))
    torch.testing.assert_close(ours, theirs)


def test_pairs_keep_the_memory_order_of_both() -> None:
    x, t = numbers(3, 4, 5).transpose(0, 2), numbers(3, 4, 5, seed=2).transpose(0, 2)
    for target in (t, t.contiguous()):
        ours, theirs = (x.detach().requires_grad_() for _ in range(2))
        losses = weft.ops.mse_loss(ours, target, reduction="none")
        expected = F.mse_loss(theirs, target, reduction="none")
        torch.testing.assert_close(losses, expected)
        losses.sum().backward()
        expected.sum().backward()
        torch.testing.assert_close(ours.grad, theirs.grad)
    assert weft.ops.mse_loss(x, t, reduction="none").stride() == x.stride()
    weft.ops.mse_loss.verify(x.requires_grad_(), t, kwargs={"reduction": "none"})


def test_label_out_of_range() -> None:
    with pytest.raises(weft.AssertFailed, match="a label must be"):
        weft.ops.nll_loss(numbers(2, 3), torch.tensor([0, 3]))


def test_sanitized() -> None:
    """No kernel reads what nothing wrote, or races."""
    with weft.sanitize() as session:
        x = numbers(300, 5).requires_grad_()
        weft.ops.mse_loss(x, numbers(300, 5, seed=2)).backward()
        weft.ops.nll_loss(x, torch.zeros(300, dtype=torch.int64)).backward()
    assert not session.findings
