"""Convolutions of tensors that differ in their order of memory."""

from __future__ import annotations

from typing import Any

import pytest

import draw

torch = pytest.importorskip("torch")

import weft  # noqa: E402
import weft.ops  # noqa: E402
from weft.ops.core import library  # noqa: E402
from weft.ops.families.conv.cases import CASES  # noqa: E402
from weft.ops.models import calls  # noqa: E402
from weft.ops.sweep import case as sweep_case  # noqa: E402


def test_a_gradient_of_another_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """dy is copied once to the order of x, for both passes; the weight's gradient to its order."""
    conv2d = weft.ops.conv2d  # before the change: the package keeps what it has found
    called: list[tuple[str, Any]] = []
    find = library.call

    def counted(name: str) -> Any:
        function = find(name)

        def call(*args: Any, **options: Any) -> Any:
            called.append((name, args[0].stride()))
            return function(*args, **options)

        return call

    monkeypatch.setattr(library, "call", counted)
    drawn = draw.seeded(1)
    last = {"memory_format": torch.channels_last}
    x = drawn.normal(2, 8, 5, 4).contiguous(**last).requires_grad_()
    weight = drawn.normal(4, 8, 3, 3).contiguous(**last).requires_grad_()
    dy = drawn.normal(2, 4, 5, 4)
    y = conv2d(x, weight, None, 1, 1)
    got = torch.autograd.grad(y, (x, weight), dy)
    want = torch.autograd.grad(
        torch.nn.functional.conv2d(x.double(), weight.double(), None, 1, 1),
        (x, weight),
        dy.double(),
    )
    for mine, theirs in zip(got, want, strict=True):
        assert torch.allclose(mine.double(), theirs.double(), atol=1e-4)
    assert got[0].is_contiguous(**last)
    assert got[1].is_contiguous(**last)
    orders = dict(called)
    assert [name for name, _ in called].count("permute") == 1
    assert orders["conv_backward_input"] == orders["conv_backward_weight"] == (80, 1, 16, 4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(2, 6, 5), (1, 6, 1), (2, 1, 5)], ids=str)
@pytest.mark.parametrize("taps", [1, 3])
def test_a_gradient_with_gaps_between_pixels(
    taps: int, shape: tuple[int, int, int], dtype: Any
) -> None:
    """That of a part of a joined tensor keeps its channels last, as fake tensors say."""
    n, *pixels = shape
    drawn = draw.seeded(2)
    joined = drawn.normal(n, 24, *pixels).to(dtype).contiguous(memory_format=torch.channels_last)
    weight = drawn.normal(8, 16, taps, taps).to(dtype)
    dy, size, pad = joined[:, 8:16], [n, 16, *pixels], [taps // 2]
    call = library.call("conv_backward_input")
    with weft.sanitize():
        dx = call(dy, weight, size, [1], pad, [1], 1)
    with torch._subclasses.fake_tensor.FakeTensorMode() as mode:
        fake = call(mode.from_tensor(dy), mode.from_tensor(weight), size, [1], pad, [1], 1)
    assert dx.stride() == fake.stride()
    assert dx.is_contiguous(memory_format=torch.channels_last)
    wanted = torch.nn.grad.conv2d_input(size, weight.float(), dy.float(), padding=pad)
    torch.testing.assert_close(dx.float(), wanted, rtol=2e-2, atol=5e-2)


@pytest.mark.parametrize("last", [False, True])
def test_gradients_that_are_timed_have_the_order_of_their_layer(last: bool) -> None:
    case = next(c for c in CASES if c.name == "conv2d backward")
    work = calls.convolution(
        2, 16, 8, 6, 6, "float32", dims=2, kernel=3, stride=1, padding=1, groups=1, bias=False,
        channels_last=last,
    )  # fmt: skip
    made = sweep_case.arguments(case, work.call, "cpu", torch.Generator().manual_seed(1))
    assert made.gradients is not None
    assert made.gradients[0].stride() == ((288, 1, 48, 8) if last else (288, 36, 6, 1))
