"""Pooling of `weft.ops`, forward and backward, against torch in float64."""

from __future__ import annotations

import random
from typing import Any

import pytest

import devices
import draw
import weft

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402  (it needs torch)

from weft.ops.core import library  # noqa: E402
from weft.ops.core.runner import runner  # noqa: E402
from weft.ops.families.elementwise import pointwise  # noqa: E402

SIM = devices.current.name == "sim"
DEVICE = "cpu" if SIM else "cuda"
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 2e-2, torch.float16: 2e-3}


def numbers(*shape: int, dtype: Any = torch.float32, seed: int = 1) -> Any:
    generator = draw.seeded(seed)
    return generator.normal(*shape).to(DEVICE, dtype)


def last(x: Any) -> Any:
    return x.to(memory_format=torch.channels_last)


def compare(name: str, x: Any, *args: Any, **options: Any) -> None:
    """Values, gradients, indices and memory format."""
    tolerance = TOLERANCE[x.dtype]
    exact = x.double().detach().requires_grad_()
    want = getattr(functional, name)(exact, *args, **options)
    dy = numbers(*want.shape, dtype=x.dtype, seed=2)
    (slope,) = torch.autograd.grad(want, exact, dy.double())
    leaf = x.detach().requires_grad_()
    kept = getattr(weft.ops, name)(leaf, *args, **options)
    (got_slope,) = torch.autograd.grad(kept, leaf, dy)
    got = getattr(weft.ops, name)(x, *args, **options)
    assert got.dtype == got_slope.dtype == x.dtype
    assert got.is_contiguous() == want.is_contiguous()
    close = {"atol": tolerance, "rtol": tolerance, "equal_nan": True}
    torch.testing.assert_close(got.double(), want.detach(), **close)
    assert torch.equal(kept.nan_to_num(), got.nan_to_num())
    torch.testing.assert_close(got_slope.double(), slope, **close)
    if "max" in name:
        _, indices = getattr(weft.ops, name)(x, *args, **options, return_indices=True)
        _, right = getattr(functional, name)(x.double(), *args, **options, return_indices=True)
        assert torch.equal(indices, right)


def _odd(x: Any) -> Any:
    """A tensor with a window that has only -inf, and one with NaN."""
    x[0, 0, :4, :6], x[1, 1, 2, 3] = -float("inf"), float("nan")
    return x


CALLS: dict[str, Any] = {
    "quarters": lambda: compare("max_pool2d", numbers(2, 3, 6, 8), 2),
    "overlapping": lambda: compare("max_pool2d", numbers(2, 3, 9, 11), 3, 2, 1),
    "strips": lambda: compare("max_pool2d", _odd(numbers(2, 2, 9, 16)), 3, 2, 1),
    "strips, both sides": lambda: compare("max_pool2d", _odd(numbers(2, 2, 5, 8)), (2, 5), 1,
                                          (1, 2)),
    "strips of bfloat16": lambda: compare("max_pool2d", numbers(1, 2, 6, 16, dtype=torch.bfloat16),
                                          3, 2, 1),
    "means of strips": lambda: compare("avg_pool2d", numbers(2, 2, 9, 16), 3, 2, 1,
                                       count_include_pad=False),
    "means of long strips": lambda: compare("avg_pool1d", numbers(2, 3, 16), 5, 2, 2),
    "channels last": lambda: compare("max_pool2d", last(numbers(2, 8, 9, 7)), 3, 2, 1),
    "pairs": lambda: compare("max_pool2d",
                             last(_odd(numbers(2, 8, 9, 7, dtype=torch.bfloat16))), 3, 2, 1),
    "pairs of float16": lambda: compare("max_pool2d",
                                        last(_odd(numbers(2, 6, 9, 7, dtype=torch.float16))), 2),
    "rows left over": lambda: compare("max_pool2d", numbers(2, 2, 7, 8), 2),
    "bfloat16": lambda: compare("max_pool2d", numbers(2, 1, 4, 16, dtype=torch.bfloat16), 2),
    "dilated": lambda: compare("max_pool2d", numbers(1, 2, 9, 9), (2, 3), 1, 1, 2),
    "ceil": lambda: compare("max_pool1d", numbers(2, 3, 10), 3, 2, 1, ceil_mode=True),
    "many taps": lambda: compare("max_pool1d", numbers(1, 600), 300, 150),
    "parts": lambda: compare("adaptive_max_pool2d", numbers(2, 3, 12, 11), (3, 5)),
    "equal parts": lambda: compare("adaptive_max_pool2d", numbers(2, 3, 12, 8), (3, 4)),
    "means": lambda: compare("avg_pool2d", numbers(2, 3, 6, 8), 2),
    "means with padding": lambda: compare("avg_pool2d", numbers(2, 3, 9, 7), 3, 2, 1),
    "means without": lambda: compare("avg_pool2d", numbers(2, 3, 9, 7), 3, 2, 1,
                                     count_include_pad=False, ceil_mode=True),
    "divisor": lambda: compare("avg_pool2d", numbers(3, 6, 6), (2, 3), divisor_override=5),
    "means of a line": lambda: compare("avg_pool1d", numbers(2, 3, 11), 3, 2, 1),
    "means, channels last": lambda: compare("avg_pool2d", last(numbers(2, 8, 6, 6)), 2),
    "mean parts": lambda: compare("adaptive_avg_pool2d", numbers(2, 3, 12, 11), (3, 5)),
    "mean planes": lambda: compare("adaptive_avg_pool2d", numbers(2, 3, 5, 7), 1),
    "mean lines": lambda: compare("adaptive_avg_pool1d", numbers(2, 3, 10), 4),
    "transposed": lambda: compare("max_pool2d", numbers(2, 3, 6, 8).transpose(2, 3), 2),
    "misaligned": lambda: compare("max_pool2d", numbers(97)[1:].view(1, 2, 6, 8), 2),
}  # fmt: skip
QUICK = {
    "pairs",
    "strips",
    "means of strips",
    "quarters",
    "overlapping",
    "channels last",
    "means",
    "mean parts",
    "ceil",
}


def rows(table: Any, quick: Any) -> list[Any]:
    return [pytest.param(n, id=n, marks=[] if n in quick else [pytest.mark.slow]) for n in table]


@pytest.mark.parametrize("name", rows(CALLS, QUICK))
def test_values_and_gradients(name: str) -> None:
    CALLS[name]()


def drawn(rng: random.Random) -> None:
    """A random call; where torch refuses, weft must as well."""
    rank, kind = rng.choice((1, 2, 2)), rng.choice(("max", "avg", "adaptive_avg", "adaptive_max"))
    lead = [rng.randint(1, 3), rng.randint(1, 5)][rng.random() < 0.2 :]
    x = numbers(*lead, *(rng.randint(4, 17) for _ in range(rank)), seed=rng.randrange(1000))
    if rng.random() < 0.3:
        x.view(-1)[rng.randrange(x.numel())] = float("nan")
    if x.dim() == 4 and rng.random() < 0.4:
        x = last(x)
    name, options = f"{kind}_pool{rank}d", {}
    sizes = [rng.randint(1, 4) for _ in range(rank)]
    if "adaptive" not in kind:
        options = {
            "stride": [rng.randint(1, 4) for _ in range(rank)],
            "padding": [rng.randint(0, k // 2) for k in sizes],
            "ceil_mode": rng.random() < 0.4,
        }
    if kind == "max":
        options["dilation"] = rng.choice((1, 1, 2))
    try:
        getattr(functional, name)(x, sizes, **options)
    except RuntimeError:
        with pytest.raises(weft.ArgumentError):
            getattr(weft.ops, name)(x, sizes, **options)
        return
    compare(name, x, sizes, **options)


@pytest.mark.parametrize("seed", [pytest.param(1), pytest.param(2, marks=[pytest.mark.slow])])
def test_calls_drawn_at_random(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(3 if seed == 1 else 20):
        drawn(rng)


def test_not_a_number_wins() -> None:
    x = torch.full((1, 1, 4, 4), -torch.inf, device=DEVICE)
    x[0, 0, 0, 1] = torch.nan
    x[0, 0, 2, 3] = torch.inf
    compare("max_pool2d", x, 2)
    compare("max_pool2d", x, 3, 1, 1)


def test_every_width_of_vectors() -> None:
    """All candidates of both passes give the same bits."""
    x = numbers(2, 1, 4, 16, dtype=torch.float16)
    for name, args in (
        ("max_pool_places", (x, 2, [2, 2, 2, 2, 0, 0, 1, 1, 0], False)),
        ("avg_pool_backward", (x, [2, 1, 8, 32], 2, [2] * 4 + [0, 0, 1, 1, 0], True, 0, False)),
    ):
        function = library.function(name)
        found = function.definition.candidates(function.request(*args))
        assert len(found) > 2
        results = [runner(c.build(), 1, x.device)(x) for c in found]
        for result in results:
            for a, b in zip(result, results[0], strict=True):
                assert torch.equal(a, b)


def test_indices_of_64_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.ops.families.pool.kernels.INT32_INDICES", 0)
    assert pointwise.INT32_INDICES
    x = numbers(1, 3, 5, 10)
    got = weft.ops.max_pool2d(x, (3, 2), 2)
    assert torch.equal(got, functional.max_pool2d(x, (3, 2), 2))


def test_no_images() -> None:
    x = numbers(0, 3, 6, 6).requires_grad_()
    y = weft.ops.max_pool2d(x, 2)
    assert y.shape == (0, 3, 3, 3)
    assert torch.autograd.grad(y.sum(), x)[0].shape == x.shape


ERRORS: dict[str, tuple[Any, str]] = {
    "padding": (lambda: weft.ops.max_pool2d(numbers(1, 1, 4, 4), 2, padding=2), "half of the win"),
    "window": (lambda: weft.ops.max_pool2d(numbers(1, 1, 3, 4), 4), "would be empty"),
    "stride": (lambda: weft.ops.avg_pool1d(numbers(1, 4), 2, 0), "stride must be at least 1"),
    "rank": (lambda: weft.ops.max_pool2d(numbers(4, 4), 2), "[N, C, H, W] or [C, H, W]"),
    "empty": (lambda: weft.ops.avg_pool2d(numbers(1, 0, 4, 4), 2), "only N may be 0"),
    "sizes": (lambda: weft.ops.max_pool2d(numbers(1, 4, 4), [1, 2, 3]), "one number or two"),
    "divisor": (lambda: weft.ops.avg_pool2d(numbers(1, 4, 4), 2, divisor_override=0), "be zero"),
    "dtype": (lambda: weft.ops.max_pool2d(numbers(1, 4, 4).int(), 2), "torch.int32"),
    "parts": (lambda: weft.ops.adaptive_avg_pool1d(numbers(1, 4), 0), "would be empty"),
    "gradient": (
        lambda: weft.ops.max_pool2d(numbers(1, 1, 3, 4).requires_grad_(), 4),
        "would be empty",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_wrong_arguments(name: str) -> None:
    call, said = ERRORS[name]
    with pytest.raises(weft.ArgumentError) as caught:
        call()
    assert said in str(caught.value)


VERIFIED: dict[str, Any] = {
    "max_pool2d": lambda x: (x, 2),
    "max_pool_places": lambda x: (x, 2, [3, 3, 2, 2, 1, 1, 1, 1, 0], False),
    "adaptive_max_pool2d": lambda x: (x, [3, 2]),
    "avg_pool2d": lambda x: (x, 3, 2, 1),
    "adaptive_avg_pool2d": lambda x: (x, [3, 2]),
    "avg_pool_backward": lambda x: (x, [2, 2, 8, 8], 2, [2] * 4 + [0, 0, 1, 1, 0], True, 0),
}


@pytest.mark.parametrize("name", rows(VERIFIED, {"max_pool2d", "avg_pool2d"}))
def test_verify(name: str) -> None:
    # Numbers so far apart that a step of gradcheck changes no maximum.
    places = draw.seeded(1).permutation(2 * 2 * 4 * 4).view(2, 2, 4, 4)
    x = places.to(DEVICE, torch.float32).requires_grad_()
    assert library.call(name).verify(*VERIFIED[name](x)).passed


@pytest.mark.slow
def test_second_derivative_of_max_pool() -> None:
    x, v = numbers(2, 2, 6, 6).requires_grad_(), numbers(2, 2, 6, 6, seed=5)
    for options in ((2,), (3, 2, 1)):
        y = weft.ops.max_pool2d(x, *options)
        dy = numbers(*y.shape, seed=3).requires_grad_()
        (dx,) = torch.autograd.grad(y, x, dy, create_graph=True)
        (got,) = torch.autograd.grad(dx, dy, v)
        _, at = functional.max_pool2d(x, *options, return_indices=True)
        assert torch.equal(got, v.flatten(2).gather(2, at.flatten(2)).view(y.shape))


def test_batched_and_compiled() -> None:
    x = numbers(3, 2, 4, 4)
    got = torch.vmap(lambda a: weft.ops.avg_pool2d(a, 2))(x)
    torch.testing.assert_close(got, functional.avg_pool2d(x, 2))
    leaf = x.clone().requires_grad_()
    compiled = torch.compile(
        lambda a: weft.ops.max_pool2d(a, 2), fullgraph=True, backend="aot_eager"
    )
    (slope,) = torch.autograd.grad(compiled(leaf).sum(), leaf)
    assert slope.sum() == 3 * 2 * 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_gradient_of_whole_planes(dtype: Any) -> None:
    """One number for each channel: the gradient has the input's order of memory."""
    images = numbers(2, 16, 3, 5, dtype=dtype)
    for x in (images, last(images)):
        leaf = x.clone(memory_format=torch.preserve_format).requires_grad_()
        wide = x.double().requires_grad_()
        dy = numbers(2, 16, 1, 1, seed=4, dtype=dtype)
        (got,) = torch.autograd.grad(weft.ops.adaptive_avg_pool2d(leaf, 1), leaf, dy)
        (want,) = torch.autograd.grad(functional.adaptive_avg_pool2d(wide, 1), wide, dy.double())
        assert got.stride() == x.stride()
        torch.testing.assert_close(got.double(), want, rtol=1e-3, atol=1e-6)


@pytest.mark.sim
def test_sanitized() -> None:
    with weft.sanitize():
        x = numbers(1, 2, 5, 7).requires_grad_()
        weft.ops.max_pool2d(x, 3, 2, 1).sum().backward()
        weft.ops.avg_pool2d(x, 3, 2, 1).sum().backward()
        y = numbers(1, 1, 4, 4).requires_grad_()
        weft.ops.max_pool2d(y, 2).sum().backward()


def test_large_windows_are_shared_by_warps() -> None:
    x = numbers(2, 3, 16, 17).round()  # with equal maxima, of which the first counts
    x[0, 0, 3, 4] = x[0, 0, 5, 1] = float("nan")
    x[1, 2] = -float("inf")
    for layout in (x, last(x)):
        chosen = str(weft.ops.explain(weft.ops.adaptive_max_pool2d, layout, (2, 1)))
        assert "groups" in chosen.splitlines()[0]
        got = weft.ops.adaptive_max_pool2d(layout, (2, 1), return_indices=True)
        want = functional.adaptive_max_pool2d(layout, (2, 1), return_indices=True)
        torch.testing.assert_close(got, want, equal_nan=True)
    compare("avg_pool2d", numbers(2, 3, 16, 17), (9, 8), stride=(5, 7), padding=(3, 2))


def test_threads_of_several_planes() -> None:
    """Adaptive windows are found once for several planes; the last thread has fewer."""
    x = numbers(3, 7, 7, 5)
    many = torch.empty(2860, 5, 10, 10, device=DEVICE)
    chosen = weft.ops.explain(weft.ops.adaptive_avg_pool2d, many, (6, 8))
    assert "planes by 8" in str(chosen).splitlines()[0]
    dy = numbers(3, 7, 3, 4)
    want = functional.adaptive_avg_pool2d(leaf := x.double().requires_grad_(), (3, 4))
    (slope,) = torch.autograd.grad(want, leaf, dy.double())
    for name, args, expected in (
        ("adaptive_avg_pool2d", (x, [3, 4]), want.detach()),
        ("avg_pool_backward", (dy, list(x.shape), 2, [3, 4], False, 0), slope),
    ):
        function = library.function(name)
        request = function.request(*function.bound(args, {}))
        made = function.definition.candidates(request)
        plan = next(c for c in made if c.name == "planes by 8").build()
        got = runner(plan, 1, torch.device(DEVICE))(args[0])
        torch.testing.assert_close(got.double(), expected, rtol=1e-5, atol=1e-5)
