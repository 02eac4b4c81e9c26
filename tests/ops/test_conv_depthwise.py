"""Depthwise convolutions of images whose channels are innermost, against double precision."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

import draw

torch = pytest.importorskip("torch")

import weft  # noqa: E402
from weft.ops.core import library  # noqa: E402
from weft.ops.core.choose import Candidate  # noqa: E402
from weft.ops.core.runner import runner  # noqa: E402

OPS = {"forward": "conv2d", "input": "conv_backward_input", "weight": "conv_backward_weight"}
CLOSE = {torch.float16: 5e-4, torch.bfloat16: 4e-3, torch.float32: 1e-6}


class Call(NamedTuple):
    x: tuple[int, int, int, int]
    taps: tuple[int, int]
    stride: int
    padding: tuple[int, int]
    dtype: Any = torch.float16


CALLS = {
    "stride 1": Call((2, 24, 9, 10), (3, 3), 1, (1, 1)),
    # Pixels of even and odd columns and rows are read by other taps.
    "stride 2": Call((2, 24, 9, 11), (5, 5), 2, (2, 2)),
    "an even image": Call((1, 20, 10, 12), (3, 3), 2, (1, 1), torch.bfloat16),
    "49 taps": Call((1, 8, 9, 7), (7, 7), 1, (3, 3), torch.float32),
    "no square": Call((1, 8, 9, 7), (5, 3), 2, (0, 2), torch.float32),
    # Strips are divided into parts, which another launch adds.
    "parts": Call((3, 4, 40, 17), (2, 3), 1, (1, 0), torch.float32),
}
PASSES = [(name, which) for name in CALLS for which in OPS]


@pytest.fixture(autouse=True)
def drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_DRAFTS", "1")


def drawn(shape: tuple[int, ...], seed: int, call: Call) -> Any:
    made = draw.seeded(seed).normal(*shape).to(call.dtype)
    return made.contiguous(memory_format=torch.channels_last)


def passes(call: Call) -> dict[str, tuple[tuple[Any, ...], Any]]:
    """The arguments of each pass, and its result in double precision."""
    channels = call.x[1]
    x, weight = drawn(call.x, 1, call), drawn((channels, 1, *call.taps), 2, call)
    bias = draw.seeded(3).normal(channels).to(call.dtype)
    options = ([call.stride] * 2, list(call.padding), [1, 1])
    wide, filters = x.double().requires_grad_(), weight.double().requires_grad_()
    y = torch.nn.functional.conv2d(wide, filters, bias.double(), *options, channels)
    dy = drawn(tuple(y.shape), 4, call)
    y.backward(dy.double())
    rest = (*options, channels, "fp32")
    return {
        "forward": ((x, weight, bias, *rest), y.detach()),
        "input": ((dy, weight, list(x.shape), *rest), wide.grad),
        "weight": ((dy, x, list(weight.shape), *rest), filters.grad),
    }


def candidates(which: str, args: tuple[Any, ...], kind: str = "last") -> list[Candidate]:
    function = library.function(OPS[which])
    request = function.request(*function.bound(args, {}))
    found = sorted(function.definition.candidates(request), key=lambda c: c.cost)
    return [c for c in found if c.name.startswith("depthwise") and kind in c.name]


@pytest.mark.parametrize(("name", "which"), PASSES, ids=[f"{n}-{w}" for n, w in PASSES])
def test_passes(name: str, which: str) -> None:
    call = CALLS[name]
    args, want = passes(call)[which]
    found = candidates(which, args)
    assert found
    count = len(library.function(OPS[which]).tensors)
    for candidate in (found[0], found[-1])[: 2 if name == "stride 1" else 1]:
        with weft.sanitize() as session:
            got = runner(candidate.build(), count, torch.device("cpu"))(*args[:count])
        assert not session.findings
        assert float((got.double() - want).norm() / want.norm()) < CLOSE[call.dtype]
        assert which == "weight" or got.is_contiguous(memory_format=torch.channels_last)


TILES = {name: CALLS[name] for name in ("stride 1", "stride 2", "49 taps")} | {
    # 40 x 17 positions are several tiles, with positions outside of the image.
    "tiles": Call((2, 24, 40, 17), (3, 3), 1, (1, 1), torch.bfloat16)
}
TILED = [(n, w) for n in TILES for w in OPS if (n, w) != ("stride 2", "input")]


@pytest.mark.parametrize(("name", "which"), TILED, ids=[f"{n}-{w}" for n, w in TILED])
def test_tiles(name: str, which: str) -> None:
    """The kernels for Hopper, whose tiles a copy brings to shared memory."""
    call = TILES[name]
    args, want = passes(call)[which]
    (candidate, *_) = candidates(which, args, "tiles")
    count = len(library.function(OPS[which]).tensors)
    with weft.sanitize() as session:
        got = runner(candidate.build(), count, torch.device("cpu"))(*args[:count])
    assert not session.findings
    assert float((got.double() - want).norm() / want.norm()) < CLOSE[call.dtype]
    with weft.schedule("random:1"):
        again = runner(candidate.build(), count, torch.device("cpu"))(*args[:count])
    assert torch.equal(got, again)


def test_other_convolutions() -> None:
    """Rows that are contiguous, channels that are no vectors, and larger strides have others."""
    call = CALLS["stride 1"]
    (x, weight, bias, *rest), _ = passes(call)["forward"]
    assert candidates("forward", (x, weight, bias, *rest))
    assert not candidates("forward", (x.contiguous(), weight, bias, *rest))
    assert not candidates("forward", (x, weight, bias, [3, 3], *rest[1:]))
    odd, _ = passes(Call((1, 6, 5, 5), (3, 3), 1, (1, 1)))["forward"]
    assert not candidates("forward", odd)
