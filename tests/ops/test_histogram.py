"""Histograms of the library against torch: every kernel, ranges, weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import draw
import weft

torch = pytest.importorskip("torch")

from candidates import by, tensor  # noqa: E402
from weft.ops.core import library  # noqa: E402
from weft.ops.core.plan import COUNTERS, Counters, Pointer  # noqa: E402


def bytes_(*shape: int, dtype: Any = torch.int32) -> Any:
    generator = draw.seeded(sum(shape))
    return generator.integers(0, 256, shape).to(dtype)


@pytest.mark.parametrize(
    "kernel", ["32 copies", "global memory", pytest.param("4 copies", marks=pytest.mark.slow)]
)
def test_counts_of_integers(kernel: str) -> None:
    x = bytes_(3001)
    want = torch.bincount(x, minlength=256)
    got = by(kernel, "histogram", x)
    assert got.dtype == torch.int32
    assert torch.equal(got.long(), want)


def test_counts_in_shared_zeros_leave_zeros() -> None:
    """Two calls in a row, and more bins than there are shared zeros."""
    function, x = library.function("histogram"), tensor(9001)
    request = function.request(*function.bound((x, 50, -3.0, 3.0), {}))
    (step,) = function.choice(request).used.build().steps
    assert any(isinstance(a, Counters) for a in step.args)
    zeros, y = torch.zeros(COUNTERS, dtype=torch.int32), torch.empty(50)
    tensors = {Counters(): zeros, Pointer(0): x, Pointer(2): y}
    args = [tensors[a] if isinstance(a, Counters | Pointer) else a for a in step.args]
    step.kernel[step.grid, step.block, step.shared](*args)
    assert not zeros.any() and torch.equal(y, torch.histc(x, 50, -3, 3))
    many = weft.ops.histogram(x, COUNTERS, -3.0, 3.0)
    assert torch.equal(many, torch.histc(x, COUNTERS, -3, 3))


def test_given_range() -> None:
    x = tensor(47, 51)
    x[3, 3] = float("nan")
    got = by("16 copies", "histogram", x[1:, 1:], 10, -1.0, 2.0)
    assert torch.equal(got, torch.histc(x[1:, 1:], 10, -1, 2))


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["16 copies", "global memory"])
def test_range_of_the_elements(kernel: str) -> None:
    """Infinite elements and NaN are no part of it."""
    x = tensor(47, 51)
    with weft.sanitize():
        assert torch.equal(by(kernel, "histogram", x, 10), torch.histc(x, 10))
    want = torch.histc(x, 10)
    for odd in (float("nan"), float("inf"), float("-inf")):
        longer = torch.cat([x.reshape(-1), torch.tensor([odd])])
        assert torch.equal(by(kernel, "histogram", longer, 10), want)
    equal = torch.full((5,), 2.0)
    assert torch.equal(by(kernel, "histogram", equal, 10), torch.histc(equal, 10))


@pytest.mark.slow
def test_weights() -> None:
    x, weights = tensor(47, 51), tensor(51, 47).abs().t()
    got = by("16 copies", "histogram", x, 10, -3.0, 3.0, weights=weights)
    want = torch.histogram(x, 10, range=(-3.0, 3.0), weight=weights.contiguous())[0]
    torch.testing.assert_close(got, want)


def test_no_elements() -> None:
    assert weft.ops.histogram(tensor(0), 4).tolist() == [0.0] * 4


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: weft.ops.histogram(tensor(3), 0), "bins must be at least 1, got 0"),
        (lambda: weft.ops.histogram(tensor(3), 4, 1.0), "min is 1.0 and max is None"),
        (lambda: weft.ops.histogram(tensor(3), 4, 2.0, 1.0), "min is 2.0 and max is 1.0"),
        (
            lambda: weft.ops.histogram(tensor(3), 4, weights=tensor(2)),
            "weights has shape [2], expected [3]",
        ),
        (lambda: weft.ops.histogram(tensor(3) > 0), "got: torch.bool"),
    ],
)
def test_messages(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(weft.ArgumentError) as caught:
        call()
    assert words in str(caught.value)
