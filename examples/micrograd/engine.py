"""A small autograd engine: a Tensor records the operations that made it, and can go back.

Every number is computed by a kernel of `kernels.cu`. With NumPy arrays, weft runs the kernels on
the simulated GPU, so no GPU is needed. The idea follows Andrej Karpathy's micrograd, with tensors
and kernels instead of scalars and Python arithmetic.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import weft

KERNELS = weft.cuda(Path(__file__).with_name("kernels.cu"))
BLOCK = 128
Array = np.ndarray[Any, np.dtype[np.float32]]
Backward = Callable[[Array], None]
"""Takes the gradient of a result and adds to the gradients of its operands."""


def launch(name: str, threads: int, *args: Any) -> None:
    """Runs a kernel with at least so many threads."""
    KERNELS.kernel(name)[weft.cdiv(threads, BLOCK), BLOCK](*args)


class Tensor:
    """An array, its gradient, and how it was made.

    data      the values, float32
    grad      the derivative of the loss by each value; zeros until `backward` is called
    parents   the operands that the tensor was computed from
    """

    def __init__(self, data: Any, parents: Sequence[Tensor] = (), back: Backward | None = None):
        self.data: Array = np.ascontiguousarray(data, np.float32)
        self.grad: Array = np.zeros_like(self.data)
        self.parents = tuple(parents)
        self._back = back

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape

    def __repr__(self) -> str:
        return f"Tensor({self.data})"

    # ---- elementwise: the other operand may be a number, or repeat along the first dimensions ---
    def __add__(self, other: Tensor | float) -> Tensor:
        b = _operand(self, other)
        y = np.empty_like(self.data)
        n, nb = self.data.size, b.data.size
        launch("add", n, self.data, b.data, y, n, nb)

        def back(dy: Array) -> None:
            launch("grad_a", n, self.grad, dy, None, n, nb)
            launch("grad_b", nb, b.grad, dy, None, n, nb)

        return Tensor(y, (self, b), back)

    def __mul__(self, other: Tensor | float) -> Tensor:
        b = _operand(self, other)
        y = np.empty_like(self.data)
        n, nb = self.data.size, b.data.size
        launch("mul", n, self.data, b.data, y, n, nb)

        def back(dy: Array) -> None:
            launch("grad_a", n, self.grad, dy, b.data, n, nb)
            launch("grad_b", nb, b.grad, dy, self.data, n, nb)

        return Tensor(y, (self, b), back)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Tensor:
        return self * -1.0

    def __sub__(self, other: Tensor | float) -> Tensor:
        return self + -other

    def tanh(self) -> Tensor:
        return self._pointwise("tanh")

    def relu(self) -> Tensor:
        return self._pointwise("relu")

    def _pointwise(self, name: str) -> Tensor:
        y, n = np.empty_like(self.data), self.data.size
        launch(f"{name}_forward", n, self.data, y, n)

        def back(dy: Array) -> None:
            launch(f"{name}_backward", n, self.grad, dy, y, n)

        return Tensor(y, (self,), back)

    # ---- matrices ------------------------------------------------------------------------------
    def __matmul__(self, other: Tensor) -> Tensor:
        a, b = self.data, other.data
        if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
            raise ValueError(f"@ needs shapes (m, k) and (k, n), got {a.shape} and {b.shape}")
        (m, k), n = a.shape, b.shape[1]
        y = np.zeros((m, n), np.float32)
        launch("matmul", m * n, a, b, y, m, n, k, k, 1, n, 1)

        def back(dy: Array) -> None:
            # da = dy bᵀ and db = aᵀ dy: the transposes are strides
            launch("matmul", m * k, dy, b, self.grad, m, k, n, n, 1, 1, n)
            launch("matmul", k * n, a, dy, other.grad, k, n, m, 1, k, n, 1)

        return Tensor(y, (self, other), back)

    # ---- losses --------------------------------------------------------------------------------
    def mse(self, want: Any) -> Tensor:
        """The mean of the squared differences to `want`."""
        target = np.ascontiguousarray(want, np.float32)
        if target.shape != self.shape:
            raise ValueError(f"mse needs equal shapes, got {self.shape} and {target.shape}")
        return self._loss("mse", self.data.size, target, self.data.size)

    def cross_entropy(self, labels: Any) -> Tensor:
        """The mean over rows of -log softmax(row)[label]."""
        classes = np.ascontiguousarray(labels, np.int32)
        rows, n = self.shape
        if classes.shape != (rows,) or classes.min() < 0 or classes.max() >= n:
            raise ValueError(f"cross_entropy needs {rows} labels from 0 to {n - 1}")
        return self._loss("cross_entropy", rows, classes, rows, n)

    def _loss(self, name: str, threads: int, target: Any, *sizes: int) -> Tensor:
        local, loss = np.empty_like(self.data), np.zeros(1, np.float32)
        launch(name, threads, self.data, target, local, loss, *sizes)

        def back(dy: Array) -> None:  # the kernel wrote the gradient for dy = 1
            launch("grad_b", local.size, self.grad, local * dy[0], None, local.size, local.size)

        return Tensor(loss, (self,), back)

    # ---- backward ------------------------------------------------------------------------------
    def backward(self) -> None:
        """Adds the derivative of this number to `grad` of every tensor that it was made from."""
        if self.data.size != 1:
            raise ValueError(f"backward starts at a single number, got shape {self.shape}")
        self.grad += 1.0
        for tensor in reversed(list(_in_order(self))):
            if tensor._back is not None:
                tensor._back(tensor.grad)


def _operand(a: Tensor, other: Tensor | float) -> Tensor:
    b = other if isinstance(other, Tensor) else Tensor(np.full(1, other))
    repeats = b.data.size == 1 or a.shape[len(a.shape) - b.data.ndim :] == b.shape
    if not repeats or b.data.size > a.data.size:
        raise ValueError(f"shape {b.shape} does not repeat along {a.shape}")
    return b


def _in_order(last: Tensor) -> Iterator[Tensor]:
    """All tensors that `last` depends on, each after its parents."""
    seen: set[int] = set()
    stack = [(last, False)]
    while stack:
        tensor, done = stack.pop()
        if done:
            yield tensor
        elif id(tensor) not in seen:
            seen.add(id(tensor))
            stack.append((tensor, True))
            stack.extend((parent, False) for parent in tensor.parents)


class MLP:
    """Layers of x @ w + b with tanh between them."""

    def __init__(self, sizes: Sequence[int], seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.layers = [
            (Tensor(rng.normal(0, 1 / np.sqrt(m), (m, n))), Tensor(np.zeros(n)))
            for m, n in itertools.pairwise(sizes)
        ]

    def __call__(self, x: Tensor) -> Tensor:
        for w, b in self.layers[:-1]:
            x = (x @ w + b).tanh()
        w, b = self.layers[-1]
        return x @ w + b

    def update(self, rate: float) -> None:
        """One step of gradient descent; clears the gradients."""
        for tensor in (t for layer in self.layers for t in layer):
            launch("sgd", tensor.data.size, tensor.data, tensor.grad, rate, tensor.data.size)
