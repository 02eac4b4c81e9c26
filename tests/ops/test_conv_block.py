"""conv_bn_relu_pool against its four ops in float64."""

from __future__ import annotations

from typing import Any

import pytest

import devices
import draw
import weft

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402  (it needs torch)

from weft.ops.core import library  # noqa: E402
from weft.ops.core.runner import runner  # noqa: E402
from weft.ops.families.conv_block import unfused  # noqa: E402

SIM = devices.current.name == "sim"
DEVICE = "cpu" if SIM else "cuda"
OP = "conv_bn_relu_pool"


class Call:
    """The arguments of a call; `norm` are running mean and variance, weight and bias."""

    def __init__(self, x: tuple[int, ...], weight: tuple[int, ...], padding: Any = 0,
                 dtype: Any = torch.float32, bias: bool = True, seed: int = 1) -> None:  # fmt: skip
        generator = draw.seeded(seed)

        def numbers(*shape: int) -> Any:
            return generator.normal(*shape).to(DEVICE)

        self.x, self.weight = numbers(*x).to(dtype), (0.3 * numbers(*weight)).to(dtype)
        self.bias = numbers(weight[0]).to(dtype) if bias else None
        self.norm = [numbers(weight[0]) for _ in range(4)]
        self.norm[1] = self.norm[1].abs() + 0.5
        self.padding = padding

    def tensors(self, convert: Any) -> list[Any]:
        return [
            None if t is None else convert(t) for t in (self.x, self.weight, self.bias, *self.norm)
        ]

    def weft(self, tensors: Any, **options: Any) -> Any:
        return weft.ops.conv_bn_relu_pool(*tensors, padding=self.padding, **options)

    def exact(self, tensors: Any, training: bool = False) -> Any:
        x, weight, bias, *norm = tensors
        y = functional.conv2d(x, weight, bias, padding=self.padding)
        return functional.max_pool2d(functional.batch_norm(y, *norm, training).relu(), 2)


def leaf(t: Any) -> Any:
    return t.detach().clone().requires_grad_()


def wide(t: Any) -> Any:
    return t.detach().double().requires_grad_()


CALLS: dict[str, Any] = {
    "even": lambda: Call((2, 3, 8, 8), (5, 3, 3, 3), 1),
    "odd": lambda: Call((2, 3, 9, 7), (33, 3, 3, 3), 1),
    "several blocks": lambda: Call((1, 9, 20, 20), (70, 9, 3, 3), 1, bias=False),
    "oblong": lambda: Call((3, 2, 7, 10), (40, 2, 5, 3), (2, 0)),
    "points": lambda: Call((2, 5, 4, 6), (8, 5, 1, 1)),
    "large": lambda: Call((1, 1, 10, 10), (4, 1, 7, 7), 3),
}
QUICK = {"odd"}


def rows(quick: Any) -> list[Any]:
    return [pytest.param(n, marks=[] if n in quick else [pytest.mark.slow]) for n in CALLS]


@pytest.mark.parametrize("name", rows({"even", "odd"}))
def test_evaluation(name: str) -> None:
    call = CALLS[name]()
    got = call.weft(call.tensors(lambda t: t))
    want = call.exact(call.tensors(lambda t: t.double()))
    torch.testing.assert_close(got.double(), want, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", rows(QUICK))
def test_training(name: str) -> None:
    """Result, running statistics and all gradients."""
    call = CALLS[name]()
    given, exact = call.tensors(leaf), call.tensors(wide)
    running = [t.detach().clone() for t in given[3:5]]
    running_exact = [t.double() for t in running]
    got = call.weft([*given[:3], *running, *given[5:]], training=True)
    want = call.exact([*exact[:3], *running_exact, *exact[5:]], training=True)
    close = {"atol": 1e-5, "rtol": 1e-4}
    torch.testing.assert_close(got.double(), want, **close)
    for a, b in zip(running, running_exact, strict=True):
        torch.testing.assert_close(a.double(), b, **close)
    dy = draw.seeded(2).normal(got.shape).to(DEVICE)
    pairs = [(a, b) for a, b in zip(given[:3] + given[5:], exact[:3] + exact[5:], strict=True)
             if a is not None]  # fmt: skip
    slopes = torch.autograd.grad(got, [a for a, _ in pairs], dy)
    slopes_exact = torch.autograd.grad(want, [b for _, b in pairs], dy.double())
    for a, b in zip(slopes, slopes_exact, strict=True):
        torch.testing.assert_close(a.double(), b, atol=1e-4, rtol=1e-4)


def test_every_tile_gives_the_same_bits() -> None:
    """A result sums its products in one order, whatever the tile."""
    call = Call((3, 4, 9, 9), (34, 4, 3, 3), 1)
    function = library.function(OP)
    tensors = call.tensors(lambda t: t)
    request = function.request(*tensors, [1, 1], False, 0.1, 1e-5)
    found = [c for c in function.definition.candidates(request) if "filters" in c.name]
    picked = (found[0], found[-1])
    first, *others = (runner(c.build(), 7, call.x.device)(*tensors) for c in picked)
    for other in others:
        assert torch.equal(other, first)


SEPARATE: dict[str, Any] = {
    "winograd": lambda: Call((3, 4, 9, 8), (34, 4, 3, 3), 1),
    "winograd, padding of rows": lambda: Call((2, 4, 9, 11), (7, 4, 3, 3), (1, 0), bias=False),
    "tensor": lambda: Call((2, 16, 7, 6), (9, 16, 3, 2), 1, torch.bfloat16),
}


@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
@pytest.mark.parametrize("name", SEPARATE)
def test_a_convolution_of_its_own(name: str, training: bool, monkeypatch: Any) -> None:
    """The convolution by another kernel, then the rest: of contiguous and of other images."""
    monkeypatch.setattr(unfused, "LISTED", 100)  # tensors of this size prefer other kernels
    call = SEPARATE[name]()
    tensors, exact = (call.tensors(f) for f in (lambda t: t, lambda t: t.double()))
    x, weight, bias, *norm = exact
    y = functional.conv2d(x, weight, bias, padding=call.padding)
    z = functional.batch_norm(y, *([None, None, *norm[2:]] if training else norm), training)
    wanted = [functional.max_pool2d(z.relu(), 2)]
    if training:
        wanted += [y.mean((0, 2, 3)), y.var((0, 2, 3), correction=0), y]
        tensors = [*tensors[:3], *tensors[5:]]
    function = library.function(f"{OP}_training" if training else OP)
    pads = [call.padding] * 2 if isinstance(call.padding, int) else list(call.padding)
    close = (
        {"atol": 8e-2, "rtol": 2e-2}
        if call.x.dtype is torch.bfloat16
        else {"atol": 2e-5, "rtol": 2e-5}
    )
    for order in (torch.contiguous_format, torch.channels_last):
        tensors[0] = tensors[0].contiguous(memory_format=order)
        rest = (1e-5,) if training else (False, 0.1, 1e-5)
        request = function.request(*tensors, pads, *rest)
        kind = name.split(",")[0]
        starts = (f"convolution {kind}", *(["pooling"] * (kind == "winograd" and not training)))
        for start in starts:
            made = next(
                c for c in function.definition.candidates(request) if c.name.startswith(start)
            )
            with weft.sanitize() as session:
                got = runner(made.build(), len(tensors), call.x.device)(*tensors)
            assert not session.findings
            for a, b in zip(got if training else [got], wanted, strict=True):
                torch.testing.assert_close(a.double(), b, **close)


@pytest.mark.slow
def test_half_precision() -> None:
    call = Call((2, 4, 8, 8), (6, 4, 3, 3), 1, torch.bfloat16)
    tensors = call.tensors(lambda t: t)
    want = call.exact(call.tensors(lambda t: t.double()))
    torch.testing.assert_close(call.weft(tensors).double(), want, atol=5e-2, rtol=2e-2)
    got = call.weft([*tensors[:3], None, None, *tensors[5:]], training=True)
    exact = call.tensors(lambda t: t.double())
    want = call.exact([*exact[:3], None, None, *exact[5:]], training=True)
    torch.testing.assert_close(got.double(), want, atol=8e-2, rtol=2e-2)


@pytest.mark.slow
def test_strided_tensors_and_gradients_in_evaluation() -> None:
    call = Call((2, 3, 8, 8), (5, 3, 3, 3), 1)
    tensors = call.tensors(lambda t: t)
    want = call.weft(tensors)
    last = torch.channels_last
    turned = [tensors[0].to(memory_format=last), tensors[1].to(memory_format=last), *tensors[2:]]
    torch.testing.assert_close(call.weft(turned), want)
    given, exact = call.tensors(leaf), call.tensors(wide)
    got = call.weft([*given[:3], *tensors[3:5], *given[5:]])
    torch.testing.assert_close(got, want)
    want = call.exact([*exact[:3], *(t.double() for t in tensors[3:5]), *exact[5:]])
    pairs = (0, 1, 2, 5, 6)
    for a, b in zip(
        torch.autograd.grad(got.sum(), [given[i] for i in pairs]),
        torch.autograd.grad(want.sum(), [exact[i] for i in pairs]),
        strict=True,
    ):
        torch.testing.assert_close(a.double(), b, atol=1e-4, rtol=1e-4)


def test_not_a_number_and_no_images() -> None:
    call = Call((1, 1, 4, 4), (2, 1, 1, 1), bias=False)
    call.x[0, 0, 1, 1] = torch.nan
    assert call.weft(call.tensors(lambda t: t)).isnan().sum() == 2
    empty = Call((0, 1, 4, 4), (2, 1, 1, 1))
    assert empty.weft(empty.tensors(lambda t: t)).shape == (0, 2, 2, 2)


ERRORS: dict[str, tuple[Any, str]] = {
    "channels": (lambda: Call((1, 2, 4, 4), (2, 3, 3, 3)), "with the same C"),
    "rank": (lambda: Call((2, 4, 4), (2, 2, 3, 3)), "[N, C, H, W]"),
    "small": (lambda: Call((1, 1, 3, 3), (2, 1, 3, 3)), "would be empty"),
    "filters": (lambda: Call((1, 1, 12, 12), (2, 1, 9, 9)), "at most 7 x 7"),
    "padding": (lambda: Call((1, 1, 6, 6), (2, 1, 3, 3), -1), "one or two sizes"),
    "dtype": (lambda: Call((1, 1, 6, 6), (2, 1, 3, 3), dtype=torch.float64), "torch.float64"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_wrong_arguments(name: str) -> None:
    make, said = ERRORS[name]
    call = make()
    for training in (False, True):
        with pytest.raises(weft.ArgumentError) as caught:
            call.weft(call.tensors(lambda t: t), training=training)
        assert said in str(caught.value)


def test_statistics_that_are_missing() -> None:
    call = Call((1, 1, 4, 4), (2, 1, 1, 1))
    tensors = call.tensors(lambda t: t)
    with pytest.raises(weft.ArgumentError, match="evaluation needs running_mean and running_var"):
        call.weft([*tensors[:3], None, None, *tensors[5:]])


def test_verify() -> None:
    call = Call((2, 2, 4, 4), (3, 2, 3, 3), 1)
    assert library.call(OP).verify(*call.tensors(lambda t: t), 1).passed


@pytest.mark.slow
def test_compiled() -> None:
    call = Call((2, 3, 8, 8), (5, 3, 3, 3), 1)
    results = []
    for wrap in (lambda f: f, lambda f: torch.compile(f, fullgraph=True, backend="aot_eager")):
        given = call.tensors(leaf)
        running = [t.detach().clone() for t in given[3:5]]
        out = wrap(lambda *t: call.weft(t, training=True))(*given[:3], *running, *given[5:])
        results.append([out, *running, *torch.autograd.grad(out.sum(), given[:2])])
    for a, b in zip(*results, strict=True):
        assert torch.equal(a, b)


@pytest.mark.sim
def test_sanitized() -> None:
    call = Call((2, 2, 5, 7), (3, 2, 3, 3), 1)
    with weft.sanitize():
        call.weft(call.tensors(lambda t: t))
        given = call.tensors(leaf)
        call.weft([*given[:3], None, None, *given[5:]], training=True).sum().backward()
