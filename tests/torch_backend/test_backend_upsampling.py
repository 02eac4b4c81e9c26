"""Upsampling with the backend "weft": pixels are repeated, and their gradients are sums."""

from __future__ import annotations

from typing import Any

import pytest

import draw

torch = pytest.importorskip("torch")
from torch.nn import functional as F  # noqa: E402  it needs torch

from weft.torch_backend import compile_graph, reports  # noqa: E402

SUPPORTED: dict[str, tuple[tuple[int, ...], dict[str, Any], bool]] = {
    "twice": ((2, 3, 4, 5), {"scale_factor": 2.0}, False),
    "channels last": ((2, 3, 4, 5), {"scale_factor": 2}, True),
    "a size": ((1, 2, 3, 4), {"size": (12, 8)}, False),
    "exact": ((2, 2, 3, 4), {"scale_factor": (1, 4), "mode": "nearest-exact"}, True),
}
LEFT: dict[str, tuple[dict[str, Any], str]] = {
    "bilinear": ({"scale_factor": 2, "mode": "bilinear"}, "mode='bilinear'"),
    "three times": ({"scale_factor": 3}, "no power of two"),
    "a smaller size": ({"size": (2, 2)}, "no power of two"),
}


def step(function: Any, x: Any) -> tuple[Any, Any]:
    leaf = x.detach().clone().requires_grad_()
    y = function(leaf)
    (y * y).sum().backward()
    return y.detach(), leaf.grad


@pytest.mark.parametrize("subject", SUPPORTED)
def test_pixels_are_repeated(subject: str) -> None:
    shape, options, last = SUPPORTED[subject]
    x = draw.seeded(1).normal(*shape)
    if last:
        x = x.contiguous(memory_format=torch.channels_last)

    def upsampled(x: Any) -> Any:
        return F.interpolate(x, **options)

    got, want = (step(f, x) for f in (torch.compile(upsampled, backend=compile_graph), upsampled))
    assert torch.equal(got[0], want[0]) and got[0].stride() == want[0].stride()
    torch.testing.assert_close(got[1], want[1])
    for report in reports()[-2:]:
        assert not report.left and not any("index" in s.name for s in report.steps)


@pytest.mark.parametrize("subject", LEFT)
@pytest.mark.filterwarnings("ignore:.*PyTorch computes")
def test_others_are_left_to_pytorch(subject: str) -> None:
    options, reason = LEFT[subject]
    x = draw.seeded(1).normal(1, 2, 4, 4)

    def upsampled(x: Any) -> Any:
        return F.interpolate(x * 2, **options)

    got, want = (step(f, x) for f in (torch.compile(upsampled, backend=compile_graph), upsampled))
    torch.testing.assert_close(got, want)
    assert reason in reports()[-2].left["interpolate"]
