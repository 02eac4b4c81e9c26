"""Pooling through shared memory: parts of a tensor, chunks of any strides, and copies."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

import devices
import draw
import weft

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402  (it needs torch)

from weft.ops.core import library  # noqa: E402
from weft.ops.core.runner import runner  # noqa: E402
from weft.ops.families.pool import model  # noqa: E402

SIM = devices.current.name == "sim"
DEVICE = "cpu" if SIM else "cuda"
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 1e-2, torch.float16: 1e-3, torch.float64: 1e-12}


def numbers(*shape: int, dtype: Any = torch.float32, seed: int = 1) -> Any:
    """Random numbers with equal ones among them, of which the first maximum counts."""
    generator = draw.seeded(seed)
    return (generator.normal(*shape) * 4).round().div(4).to(DEVICE, dtype)


def in_order(x: Any, *order: int) -> Any:
    """The same tensor with its dimensions in this order of memory."""
    return x.permute(order).contiguous().permute([order.index(d) for d in range(x.dim())])


def with_gap(x: Any, gap: int) -> Any:
    """The same tensor with elements between its rows."""
    return functional.pad(x, (0, gap))[..., : x.shape[-1]]


def misaligned(x: Any) -> Any:
    return functional.pad(x.flatten(), (1, 0))[1:].view(x.shape)


def odd(x: Any) -> Any:
    """With a window that has only -inf, and NaNs."""
    x[0, 0, :4, :6], x[-1, -1, 2, 1], x[-1, -1, 2, 3] = -torch.inf, torch.nan, torch.nan
    return x


def results(kind: str, name: str, args: tuple[Any, ...]) -> list[Any]:
    """The results of the candidates of a kind; there must be one."""
    function = library.function(name)
    request = function.request(*function.bound(args, {}))
    made = [c for c in function.definition.candidates(request) if c.name.startswith(kind)]
    assert made, f"no {kind}"
    return [runner(c.build(), 1, args[0].device)(args[0]) for c in made]


def compare(kind: str, name: str, x: Any, *args: Any) -> None:
    """The values, where maxima are, and the memory format, against torch in float64."""
    want = getattr(functional, name)(x.double(), *args)
    tolerance = TOLERANCE[x.dtype]
    for got in results(kind, name, (x, *args)):
        assert got.dtype == x.dtype
        assert got.is_contiguous() == want.is_contiguous()
        torch.testing.assert_close(
            got.double(), want, atol=tolerance, rtol=tolerance, equal_nan=True
        )
    if "max" in name and kind != "copy":
        _, right = getattr(functional, name)(x.double(), *args, return_indices=True)
        windows = args[0] if "adaptive" in name else _encoded(*args)
        for _, where in results(kind, "max_pool_places", (x, 2, list(windows), True)):
            assert torch.equal(where, right)


def _encoded(k: int, stride: int, padding: int = 0, dilation: int = 1, ceil: bool = False) -> Any:
    return [k, k, stride, stride, padding, padding, dilation, dilation, int(ceil)]


CALLS: dict[str, Any] = {
    "odd rows": lambda: compare("staged", "max_pool2d", odd(numbers(2, 3, 9, 11)), 3, 2),
    "padding": lambda: compare("staged", "max_pool2d", odd(numbers(2, 3, 9, 11)), 3, 2, 1),
    "ceil": lambda: compare("staged", "max_pool2d", odd(numbers(2, 3, 8, 10)), 3, 2, 0, 1, True),
    "dilated": lambda: compare("staged", "max_pool2d", odd(numbers(2, 3, 9, 9)), 3, 1, 1, 2),
    "misaligned": lambda: compare("staged", "max_pool2d", misaligned(odd(numbers(2, 3, 9, 11))),
                                  3, 2),
    "gaps": lambda: compare("staged", "max_pool2d", with_gap(odd(numbers(2, 3, 9, 11)), 3), 3, 2),
    "channels last": lambda: compare("staged", "max_pool2d",
                                     in_order(odd(numbers(2, 3, 9, 11)), 0, 2, 3, 1), 3, 2, 1),
    "bfloat16": lambda: compare("staged", "max_pool2d",
                                odd(numbers(2, 3, 7, 9, dtype=torch.bfloat16)), 2, 1, 1),
    "float16": lambda: compare("staged", "max_pool2d",
                               odd(numbers(2, 3, 7, 9, dtype=torch.float16)), 3, 1),
    "float64": lambda: compare("staged", "max_pool2d",
                               odd(numbers(2, 3, 7, 9, dtype=torch.float64)), 3, 1),
    "parts": lambda: compare("staged", "adaptive_max_pool2d", odd(numbers(2, 3, 9, 11)), (4, 5)),
    "means": lambda: compare("staged", "avg_pool2d", numbers(2, 3, 9, 11), 3, 2, 1, True, False),
    "means of bfloat16": lambda: compare("staged", "avg_pool2d",
                                         numbers(2, 3, 9, 11, dtype=torch.bfloat16), 3, 2),
    "mean parts": lambda: compare("staged", "adaptive_avg_pool2d", numbers(2, 3, 9, 11), (4, 5)),
    "mean lines": lambda: compare("staged", "avg_pool1d", numbers(2, 3, 13), 3, 2, 1),
    "strided": lambda: compare("strided", "max_pool2d",
                               in_order(odd(numbers(5, 3, 9, 11)), 3, 1, 0, 2), 3, 2),
    "strided of padding": lambda: compare("strided", "max_pool2d",
                                        in_order(odd(numbers(5, 3, 9, 11)), 2, 3, 0, 1), 3, 2, 1),
    "strided of parts": lambda: compare("strided", "adaptive_max_pool2d",
                                      in_order(odd(numbers(3, 5, 9, 11)), 1, 0, 3, 2), (4, 5)),
    "strided of means": lambda: compare("strided", "avg_pool2d",
                                      in_order(numbers(3, 5, 9, 11), 1, 2, 3, 0), 3, 2, 1),
    "strided of mean parts": lambda: compare("strided", "adaptive_avg_pool2d",
                                           in_order(numbers(3, 5, 9, 11), 0, 3, 1, 2), (4, 5)),
    "tall": lambda: compare("staged", "max_pool2d", odd(numbers(1, 2, 33, 11)), 3, 2, 1),
    "tall parts": lambda: compare("staged", "adaptive_max_pool2d", odd(numbers(1, 2, 33, 11)),
                                  (9, 5)),
    "tall means": lambda: compare("staged", "avg_pool2d", numbers(1, 2, 33, 11), 3, 2, 1),
    "tall strided": lambda: compare("strided", "max_pool2d",
                                  in_order(odd(numbers(2, 3, 33, 11)), 3, 1, 0, 2), 3, 2, 1),
    "tall strided of means": lambda: compare("strided", "avg_pool2d",
                                           in_order(numbers(2, 3, 33, 11), 3, 1, 0, 2), 3, 2, 1),
    "copy": lambda: compare("copy", "max_pool2d", odd(numbers(2, 3, 7, 9)), 1, 2),
    "copy of any strides": lambda: compare("copy", "avg_pool2d",
                                           in_order(numbers(2, 3, 7, 9), 2, 0, 3, 1), 1, 3),
    "copy, channels last": lambda: compare("copy", "avg_pool2d",
                                           in_order(numbers(2, 3, 7, 9), 0, 2, 3, 1), 1, 1),
}  # fmt: skip
QUICK = {
    "padding",
    "gaps",
    "mean parts",
    "bfloat16",
    "strided",
    "strided of means",
    "copy",
    "tall",
    "tall strided",
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in QUICK else [pytest.mark.slow]) for n in CALLS]
)
@pytest.mark.parametrize("small", [False, True])
def test_candidates(name: str, small: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """`small`: blocks have a few rows each, or a few planes, and the last ones fewer."""
    if small:
        monkeypatch.setattr(model, "CHUNK_MIN_BYTES", 64)
        monkeypatch.setattr(model, "CHUNK_BYTES", 1200)
    CALLS[name]()


@pytest.mark.sim
def test_sanitized() -> None:
    with weft.sanitize():
        compare("staged", "max_pool2d", with_gap(numbers(2, 3, 7, 9), 1), 3, 2, 1)
        compare("strided", "avg_pool2d", in_order(numbers(2, 3, 7, 9), 1, 3, 0, 2), 3, 2, 1)


@pytest.mark.slow
def test_strides_drawn_at_random() -> None:
    rng = random.Random(3)
    for _ in range(10):
        x = numbers(*(rng.randint(1, 12) for _ in range(2)), 8, 9, seed=rng.randrange(99))
        order = rng.sample(range(4), 4)
        name = rng.choice(("max_pool2d", "avg_pool2d"))
        strided = in_order(x, *order)
        function = library.function(name)
        kernel, stride = rng.randint(2, 3), rng.randint(1, 3)
        request = function.request(*function.bound((strided, kernel, stride), {}))
        names = {c.name.partition(" ")[0] for c in function.definition.candidates(request)}
        for kind in names & {"strided", "staged"}:
            compare(kind, name, strided, kernel, stride)


CHOSEN = {
    "staged": lambda: (torch.empty(4096, 7, 32, 32, dtype=torch.bfloat16, device=DEVICE), 3, 1),
    "strided": lambda: (in_order(torch.empty(1024, 54, 14, 14, device=DEVICE), 3, 1, 0, 2), 3, 2),
    "copy": lambda: (in_order(torch.empty(11, 99, 45, 44, device=DEVICE), 0, 2, 3, 1), 1, 1),
    "strips": lambda: (torch.empty(64, 16, 112, 112, device=DEVICE), 3, 2, 1),
    "disjoint": lambda: (torch.empty(64, 16, 112, 112, device=DEVICE), 2, 2),
}


@pytest.mark.parametrize("kind", CHOSEN)
def test_choice(kind: str) -> None:
    """Each kind of kernel is chosen for the tensors that it is for."""
    said = str(weft.ops.explain(weft.ops.max_pool2d, *CHOSEN[kind]()))
    assert f": {kind}" in said.splitlines()[0]


OTHERS = {
    "a reduction of whole planes": (
        "adaptive_max_pool2d", (9, 256, 127, 127), ((1, 1),), "threads per row"),
    "means of large windows": ("adaptive_avg_pool2d", (33, 67, 173, 173), ((8, 8),), "windows"),
    "rows between windows": ("avg_pool2d", (4618, 11, 34, 34), (2, 5, 1), "windows"),
    "means of shared rows": ("avg_pool2d", (32, 512, 28, 28), (3, 1, 1), "strips"),
}  # fmt: skip


@pytest.mark.parametrize("subject", OTHERS)
def test_choice_of_other_kernels(subject: str) -> None:
    """Parts in shared memory would lose these: they read all rows, for many threads of a window."""
    op, shape, options, kind = OTHERS[subject]
    x = torch.empty(1, device=DEVICE).expand(shape)
    function = library.function(op)
    request = function.request(*function.bound((x, *options), {}))
    dense = request.first._replace(strides=torch.empty(shape, device="meta").stride())
    assert kind in function.choice(replace(request, inputs=(dense,))).used.name


def test_second_derivative_of_rows() -> None:
    """Windows of one row: the position of a maximum includes its row."""
    x = numbers(1, 2, 3, 8).requires_grad_()
    y = weft.ops.max_pool2d(x, (1, 4), (1, 4))
    dy = numbers(*y.shape, seed=3).requires_grad_()
    (dx,) = torch.autograd.grad(y, x, dy, create_graph=True)
    v = numbers(1, 2, 3, 8, seed=5)
    (got,) = torch.autograd.grad(dx, dy, v)
    _, at = functional.max_pool2d(x, (1, 4), (1, 4), return_indices=True)
    assert torch.equal(got, v.flatten(2).gather(2, at.flatten(2)).view(y.shape))
