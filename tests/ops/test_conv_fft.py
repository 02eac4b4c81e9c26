"""Convolution by Fourier transforms: every pass against PyTorch in double precision."""

from __future__ import annotations

from typing import Any

import pytest

import draw

torch = pytest.importorskip("torch")

import weft  # noqa: E402
from weft.ops.core import library  # noqa: E402
from weft.ops.core.runner import runner  # noqa: E402
from weft.ops.families.conv import fourier, job  # noqa: E402

LIMIT = 1e-6
CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], Any, int]] = {
    "one channel": ((1, 1, 12, 14), (1, 1, 5, 4), 0, 1),
    "channels, bias and padding": ((2, 3, 9, 11), (4, 3, 3, 3), 1, 1),
    "groups and two paddings": ((2, 4, 9, 10), (6, 2, 4, 3), (2, 1), 2),
    "one dimension": ((2, 2, 20), (3, 2, 7), 3, 1),
}


def drawn(*shape: int, seed: int) -> Any:
    return draw.seeded(seed).normal(shape)


def candidates(name: str, *args: Any) -> Any:
    """(candidates by Fourier transforms, number of tensors) of a call."""
    request = library.function(name).request(*args)
    if name == "conv_backward_input":
        made = fourier.windows(job.backward_input(request), back=True)
    elif name == "conv_backward_weight":
        made = fourier.gradients(job.backward_weight(request))
    else:
        made = fourier.windows(job.forward(request, int(name[4])), back=False)
    return made, len(request.inputs)


def run(name: str, tensors: tuple[Any, ...], *rest: Any) -> Any:
    (candidate,), count = candidates(name, *tensors, *rest)
    return runner(candidate.build(), count, torch.device("cpu"))(*tensors)


def error(ours: Any, reference: Any) -> float:
    assert ours.shape == reference.shape
    return float((ours - reference).norm() / reference.norm())


@pytest.mark.parametrize(
    ("subject", "last"),
    [*((subject, False) for subject in CASES), ("groups and two paddings", True)],
)
def test_passes(subject: str, last: bool) -> None:
    size, taps, padding, groups = CASES[subject]
    dims = len(size) - 2
    x, w, bias = drawn(*size, seed=1), drawn(*taps, seed=2), drawn(taps[0], seed=3)
    if last:
        x = x.to(memory_format=torch.channels_last)
    xd, wd = x.double().requires_grad_(), w.double().requires_grad_()
    torch_conv = getattr(torch.nn.functional, f"conv{dims}d")
    reference = torch_conv(xd, wd, bias.double(), 1, padding, 1, groups)
    dy = drawn(*reference.shape, seed=4)
    reference.backward(dy.double())
    options = ([1] * dims, [padding] * dims if isinstance(padding, int) else list(padding))
    rest = (*options, [1] * dims, groups, "fp32")
    assert error(run(f"conv{dims}d", (x, w, bias), *rest), reference.detach()) < LIMIT
    assert error(run("conv_backward_input", (dy, w), list(size), *rest), xd.grad) < LIMIT
    assert error(run("conv_backward_weight", (dy, x), list(taps), *rest), wd.grad) < LIMIT


@pytest.mark.parametrize(
    ("size", "taps", "stride", "dtype"),
    [
        ((1, 1, 9, 9), (1, 1, 3, 3), 2, torch.float32),
        ((1, 1, 9, 9), (1, 1, 1, 1), 1, torch.float32),
        ((1, 1, 9, 9), (1, 1, 3, 3), 1, torch.float16),
        ((1, 1, 40000, 9), (1, 1, 3, 3), 1, torch.float32),
    ],
    ids=["stride", "one tap", "half precision", "too long"],
)
def test_no_candidate(size: Any, taps: Any, stride: int, dtype: Any) -> None:
    x, w = torch.zeros(size, dtype=dtype), torch.zeros(taps, dtype=dtype)
    made, _ = candidates("conv2d", x, w, None, [stride] * 2, [0, 0], [1, 1], 1, "fp32")
    assert made == []


@pytest.mark.parametrize(
    ("size", "taps", "chosen"),
    [((1, 1, 2048, 2048), (1, 1, 128, 128), True), ((32, 64, 56, 56), (64, 64, 3, 3), False)],
    ids=["a large filter", "a small filter"],
)
def test_chosen(size: Any, taps: Any, chosen: bool) -> None:
    """The library's convolution chooses transforms by itself where they are faster."""
    explained = weft.ops.explain(weft.ops.conv2d, torch.empty(size), torch.empty(taps))
    assert (explained.choice.used.name == "fourier") is chosen


def test_sanitized() -> None:
    with weft.sanitize() as session:
        x, w = drawn(1, 2, 9, 11, seed=5), drawn(2, 2, 3, 3, seed=6)
        run("conv2d", (x, w, None), [1, 1], [1, 1], [1, 1], 1, "fp32")
    assert not session.findings
