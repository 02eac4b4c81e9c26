"""Reverse mode on arrays: every result has a function from its gradient to those of its inputs."""

import numpy as np


class Tensor:
    """An array, its gradient, its inputs, and the function that gives their gradients."""

    def __init__(self, data, inputs=(), gradients=None):
        self.data = np.asarray(data, dtype=np.float64)
        self.grad, self.inputs, self.gradients = np.zeros_like(self.data), inputs, gradients

    def __add__(self, other):
        def gradients(d):
            return unbroadcast(d, self.data.shape), unbroadcast(d, other.data.shape)

        return Tensor(self.data + other.data, (self, other), gradients)

    def __mul__(self, other):
        def gradients(d):
            left = unbroadcast(d * other.data, self.data.shape)
            return left, unbroadcast(d * self.data, other.data.shape)

        return Tensor(self.data * other.data, (self, other), gradients)

    def __matmul__(self, other):
        def gradients(d):
            return d @ other.data.T, self.data.T @ d

        return Tensor(self.data @ other.data, (self, other), gradients)

    def tanh(self):
        t = np.tanh(self.data)
        return Tensor(t, (self,), lambda d: (d * (1 - t * t),))

    def sum(self):
        return Tensor(self.data.sum(), (self,), lambda d: (np.broadcast_to(d, self.data.shape),))

    def backward(self):
        parts = {self: np.ones(())}
        for tensor in reversed(ordered(self)):
            part = parts[tensor]
            tensor.grad = tensor.grad + part
            if tensor.gradients is not None:
                for one, its in zip(tensor.inputs, tensor.gradients(part), strict=True):
                    parts[one] = parts[one] + its if one in parts else its


def unbroadcast(d, shape):
    """Add up what belongs to the same element: the sum undoes the repetition."""
    d = d.sum(axis=tuple(range(d.ndim - len(shape))))
    repeated = tuple(i for i, size in enumerate(shape) if size == 1 and d.shape[i] != 1)
    return d.sum(axis=repeated, keepdims=True)


def ordered(result):
    """All Tensors of a result, each after its inputs."""
    order, seen, stack = [], set(), [(result, False)]
    while stack:
        tensor, done = stack.pop()
        if done:
            order.append(tensor)
        elif tensor not in seen:
            seen.add(tensor)
            stack.append((tensor, True))
            stack.extend((one, False) for one in tensor.inputs)
    return order
