"""Measures the host time per call, with tensors so small that the GPU is never the limit."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from weft.ops import library
from weft.ops.sweep import time

SHAPES = ((64, 64), (1, 1024))
HOST: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "add": (lambda f, x: f(x, x), lambda x: x + x),
    "mul": (lambda f, x: f(x, x), lambda x: x * x),
    "exp": (lambda f, x: f(x), torch.exp),
    "softmax": (lambda f, x: f(x), lambda x: torch.softmax(x, -1)),
    "log_softmax": (lambda f, x: f(x), lambda x: torch.log_softmax(x, -1)),
    "sum": (lambda f, x: f(x), torch.sum),
    "amax": (lambda f, x: f(x, -1), lambda x: torch.amax(x, -1)),
    "argmax": (lambda f, x: f(x, -1), lambda x: torch.argmax(x, -1)),
    "var": (lambda f, x: f(x, -1), lambda x: torch.var(x, -1)),
    "matmul": (lambda f, x: f(x, x.t()), lambda x: torch.matmul(x, x.t())),
}
"""The calls for the host time of each op, by the library and by torch."""


@dataclass(frozen=True)
class HostTime:
    """Microseconds of the host per call."""

    op: str
    shape: tuple[int, ...]
    weft_us: float
    torch_us: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def times(
    ops: Sequence[str] = (), device: str = "cuda", clock: time.Clock = time.host
) -> list[HostTime]:
    """The host's time of some ops, or of all that have a row."""
    rows = []
    for shape in SHAPES:
        x = torch.randn(shape, device=device)
        for name, (adapter, torch_call) in HOST.items():
            if ops and name not in ops:
                continue
            weft_call = functools.partial(adapter, library.call(name), x)
            a, b = clock([weft_call, functools.partial(torch_call, x)])
            rows.append(HostTime(name, shape, 1e6 * a, 1e6 * b))
    return rows
