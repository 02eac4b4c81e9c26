"""Gradients of 16-bit convolutions' weights in float32, held against double precision."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

import draw

torch = pytest.importorskip("torch")

import weft  # noqa: E402
from weft.errors import ArgumentError  # noqa: E402
from weft.ops.core import library  # noqa: E402
from weft.ops.core.runner import runner  # noqa: E402

F16, BF16, F32 = torch.float16, torch.bfloat16, torch.float32
NAME = "conv_backward_weight_wide"
STORED, ROUNDED = 2e-6, 4e-3
"""Relative errors of results that are stored, and of those that are converted."""


class Call(NamedTuple):
    """Sizes, and whether a kernel stores float32 without a conversion."""

    x: tuple[int, ...]
    weight: tuple[int, ...]
    stride: int = 1
    padding: int = 1
    last: bool = True
    dtype: Any = BF16
    stored: bool = True


CALLS = {
    "images": Call((3, 64, 7, 7), (64, 64, 3, 3)),
    "stride": Call((2, 72, 10, 12), (136, 72, 3, 3), 2),
    "one tap": Call((2, 64, 9, 7), (40, 64, 1, 1), 1, 0, dtype=F16),
    "padded channels": Call((2, 20, 9, 11), (24, 20, 3, 3), stored=False),
    "channels first": Call((2, 24, 9, 11), (40, 24, 3, 3), last=False),
    "few channels": Call((2, 3, 12, 9), (40, 3, 3, 3), stored=False),
}


@pytest.mark.parametrize("subject", CALLS)
def test_candidates(subject: str) -> None:
    """One of each kind: parts that are added, the one part of a pass, and conversions."""
    call = CALLS[subject]
    order = torch.channels_last if call.last else torch.contiguous_format
    x = draw.seeded(1).normal(*call.x).to(call.dtype).contiguous(memory_format=order)
    weight = draw.seeded(2).normal(*call.weight).double().requires_grad_()
    options = ([call.stride] * 2, [call.padding] * 2, [1, 1])
    y = torch.nn.functional.conv2d(x.double(), weight, None, *options)
    dy = draw.seeded(3).normal(*y.shape).to(call.dtype).contiguous(memory_format=order)
    y.backward(dy.double())
    op = library.function(NAME)
    args = (dy, x, list(call.weight), *options, 1, "fp32", call.last)
    choice = op.choice(op.request(*args))
    kinds = set()
    for candidate in (choice.used, *choice.others):
        plan = candidate.build()
        kind = candidate.name.endswith("converted"), len(plan.steps)
        if kind in kinds or (kind[0] and any(k[0] for k in kinds)):
            continue
        kinds.add(kind)
        with weft.sanitize() as session:
            got = runner(plan, 2, torch.device("cpu"))(dy, x)
        assert not session.findings
        with weft.schedule("random:1"):
            assert torch.equal(runner(plan, 2, torch.device("cpu"))(dy, x), got)
        assert got.dtype is F32 and got.shape == weight.shape
        assert not call.last or got.is_contiguous(memory_format=order)
        error = (got.double() - weight.grad).norm() / weight.grad.norm()
        assert error < (ROUNDED if kind[0] else STORED), candidate.name
    assert {k[0] for k in kinds} == ({True, False} if call.stored else {True})


def test_bad_arguments() -> None:
    x = torch.zeros(1, 8, 4, 4)
    with pytest.raises(ArgumentError, match="dtype"):
        library.call(NAME)(x, x, [8, 8, 1, 1], [1, 1], [0, 0], [1, 1], 1, "fp32")
