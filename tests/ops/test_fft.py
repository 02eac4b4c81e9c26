"""Fourier transforms against torch.fft in double precision."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import pytest

import draw

torch = pytest.importorskip("torch")

import weft  # noqa: E402
from weft.ops.core.runner import runner  # noqa: E402
from weft.ops.families.fft import lengths, model  # noqa: E402

LIMIT = 3e-7
"""The norm of the error over the norm of the result; cuFFT has up to 2e-7 at these lengths."""


def drawn(*shape: int, seed: int = 1) -> Any:
    return draw.seeded(seed).normal(shape)


def complex_(*shape: int, seed: int = 1) -> Any:
    return torch.complex(drawn(*shape, seed=seed), drawn(*shape, seed=seed + 1))


def double(x: Any) -> Any:
    return x.to(torch.complex128) if x.is_complex() else x.double()


def error(ours: Any, reference: Any) -> float:
    assert ours.shape == reference.shape
    assert ours.is_complex() == reference.is_complex()
    return float((ours - reference).norm() / reference.norm())


CALLS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "one element": ("fft", complex_(4, 1), {}),
    "one real element": ("fft", drawn(1, 1, 301), {"dim": 1}),
    "one element of half precision": ("rfft", drawn(301, 2).half(), {"n": 1, "norm": "ortho"}),
    "one element of columns": ("ifft2", complex_(1, 30, 1).transpose(0, 1), {}),
    "the real part of one element": ("irfft", complex_(37, 3), {"n": 1}),
    "rows": ("fft", complex_(3, 12), {}),
    "short rows": ("fft", complex_(40, 16), {}),
    "short odd rows": ("ifft", complex_(37, 9), {}),
    "short rows of two stages": ("fft", complex_(33, 32), {}),
    "columns": ("ifft", complex_(2, 12, 3), {"dim": 1, "norm": "ortho"}),
    "short rows of columns": ("fft", complex_(37, 5, 12), {"dim": 1}),
    "short rows of columns of two stages": ("ifft", complex_(9, 32, 7), {"dim": 1}),
    "short rows of real columns": ("rfft", drawn(11, 12, 5), {"dim": 1}),
    "short rows of columns with gaps": ("fft", complex_(13, 6, 9)[..., :5], {"dim": 1}),
    "short rows of columns to real ones": ("irfft", complex_(2, 31, 4, 6)[:, :-1], {"dim": 2}),
    "real rows": ("fft", drawn(3, 12), {}),
    "cut": ("fft", drawn(3, 12), {"n": 9, "norm": "forward"}),
    "padded": ("fft", complex_(2, 12, 3), {"n": 15, "dim": 1}),
    "many radices": ("fft", complex_(2, 180), {}),
    "a prime radix": ("fft", complex_(3, 34), {}),
    "a prime": ("fft", complex_(3, 37), {}),
    "a prime of columns": ("ifft", complex_(37, 3), {"dim": 0}),
    "even real with a prime": ("rfft", drawn(3, 74), {}),
    "inverse with a prime": ("irfft", complex_(3, 38), {"n": 74}),
    "odd inverse with a prime": ("irfft", complex_(3, 19), {"n": 37}),
    "even real": ("rfft", drawn(3, 12), {}),
    "odd real": ("rfft", drawn(3, 9), {}),
    "two reals": ("rfft", drawn(3, 2), {}),
    "padded real": ("rfft", drawn(3, 12), {"n": 20}),
    "real columns": ("rfft", drawn(12, 3), {"dim": 0}),
    "misaligned": ("rfft", drawn(3, 13)[:, 1:], {}),
    "half precision": ("rfft", drawn(3, 12).half(), {}),
    "even inverse": ("irfft", complex_(3, 7), {}),
    "odd inverse": ("irfft", complex_(3, 7), {"n": 11}),
    "padded inverse": ("irfft", complex_(3, 7), {"n": 20}),
    "cut inverse columns": ("irfft", complex_(7, 3), {"n": 8, "dim": 0}),
    "plane": ("fft2", complex_(2, 6, 10), {}),
    "inverse plane": ("ifft2", complex_(2, 6, 10), {"norm": "forward"}),
    "real plane": ("rfft2", drawn(2, 6, 10), {}),
    "real inverse plane": ("irfft2", complex_(2, 6, 6), {}),
    "cut and padded plane": ("fft2", complex_(2, 6, 10), {"s": (4, 12)}),
    "real plane of other sizes": ("rfft2", drawn(6, 10), {"s": (9, 5)}),
    "inverse plane of other sizes": ("irfft2", complex_(2, 6, 6), {"s": (5, 9)}),
    "lengths of the tensor": ("irfft2", complex_(2, 6, 6), {"s": (5, -1)}),
    "other dimensions": ("fft2", complex_(6, 3, 10), {"dim": (0, 2)}),
    "space": ("fftn", complex_(4, 6, 10), {}),
    "some dimensions of a space": ("ifftn", complex_(4, 6, 10), {"s": (5, 8), "norm": "ortho"}),
    "real space": ("rfftn", drawn(4, 3, 6, 10), {"dim": (0, 2, 3)}),
    "real inverse space": ("irfftn", complex_(2, 3, 6), {"s": (2, 3, -1)}),
    "transposed": ("fft", complex_(10, 6).t(), {}),
    "permuted": ("fft", complex_(4, 5, 6).permute(2, 1, 0), {"dim": 1}),
    "conjugated": ("fft", complex_(3, 12).conj(), {}),
}


@pytest.mark.parametrize("subject", CALLS)
def test_values(subject: str) -> None:
    name, x, options = CALLS[subject]
    reference = getattr(torch.fft, name)(double(x), **options)
    assert error(getattr(weft.ops, name)(x, **options), reference) < LIMIT


LONG: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "two passes": ("fft", complex_(2, 96), {}),
    "inverse": ("ifft", complex_(2, 80), {"n": 96}),
    "columns": ("fft", complex_(2, 96, 3), {"dim": 1}),
    "columns side by side": ("ifft", complex_(2, 96, 10), {"dim": 1, "norm": "ortho"}),
    "real columns side by side": ("fft", drawn(3, 96, 5), {"dim": 1}),
    "padded columns": ("fft", complex_(80, 5), {"dim": 0, "n": 96}),
    "many columns": ("fft", complex_(96, 3).repeat(2, 1, 1), {"dim": 1}),
    "transposed": ("fft", complex_(96, 3).t(), {}),
    "real columns": ("rfft", drawn(192, 3), {"dim": 0}),
    "prime columns": ("ifft", complex_(97, 3), {"dim": 0}),
    "three passes": ("fft", complex_(1, 720), {}),
    "pairs": ("rfft", drawn(2, 150), {"n": 192}),
    "odd real": ("rfft", drawn(2, 135), {}),
    "spectrum": ("irfft", complex_(2, 97), {}),
    "odd spectrum": ("irfft", complex_(2, 68), {"n": 135}),
    "a prime": ("ifft", complex_(2, 97), {}),
    "real with a prime": ("rfft", drawn(2, 194), {}),
    "odd real with a prime": ("rfft", drawn(2, 97), {}),
    "spectrum with a prime": ("irfft", complex_(2, 98), {"n": 194}),
    "a factor with a prime": ("fft", complex_(2, 222), {"norm": "ortho"}),
    "pairs of a factor with a prime": ("rfft", drawn(2, 444), {}),
    "a prime without a matrix": ("fft", complex_(1, 487), {}),
}


@contextlib.contextmanager
def blocks_of(most: int, of_pass: int, op: Any) -> Iterator[None]:
    """Blocks that hold few elements, so that short transforms take the passes of long ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model, "BLOCK_ELEMENTS", most)
        patch.setattr(model, "PASS_ELEMENTS", of_pass)
        try:
            for forget in (lengths.bluestein.cache_clear, op.op.forget):
                forget()
            yield
        finally:
            for forget in (lengths.bluestein.cache_clear, op.op.forget):
                forget()


@pytest.mark.parametrize("subject", LONG)
def test_several_passes(subject: str) -> None:
    name, x, options = LONG[subject]
    op = getattr(weft.ops, name)
    reference = getattr(torch.fft, name)(double(x), **options)
    with blocks_of(*((80, 80) if "factor" in subject else (60, 16)), op):
        assert error(op(x, **options), reference) < LIMIT


def test_the_gradient_of_a_long_odd_transform() -> None:
    """Its last pass weighs the elements that stand for two."""
    x, dy = complex_(2, 49), drawn(2, 97, seed=3)
    ours, theirs = x.clone().requires_grad_(), double(x).requires_grad_()
    torch.fft.irfft(theirs, n=97).backward(dy.double())
    with blocks_of(60, 16, weft.ops.irfft):
        weft.ops.irfft(ours, n=97).backward(dy)
    assert error(ours.grad, theirs.grad) < LIMIT


def test_other_passes_are_offered() -> None:
    """`weft tune` may choose among them: they give the same transform."""
    x = complex_(2, 222)
    with blocks_of(80, 80, weft.ops.fft):
        function = weft.ops.fft.op
        choice = function.choice(function.request(*function.bound((x,), {})))
        assert choice.used.name == "fourier" and len(choice.others) > 1
        other = runner(choice.others[0].build(), 1, x.device)(x)
    assert error(other, torch.fft.fft(double(x))) < LIMIT


@pytest.mark.parametrize("n", [8192, 5040, 3000])
def test_larger_radices_save_a_stage(n: int) -> None:
    made = lengths.stages(n)[0]
    assert math.prod(made.radices) == n and len(made.radices) == 3


def test_larger_radices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short transform with the radices of a long one."""
    monkeypatch.setattr(model, "LONG_TRANSFORM", 300)
    monkeypatch.setattr(model, "LARGEST_RADIX", 6)
    lengths.stages.cache_clear()
    weft.ops.fft.op.forget()
    x = complex_(2, 400)
    try:
        assert max(lengths.stages(400)[0].radices) > 16
        assert error(weft.ops.fft(x), torch.fft.fft(double(x))) < LIMIT
    finally:
        lengths.stages.cache_clear()
        weft.ops.fft.op.forget()


def test_lazily_conjugated_calls_share_no_plan() -> None:
    """A conjugated view has the layout of its base, but other values."""
    x = complex_(2, 8)
    for y in (x, x.conj(), x):
        assert error(weft.ops.fft(y), torch.fft.fft(double(y))) < LIMIT


GRADIENTS = ("real rows", "cut", "padded", "odd real", "padded real", "even inverse",
             "odd inverse", "padded inverse", "cut inverse columns", "real plane of other sizes",
             "inverse plane of other sizes", "cut and padded plane")  # fmt: skip


@pytest.mark.parametrize("subject", GRADIENTS)
def test_gradients(subject: str) -> None:
    name, x, options = CALLS[subject]
    ours, theirs = x.clone().requires_grad_(), double(x).requires_grad_()
    y, z = getattr(weft.ops, name)(ours, **options), getattr(torch.fft, name)(theirs, **options)
    dy = complex_(*y.shape, seed=3) if y.is_complex() else drawn(*y.shape, seed=3)
    y.backward(dy)
    z.backward(double(dy))
    assert error(ours.grad, theirs.grad) < LIMIT


def test_gradients_of_gradients() -> None:
    x = drawn(2, 12)

    def second(function: Any, x: Any) -> Any:
        point = x.clone().requires_grad_()
        y = function(point)
        (first,) = torch.autograd.grad((y.abs() ** 4).sum(), point, create_graph=True)
        return torch.autograd.grad(first.pow(2).sum(), point)[0]

    assert error(second(weft.ops.rfft, x), second(torch.fft.rfft, x.double())) < 1e-5


@pytest.mark.parametrize("subject", ["real rows", "even inverse"])
def test_torch_verifies(subject: str) -> None:
    name, x, options = CALLS[subject]
    op = getattr(weft.ops, name)
    op.verify(x.clone().requires_grad_(), *options.values())


def test_compiled() -> None:
    x = drawn(3, 12).requires_grad_()
    function = torch.compile(
        lambda v: weft.ops.irfft(weft.ops.rfft(v) * 2).pow(2).sum(),
        backend="aot_eager",
        fullgraph=True,
    )
    function(x).backward()
    torch.testing.assert_close(x.grad, 8 * x.detach(), rtol=1e-5, atol=1e-5)


def test_batches() -> None:
    x = complex_(4, 3, 8)
    ours = torch.vmap(lambda v: weft.ops.fft(v, dim=0), in_dims=1)(x)
    assert error(ours, torch.vmap(lambda v: torch.fft.fft(v, dim=0), in_dims=1)(double(x))) < LIMIT


def test_sanitized() -> None:
    with weft.sanitize() as session:
        weft.ops.rfft(drawn(3, 36))
        weft.ops.fft2(complex_(2, 12, 18))
        weft.ops.fft2(complex_(37, 5, 6))
        weft.ops.fft(complex_(2, 37))
    assert not session.findings


REFUSED: dict[str, tuple[str, Any, dict[str, Any], str]] = {
    "no points": ("fft", complex_(3), {"n": 0}, "0 points"),
    "a negative length": ("fft", complex_(3), {"n": -1}, "-1 points"),
    "too many points": ("fft", complex_(3), {"n": 2**31}, "2147483648 points"),
    "an empty dimension": ("fft", complex_(3, 0), {}, "0 points"),
    "one element of a spectrum": ("irfft", complex_(3, 1), {}, "0 points"),
    "a repeated dimension": ("fft2", complex_(3, 4), {"dim": (1, -1)}, "different"),
    "no such dimension": ("fft", complex_(3), {"dim": 1}, "no such dimension"),
    "a number": ("fft", complex_(), {}, "no such dimension"),
    "an unknown norm": ("fft", complex_(3), {"norm": "half"}, "'ortho'"),
    "an integer": ("fft", torch.arange(4), {}, "float32"),
    "double": ("rfft", torch.zeros(4).double(), {}, "float32"),
    "complex for real": ("rfft", complex_(4), {}, "float32"),
    "real for complex": ("irfft", drawn(4), {}, "complex64"),
    "one length for two": ("fft2", complex_(3, 4), {"s": (3,)}, "2 lengths"),
}


@pytest.mark.parametrize("subject", REFUSED)
def test_refused(subject: str) -> None:
    name, x, options, said = REFUSED[subject]
    with pytest.raises(weft.ArgumentError, match=said):
        getattr(weft.ops, name)(x, **options)


def test_no_elements() -> None:
    assert weft.ops.rfft(drawn(0, 8)).shape == (0, 5)


@pytest.mark.parametrize("n", [1, 2, 97, 1000, 1021, 2049, 8191])
def test_good_lengths(n: int) -> None:
    """The next length whose factors are 2, 3, 5 and 7, found by trying."""
    tried = n
    while True:
        rest = tried
        for p in (2, 3, 5, 7):
            while rest % p == 0:
                rest //= p
        if rest == 1:
            break
        tried += 1
    assert lengths.good(n) == tried


@pytest.mark.parametrize("n", [1, 12, 1000, 1536, 4096, 5040, 8192, 14406, 16384])
def test_stages(n: int) -> None:
    assert lengths.stages(n)
    for chosen in lengths.stages(n):
        product = 1
        for r in chosen.radices:
            product *= r
        assert product == n
        assert chosen.threads <= 1024
