"""Measure the host time per call, with tensors so small that the GPU is never the limit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from weft.ops.core import library
from weft.ops.core.native import build
from weft.ops.sweep import time
from weft.values.sweep import HostTime

SHAPES = ((64, 64), (1, 1024))
BACKWARD = " backward"
"""The end of the names of rows that are forward plus backward."""
Adapter = Callable[..., Any]
"""(the op, x) -> the result of the call by the library."""
Row = tuple[Adapter, Callable[[Any], Any]]

HOST: dict[str, Row] = {
    "add": (lambda f, x: f(x, x), lambda x: x + x),
    "mul": (lambda f, x: f(x, x), lambda x: x * x),
    "exp": (lambda f, x: f(x), torch.exp),
    "less": (lambda f, x: f(x, x), lambda x: x < x),
    "gelu": (lambda f, x: f(x), functional.gelu),
    "softmax": (lambda f, x: f(x), lambda x: torch.softmax(x, -1)),
    "log_softmax": (lambda f, x: f(x), lambda x: torch.log_softmax(x, -1)),
    "sum": (lambda f, x: f(x), torch.sum),
    "amax": (lambda f, x: f(x, -1), lambda x: torch.amax(x, -1)),
    "argmax": (lambda f, x: f(x, -1), lambda x: torch.argmax(x, -1)),
    "var": (lambda f, x: f(x, -1), lambda x: torch.var(x, -1)),
    "matmul": (lambda f, x: f(x, x.t()), lambda x: torch.matmul(x, x.t())),
    "randn": (
        lambda f, x: f(x.shape, device=x.device),
        lambda x: torch.randn(x.shape, device=x.device),
    ),
    "bernoulli": (lambda f, x: f(x), lambda x: torch.bernoulli(x)),
    "dropout": (lambda f, x: f(x), functional.dropout),
}
"""The calls for the host time of each op, by the library and by torch."""


def _rows(x: Any) -> Any:
    """x as one head of attention or more, with 16 rows of 64."""
    return x.view(1, -1, 16, 64)


def _image(x: Any) -> Any:
    """x as one square image."""
    side = int(x.numel() ** 0.5)
    return x.view(1, 1, side, side)


@dataclass(frozen=True)
class _Inputs:
    """The tensors of the calls that are timed forward and backward, made from one of a shape."""

    x: Any

    def __post_init__(self) -> None:
        x, last = self.x, self.x.shape[-1]

        def leaf(*shape: int) -> Any:
            return torch.randn(shape, device=x.device).requires_grad_()

        values = {
            "y": torch.rand_like(x),
            "labels": torch.zeros(x.shape[0], dtype=torch.long, device=x.device),
            "weight": leaf(last),
            "bias": leaf(last),
            "matrix": leaf(last, last),
            "filters": leaf(8, 1, 3, 3),
            "table": leaf(32, 64),
            "image": _image(x.detach()).clone().requires_grad_(),
            "heads": _rows(x.detach()).clone().requires_grad_(),
        }
        self.__dict__.update(values)


_Both = tuple[Callable[[Any, Any], Any], Callable[[Any], Any]]
GRADIENTS: dict[str, _Both] = {
    "add": (lambda f, i: f(i.x, i.x), lambda i: i.x + i.x),
    "mul": (lambda f, i: f(i.x, i.y), lambda i: i.x * i.y),
    "exp": (lambda f, i: f(i.x), lambda i: torch.exp(i.x)),
    "silu": (lambda f, i: f(i.x), lambda i: functional.silu(i.x)),
    "gelu": (lambda f, i: f(i.x), lambda i: functional.gelu(i.x)),
    "sum": (lambda f, i: f(i.x, -1), lambda i: torch.sum(i.x, -1)),
    "softmax": (lambda f, i: f(i.x), lambda i: torch.softmax(i.x, -1)),
    "log_softmax": (lambda f, i: f(i.x), lambda i: torch.log_softmax(i.x, -1)),
    "mse_loss": (lambda f, i: f(i.x, i.y), lambda i: functional.mse_loss(i.x, i.y)),
    "smooth_l1_loss": (lambda f, i: f(i.x, i.y), lambda i: functional.smooth_l1_loss(i.x, i.y)),
    "cross_entropy": (
        lambda f, i: f(i.x, i.labels),
        lambda i: functional.cross_entropy(i.x, i.labels),
    ),
    "layer_norm": (
        lambda f, i: f(i.x, i.weight.shape, i.weight, i.bias),
        lambda i: functional.layer_norm(i.x, i.weight.shape, i.weight, i.bias),
    ),
    "rms_norm": (
        lambda f, i: f(i.x, i.weight.shape, i.weight),
        lambda i: functional.rms_norm(i.x, i.weight.shape, i.weight),
    ),
    "max_pool2d": (lambda f, i: f(i.image, 2), lambda i: functional.max_pool2d(i.image, 2)),
    "avg_pool2d": (lambda f, i: f(i.image, 2), lambda i: functional.avg_pool2d(i.image, 2)),
    "matmul": (lambda f, i: f(i.x, i.matrix), lambda i: torch.matmul(i.x, i.matrix)),
    "linear": (
        lambda f, i: f(i.x, i.matrix, i.bias),
        lambda i: functional.linear(i.x, i.matrix, i.bias),
    ),
    "conv2d": (lambda f, i: f(i.image, i.filters), lambda i: functional.conv2d(i.image, i.filters)),
    "attention": (
        lambda f, i: f(i.heads, i.heads, i.heads),
        lambda i: functional.scaled_dot_product_attention(i.heads, i.heads, i.heads),
    ),
    "embedding": (
        lambda f, i: f(i.labels, i.table),
        lambda i: functional.embedding(i.labels, i.table),
    ),
}
"""The calls that are timed forward and backward, for the gradients of all tensors that have one."""


def names() -> list[str]:
    """The names of all rows."""
    return [*HOST, *(f"{name}{BACKWARD}" for name in GRADIENTS)]


def times(
    ops: Sequence[str] = (), device: str = "cuda", clock: time.Clock = time.host
) -> list[HostTime]:
    """The host's time of some ops, or of all that have a row."""
    if device == "cuda":
        build.started().wait()  # calls are made in Python until it has ended
    rows = []
    for shape in SHAPES:
        x = torch.rand(shape, device=device)  # probabilities, for bernoulli
        inputs = _Inputs(x.clone().requires_grad_())
        pairs = {name: _forward(name, x) for name in HOST}
        pairs |= {f"{name}{BACKWARD}": _backward(name, inputs) for name in GRADIENTS}
        for name, make in pairs.items():
            if ops and name not in ops:
                continue
            a, b = clock(make())
            rows.append(HostTime(name, shape, 1e6 * a, 1e6 * b))
    return rows


def _forward(name: str, x: Any) -> Callable[[], list[time.Function]]:
    def make() -> list[time.Function]:
        call, (adapter, torch_call) = library.call(name), HOST[name]
        return [lambda: adapter(call, x), lambda: torch_call(x)]

    return make


def _backward(name: str, inputs: _Inputs) -> Callable[[], list[time.Function]]:
    def make() -> list[time.Function]:
        call, (adapter, torch_call) = library.call(name), GRADIENTS[name]
        result = torch_call(inputs)
        gradient = torch.ones_like(result)
        leaves = [t for t in vars(inputs).values() if t.requires_grad]
        known = torch.autograd.grad(result, leaves, gradient, allow_unused=True)
        wanted = [t for t, g in zip(leaves, known, strict=True) if g is not None]
        grad = torch.autograd.grad
        return [
            lambda: grad(adapter(call, inputs), wanted, gradient),
            lambda: grad(torch_call(inputs), wanted, gradient),
        ]

    return make
