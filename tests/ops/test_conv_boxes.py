"""Convolutions by boxes of pixels: the kernels for Hopper, against double precision."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

import draw

torch = pytest.importorskip("torch")

import weft  # noqa: E402
from weft.device.gpu import native_launch  # noqa: E402
from weft.device.tensor_map_layout import MAP_BYTES  # noqa: E402
from weft.ops.core import library  # noqa: E402
from weft.ops.core.choose import Candidate  # noqa: E402
from weft.ops.core.runner import runner  # noqa: E402
from weft.ops.families.conv.geometry import geometry  # noqa: E402
from weft.ops.families.conv.tma.boxes import Boxes, Directions  # noqa: E402
from weft.ops.families.conv.tma.gradients import WeightBoxes  # noqa: E402

F16, BF16 = torch.float16, torch.bfloat16
OPS = {"forward": "conv2d", "input": "conv_backward_input", "weight": "conv_backward_weight"}


class Call(NamedTuple):
    x: tuple[int, ...]
    weight: tuple[int, ...]
    stride: int | tuple[int, int] = 1
    padding: int = 1
    dilation: int = 1
    last: bool = True
    dtype: Any = F16


CALLS = {
    # Rows of 8 pixels share the zeros between them.
    "images": Call((3, 64, 7, 7), (64, 64, 3, 3)),
    # 72 and 136 channels are no whole chunks; even and odd taps have planes of their own.
    "stride": Call((2, 72, 10, 12), (136, 72, 3, 3), 2),
    "stride of one axis": Call((1, 64, 9, 8), (64, 64, 3, 3), (1, 2)),
    # In the pass to the data some phases have no taps.
    "one tap": Call((2, 64, 9, 7), (40, 64, 1, 1), 2, 0),
    "one tap, padded": Call((2, 64, 9, 7), (40, 64, 1, 1), 2, 1, dtype=BF16),
    "dilation": Call((2, 24, 9, 11), (40, 24, 3, 2), 1, 2, 2),
    "a column": Call((1, 64, 14, 10), (72, 64, 4, 1), 1, 0),
    "channels first": Call((2, 24, 9, 11), (40, 24, 3, 3), last=False),
    "few channels": Call((2, 3, 21, 18), (40, 3, 7, 7), 2, 3),
    "few channels without stride": Call((2, 5, 11, 9), (24, 5, 3, 3), last=False),
}
PASSES = [
    (name, which)
    for name in CALLS
    for which in OPS
    if (name, which) != ("few channels", "input")  # 49 taps are too many
]


@pytest.fixture(autouse=True)
def drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_DRAFTS", "1")


def drawn(shape: tuple[int, ...], seed: int, call: Call) -> Any:
    made = draw.seeded(seed).normal(*shape).to(call.dtype)
    order = torch.channels_last if call.last else torch.contiguous_format
    return made.contiguous(memory_format=order)


class Passes:
    """The arguments of a call's passes, and their results in double precision."""

    def __init__(self, call: Call) -> None:
        x, weight = drawn(call.x, 1, call), drawn(call.weight, 2, call)
        bias = draw.seeded(3).normal(*call.weight[:1]).to(call.dtype)
        stride = [call.stride] * 2 if isinstance(call.stride, int) else list(call.stride)
        options = (stride, [call.padding] * 2, [call.dilation] * 2)
        wide, wide_weight = x.double().requires_grad_(), weight.double().requires_grad_()
        y = torch.nn.functional.conv2d(wide, wide_weight, bias.double(), *options)
        dy = drawn(tuple(y.shape), 4, call)
        y.backward(dy.double())
        rest = (*options, 1, "fp32")
        self.args = {
            "forward": (x, weight, bias, *rest),
            "input": (dy, weight, list(x.shape), *rest),
            "weight": (dy, x, list(weight.shape), *rest),
        }
        self.want = {"forward": y.detach(), "input": wide.grad, "weight": wide_weight.grad}


def candidates(which: str, args: tuple[Any, ...], split: bool = False) -> list[Candidate]:
    """Those by boxes; `split`: whose clusters share the source channels."""
    function = library.function(OPS[which])
    request = function.request(*function.bound(args, {}))
    found = [c for c in function.definition.candidates(request) if c.name.startswith("boxes")]
    return [c for c in found if ("source in" in c.name) == split]


def run(which: str, args: tuple[Any, ...], candidate: Candidate) -> Any:
    count = len(library.function(OPS[which]).tensors)
    return runner(candidate.build(), count, torch.device("cpu"))(*args[:count])


def close(got: Any, want: Any, dtype: Any) -> None:
    limit = {F16: 5e-4, torch.float32: 2e-6}.get(dtype, 4e-3)
    assert float((got.double() - want).norm() / want.norm()) < limit


def check_pass(passes: Passes, which: str, candidates: Callable[..., list[Candidate]]) -> None:
    """Run the first candidate under the sanitizer, and compare its result."""
    found = candidates(which, passes.args[which])
    assert found
    with weft.sanitize() as session:
        got = run(which, passes.args[which], found[0])
    assert not session.findings and got.shape == passes.want[which].shape
    close(got, passes.want[which], got.dtype)


@pytest.mark.parametrize(("name", "which"), PASSES, ids=[f"{n}-{w}" for n, w in PASSES])
def test_passes(name: str, which: str) -> None:
    check_pass(Passes(CALLS[name]), which, candidates)


def test_strided_pixels_are_copied_beside_each_other() -> None:
    """Then the gradient of filters of one tap is a product of dense matrices."""
    call = Call((2, 64, 9, 8), (40, 64, 1, 1), 2, 0)
    passes = Passes(call)
    function = library.function(OPS["weight"])
    request = function.request(*function.bound(passes.args["weight"], {}))
    found = [c for c in function.definition.candidates(request) if c.name.startswith("thinned")]
    assert found
    with weft.sanitize() as session:
        got = run("weight", passes.args["weight"], found[0])
    assert not session.findings
    close(got, passes.want["weight"], call.dtype)


@pytest.mark.parametrize("which", OPS)
def test_every_block(which: str) -> None:
    """Blocks of other shapes, and tiles of several images, have the same results."""
    call = Call((5, 64, 4, 5), (136, 64, 3, 3))
    passes = Passes(call)
    found = candidates(which, passes.args[which])
    names = " ".join(c.name for c in found)
    assert "x 2, " in names or "x 3, " in names
    results = [run(which, passes.args[which], c) for c in found]
    close(results[0], passes.want[which], call.dtype)
    if which != "weight":  # whose parts are others
        assert all(torch.equal(result, results[0]) for result in results)


SPLIT = {
    "2": Call((1, 128, 7, 7), (64, 128, 3, 3)),
    "4": Call((1, 264, 5, 6), (136, 264, 3, 3), dtype=BF16),
    "8, one tap": Call((2, 512, 5, 5), (64, 512, 1, 1), 2, 0),
    "channels first": Call((1, 256, 6, 7), (72, 256, 3, 3), last=False),
}


@pytest.mark.parametrize("name", SPLIT)
def test_clusters_share_source_channels(name: str) -> None:
    """All divisions, also of the pass to the data; a schedule changes no bit."""
    passes = Passes(SPLIT[name])
    check_pass(passes, "forward", functools.partial(candidates, split=True))
    for which in ("forward", "input"):
        for found in candidates(which, passes.args[which], split=True):
            got = run(which, passes.args[which], found)
            close(got, passes.want[which], got.dtype)
            with weft.schedule("random:2"):
                assert torch.equal(run(which, passes.args[which], found), got)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("images", "2 by 2"),
        ("images", "3 by 1"),
        ("stride of one axis", "1 by 1"),
        ("few channels", "2 by 2, reordered"),
    ],
)
def test_gradients_with_channels_last(name: str, parts: str) -> None:
    """Written in this order, or copied into it where parts have another; the bits are the same."""
    passes = Passes(CALLS[name])
    args = (*passes.args["weight"], True)
    made = candidates("weight", args)
    assert any(c.name.endswith("by 1") for c in made) == (name != "few channels")
    found = next(c for c in made if c.name.endswith(parts))
    with weft.sanitize() as session:
        got = run("weight", args, found)
    assert not session.findings
    assert got.is_contiguous(memory_format=torch.channels_last)
    plain = found.name.removesuffix(", reordered")
    first = next(c for c in candidates("weight", args[:-1]) if c.name == plain)
    assert torch.equal(got, run("weight", args[:-1], first))


@pytest.mark.parametrize("which", OPS)
def test_schedules(which: str) -> None:
    """Copies and products in another order change no bit."""
    passes = Passes(Call((2, 64, 5, 6), (64, 64, 2, 2), padding=0))
    (found, *_) = candidates(which, passes.args[which])
    want = run(which, passes.args[which], found)
    with weft.schedule("random:1"):
        assert torch.equal(run(which, passes.args[which], found), want)


def test_candidates_that_do_not_apply() -> None:
    """Groups, single precision, and filters with more taps than the tables hold."""
    passes = Passes(Call((1, 64, 9, 9), (64, 64, 3, 3)))
    x, weight, bias, *options = passes.args["forward"]
    assert candidates("forward", (x, weight, bias, *options))
    assert not candidates("forward", (x.float(), weight.float(), bias.float(), *options))
    grouped = (x, weight[:, :32], bias, *options[:3], 2, "fp32")
    assert not candidates("forward", grouped)
    large = draw.seeded(1).normal(64, 64, 9, 9).half()
    assert not candidates("forward", (x, large, bias, *options))


def test_parameters_fit() -> None:
    """Launches with more parameters are made in Python, which takes longer than many kernels."""
    for struct in (Boxes, WeightBoxes):
        assert 2 * MAP_BYTES + 3 * 8 + struct.sizeof() <= native_launch.ROOM


def every_tile() -> Iterator[tuple[Directions, Any]]:
    for taps, stride, pad, dilation in ((3, 1, 1, 1), (3, 2, 1, 1), (5, 1, 2, 1), (3, 1, 2, 2)):
        options = {"stride": [stride], "padding": [pad], "dilation": [dilation], "groups": 1}
        for size in (7, 13, 20):
            g = geometry((4, 64, size, size), (64, 64, taps, taps), options)
            for back in (False, True):
                directions = Directions(g, back)
                yield from ((directions, tile) for tile in directions.tiles(256))


def test_planes_have_the_pixels_that_taps_read() -> None:
    """Row `position + shift` of a plane is the pixel that the tap reads, or a zero outside."""
    seen = 0
    for directions, tile in every_tile():
        seen += 1
        for phase in directions.phases:
            for down, across in ((d, a) for d in phase.h.readings for a in phase.w.readings):
                for (_, i), (_, j) in ((r, s) for r in down.taps for s in across.taps):
                    check_tap(directions, tile, (down.first, across.first), (i, j))
    assert seen > 100


def check_tap(
    directions: Directions, tile: Any, first: tuple[int, int], shift: tuple[int, int]
) -> None:
    h, w = directions.h[0], directions.w[0]
    for n in range(tile.n):
        for y in (0, tile.h - 1):
            for x in (0, tile.w - 1):
                at = n * tile.image + (y + shift[0]) * tile.row + x + shift[1]
                wanted = (first[0] + (y + shift[0]) * h.step, first[1] + (x + shift[1]) * w.step)
                inside = 0 <= wanted[0] < h.size and 0 <= wanted[1] < w.size
                assert at < tile.plane + tile.zeros
                image, rest = divmod(at, tile.image)
                row, column = divmod(rest, tile.row)
                got = (first[0] + row * h.step, first[1] + column * w.step)
                has = 0 <= got[0] < h.size and 0 <= got[1] < w.size and at < tile.plane
                whole = (tile.w, tile.h) == (w.positions, h.positions)
                if inside:
                    assert has and (image, *got) == (n, *wanted)
                elif whole:  # other tiles have neighbours of the image where this one has padding
                    assert not has
