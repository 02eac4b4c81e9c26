"""conv1d and conv2d: forward and backward against float64, every kernel, refusals."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

torch = pytest.importorskip("torch")

import weft  # noqa: E402
from weft.ops import library  # noqa: E402
from weft.ops.runner import runner  # noqa: E402

FUNCTIONS = {3: torch.nn.functional.conv1d, 4: torch.nn.functional.conv2d}
LIMITS = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1e-2}


class Call(NamedTuple):
    """A convolution: shapes of input and weight, and options."""

    x: tuple[int, ...]
    weight: tuple[int, ...]
    options: Mapping[str, Any] = MappingProxyType({})
    dtype: Any = torch.float32


CALLS = {
    "plain": Call((2, 3, 6, 7), (4, 3, 3, 3)),
    "same": Call((1, 3, 6, 5), (4, 3, 3, 4), {"padding": "same"}),
    "full": Call((1, 2, 5, 4), (3, 2, 3, 2), {"padding": (2, 1)}),
    "padding of each side": Call((1, 2, 5, 4), (3, 2, 3, 2), {"padding": (0, 2, 1, 0)}),
    "stride": Call((2, 4, 9, 8), (6, 4, 3, 3), {"stride": 2, "padding": 1}),
    "stride beyond the taps": Call((2, 2, 11, 13), (3, 2, 2, 2), {"stride": (3, 5)}),
    "dilation": Call((1, 3, 12, 9), (2, 3, 3, 2), {"dilation": (2, 3), "stride": (3, 2)}),
    "groups": Call((2, 6, 5, 5), (4, 3, 3, 3), {"groups": 2, "padding": 1}),
    "depthwise": Call((2, 6, 6, 5), (12, 1, 3, 3), {"groups": 6, "padding": 1}),
    "1 x 1": Call((2, 7, 5, 3), (9, 7, 1, 1)),
    "many taps": Call((1, 2, 9, 9), (3, 2, 7, 6), {"padding": 3}),
    "more padding than taps": Call((1, 2, 4, 4), (3, 2, 2, 2), {"padding": 3}),
    "one dimension": Call((3, 4, 30), (5, 4, 5), {"stride": 2, "padding": 2}),
    "one dimension, same": Call((3, 4, 12), (6, 2, 4), {"padding": "same", "groups": 2}),
    "no batch": Call((3, 6, 5), (2, 3, 3, 3)),
    "one dimension, no batch": Call((3, 12), (2, 3, 5)),
    "float16": Call((2, 3, 6, 7), (4, 3, 3, 3), {"padding": 1}, torch.float16),
    "bfloat16": Call((2, 4, 6, 7), (4, 2, 3, 3), {"groups": 2, "stride": 2}, torch.bfloat16),
}


def drawn(shape: tuple[int, ...], seed: int, dtype: Any = torch.float32) -> Any:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(dtype)


def conv(weight: Any) -> Any:
    return weft.ops.conv1d if weight.dim() == 3 else weft.ops.conv2d


def relative(ours: Any, theirs: Any) -> float:
    return float((ours.double() - theirs).norm() / theirs.norm().clamp(min=1e-30))


def both(call: Call) -> tuple[list[Any], list[Any]]:
    """Results and gradients: ours, and torch's in float64."""
    tensors = [drawn(call.x, 1), drawn(call.weight, 2), drawn(call.weight[:1], 3)]
    tensors = [t.to(call.dtype) for t in tensors]
    ours = [t.clone().requires_grad_() for t in tensors]
    theirs = [t.double().requires_grad_() for t in tensors]
    y = conv(ours[1])(*ours, **call.options)
    padding = call.options.get("padding", 0)
    options = call.options
    if not isinstance(padding, str) and isinstance(padding, tuple) and len(padding) == 4:
        top, bottom, left, right = padding
        padded = torch.nn.functional.pad(theirs[0], (left, right, top, bottom))
        wanted = torch.nn.functional.conv2d(padded, *theirs[1:])
    else:
        wanted = FUNCTIONS[theirs[1].dim()](*theirs, **options)
    dy = drawn(tuple(wanted.shape), 4, call.dtype)
    y.backward(dy)
    wanted.backward(dy.double())
    return [y, *(t.grad for t in ours)], [wanted, *(t.grad for t in theirs)]


@pytest.mark.filterwarnings("ignore:Using padding=:UserWarning")  # torch's, of even filters
@pytest.mark.parametrize("name", CALLS)
def test_forward_and_backward(name: str) -> None:
    call = CALLS[name]
    for ours, theirs in zip(*both(call), strict=True):
        assert ours.shape == theirs.shape and ours.dtype is call.dtype
        assert relative(ours.detach(), theirs.detach()) < LIMITS[call.dtype]


KERNELS = {
    # [tile, geometry]: each kernel once; the taps beyond 32 are found by comparisons, not by bits
    "32 x 32": ((2, 6, 9, 8), (10, 3, 3, 3), [1, 1], [1, 1], 2),
    "32 x 32, taps by comparison": ((1, 2, 12, 12), (3, 2, 7, 6), [2, 1], [3, 2], 1),
}


def candidates(name: str, args: tuple[Any, ...]) -> dict[str, Any]:
    """What each candidate computes, by its name; kernels are made as they are asked for."""
    function = library.function(name)
    request = function.request(*function.bound(args, {}))
    count = len(function.tensors)
    return {
        c.name: lambda c=c: runner(c.build(), count, torch.device("cpu"))(*args[:count])
        for c in function.definition.candidates(request)
    }


@pytest.mark.parametrize("subject", KERNELS)
def test_matrix_products(subject: str, monkeypatch: Any) -> None:
    """The smallest tile, whatever the cost model would choose; parts of the depth as well."""
    from weft.ops.conv import implicit

    monkeypatch.setattr(implicit, "TILES", implicit.TILES[-1:])
    x_size, w_size, stride, padding, groups = KERNELS[subject]
    x, weight = drawn(x_size, 1), drawn(w_size, 2)
    options = (stride, padding, [1, 1], groups)
    wide, wide_weight = x.double().requires_grad_(), weight.double().requires_grad_()
    y = torch.nn.functional.conv2d(wide, wide_weight, None, *options)
    dy = drawn(tuple(y.shape), 3)
    y.backward(dy.double())
    calls = {
        "conv2d": ((x, weight, None), y.detach()),
        "conv_backward_input": ((dy, weight, list(x.shape)), wide.grad),
        "conv_backward_weight": ((dy, x, list(weight.shape)), wide_weight.grad),
    }
    for name, (args, wanted) in calls.items():
        made = candidates(name, (*args, *options, "fp32"))
        assert "32 x 32" in made
        for candidate, run in made.items():
            if candidate.startswith("32 x 32"):
                assert relative(run(), wanted) < 2e-6, (name, candidate)
