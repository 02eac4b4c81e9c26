"""Convolutions by warpgroups: the kernels for Hopper."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

import draw

torch = pytest.importorskip("torch")

import weft  # noqa: E402
from weft.ops.core import library  # noqa: E402
from weft.ops.core.runner import runner  # noqa: E402
from weft.ops.families.conv import model  # noqa: E402
from weft.ops.families.conv.tma import windows  # noqa: E402
from weft.ops.families.matmul import half_model  # noqa: E402
from weft.ops.families.matmul.half_model import WarpgroupTile  # noqa: E402

DTYPE = torch.bfloat16
TILES = {
    "two": WarpgroupTile(bn=32, stages=3, producer=False, reach=1.0, over=1e-6, block=0.0),
    "three": WarpgroupTile(bn=16, stages=3, producer=True, reach=1.0, over=1e-6, block=0.0),
}
"""Tiles of little code, for two warpgroups, and for three."""


class Call(NamedTuple):
    x: tuple[int, ...]
    weight: tuple[int, ...]
    stride: int = 1
    padding: int = 1
    dilation: int = 1
    groups: int = 1
    last: bool = False


CALLS = {
    # 24 channels: a step has vectors of three taps. 126 pixels are not a whole tile.
    "taps": Call((2, 24, 9, 7), (20, 24, 3, 3)),
    "channels last": Call((1, 16, 12, 12), (40, 16, 3, 2), dilation=2, last=True),
    "groups": Call((1, 40, 12, 11), (18, 20, 2, 2), 1, 0, 1, 2),
    "stride": Call((4, 64, 9, 8), (16, 64, 1, 1), 2, 0, last=True),
}


@pytest.fixture(autouse=True)
def drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_DRAFTS", "1")


def drawn(shape: tuple[int, ...], seed: int, last: bool = False) -> Any:
    made = draw.seeded(seed).normal(*shape).to(DTYPE)
    order = torch.channels_last if last else torch.contiguous_format
    return made.contiguous(memory_format=order)


def by_warpgroups(op: str, args: tuple[Any, ...]) -> Any:
    """The result of the kernel for warpgroups; None if it does not take the call."""
    function = library.function(op)
    request = function.request(*function.bound(args, {}))
    made = [c for c in function.definition.candidates(request) if "warpgroups" in c.name]
    count = len(function.tensors)
    if not made:
        return None
    with weft.sanitize() as session:
        # The last one has parts of the depth, if any has.
        result = runner(made[-1].build(), count, torch.device("cpu"))(*args[:count])
    assert not session.findings
    return result


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("name", CALLS)
def test_forward_and_backward(name: str, tile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(half_model, "WARPGROUP_TILES", (TILES[tile],))
    monkeypatch.setattr(windows, "CAPABILITY", (0, 0))  # boxes would take the call
    # Slabs of pixels have 64 columns.
    monkeypatch.setattr(model, "WARPGROUP_WEIGHT_TILES", (TILES[tile]._replace(bn=64),))
    call = CALLS[name]
    x, weight = drawn(call.x, 1, call.last), drawn(call.weight, 2)
    bias = drawn(call.weight[:1], 3)
    options = tuple([n, n] for n in call[2:5])
    wide, wide_weight = x.double().requires_grad_(), weight.double().requires_grad_()
    y = torch.nn.functional.conv2d(wide, wide_weight, bias.double(), *options, call.groups)
    dy = drawn(tuple(y.shape), 4, call.last)
    y.backward(dy.double())
    rest = (*options, call.groups, "fp32")
    got = by_warpgroups("conv2d", (x, weight, bias, *rest))
    assert got.stride() == y.contiguous(
        memory_format=torch.channels_last if call.last else torch.contiguous_format
    ).stride()  # fmt: skip
    torch.testing.assert_close(got.double(), y.detach(), atol=3e-2, rtol=8e-3)
    got = by_warpgroups("conv_backward_input", (dy, weight, list(x.shape), *rest))
    assert (got is None) == (call.stride != 1)
    if got is not None:
        torch.testing.assert_close(got.double(), wide.grad, atol=3e-2, rtol=8e-3)
    got = by_warpgroups("conv_backward_weight", (dy, x, list(weight.shape), *rest))
    torch.testing.assert_close(got.double(), wide_weight.grad, atol=6e-2, rtol=8e-3)
