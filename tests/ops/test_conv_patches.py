"""Convolutions whose stride is the size of the filter: products with patches, and their limits."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from test_conv_boxes import BF16, OPS, Call, Passes, check_pass  # noqa: E402

from weft.device import tensor_map_limits  # noqa: E402
from weft.ops.core import library  # noqa: E402
from weft.ops.core.choose import Candidate  # noqa: E402
from weft.ops.core.plan import Map  # noqa: E402
from weft.ops.families.conv.geometry import geometry  # noqa: E402
from weft.ops.families.conv.tma.boxes import Directions  # noqa: E402

CALLS = {
    # Rows of 14 pixels are no whole vectors, and 588 elements of a filter neither.
    "14": Call((2, 3, 28, 56), (24, 3, 14, 14), 14, 0),
    "14, channels first": Call((2, 3, 28, 56), (24, 3, 14, 14), 14, 0, last=False),
    # The last row and column of pixels have no window.
    "16, a border": Call((2, 3, 33, 65), (72, 3, 16, 16), 16, 0, last=False, dtype=BF16),
    "16 channels": Call((3, 16, 8, 8), (40, 16, 2, 2), 2, 0),
    # 12 and 27 elements of a filter are whole vectors of four, or not.
    "float32": Call((2, 3, 8, 10), (20, 3, 2, 2), 2, 0, dtype=torch.float32),
    "float32, channels first": Call((2, 3, 9, 13), (20, 3, 3, 3), 3, 0, 1, False, torch.float32),
    "a filter that is no square": Call((2, 5, 12, 8), (16, 5, 3, 2), (3, 2), 0, last=False),
}
PASSES = [(name, which) for name in CALLS for which in OPS]


@pytest.fixture(autouse=True)
def drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_DRAFTS", "1")


def candidates(which: str, args: tuple[Any, ...]) -> list[Candidate]:
    function = library.function(OPS[which])
    request = function.request(*function.bound(args, {}))
    found = sorted(function.definition.candidates(request), key=lambda c: c.cost)
    return [c for c in found if c.name.startswith("patches")]


@pytest.mark.parametrize(("name", "which"), PASSES, ids=[f"{n}-{w}" for n, w in PASSES])
def test_passes(name: str, which: str) -> None:
    check_pass(Passes(CALLS[name]), which, candidates)


@pytest.mark.parametrize("which", ["input", "weight"])
@pytest.mark.parametrize("dtype", [BF16, torch.float32])
def test_gradients_of_tokens(which: str, dtype: Any) -> None:
    """A vision transformer puts a token before those of its patches: its gradient has a gap."""
    passes = Passes(Call((2, 3, 16, 16), (24, 3, 8, 8), 8, 0, dtype=dtype))
    dy, *rest = passes.args[which]
    tokens = torch.full((2, 5, 24), 7, dtype=dtype)
    tokens[:, 1:] = dy.flatten(2).transpose(1, 2)
    apart = tokens[:, 1:].transpose(1, 2).unflatten(2, (2, 2))
    passes.args[which] = (apart, *rest)
    check_pass(passes, which, candidates)


def test_windows_that_overlap_are_no_patches() -> None:
    """Neither are those of other strides, padding or groups."""
    for change in ({"stride": 2}, {"padding": 1}, {"dilation": 2}):
        passes = Passes(Call(**{"x": (1, 8, 12, 12), "weight": (8, 8, 3, 3), "stride": 3,
                                "padding": 0, **change}))  # fmt: skip
        assert not candidates("forward", passes.args["forward"])


def test_no_boxes_of_strides_that_tensor_maps_refuse() -> None:
    """A map has every eighth element at most; a driver refuses others, and so does weft."""
    for stride in (8, 9, 14, 16):
        options = {"stride": [stride], "padding": [0], "dilation": [1], "groups": 1}
        g = geometry((1, 64, 64, 64), (64, 64, 1, 1), options)
        assert Directions(g, False).fits() == (stride <= tensor_map_limits.MAX_STEP)


@pytest.mark.parametrize("size", [14, 16])
def test_maps_of_image_patches_are_valid(size: int) -> None:
    """Every map of every candidate of a vision transformer's first layer passes the limits."""
    passes = Passes(Call((1, 3, 4 * size, 4 * size), (64, 3, size, size), size, 0))
    function = library.function("conv2d")
    request = function.request(*function.bound(passes.args["forward"], {}))
    seen = 0
    for candidate in function.definition.candidates(request):
        if "boxes" not in candidate.name and "pipelined" not in candidate.name:
            continue
        for step in candidate.build().steps:
            for argument in step.args:
                if isinstance(argument, Map):
                    seen += 1
                    assert not list(tensor_map_limits.problems(argument.request))
    assert seen
