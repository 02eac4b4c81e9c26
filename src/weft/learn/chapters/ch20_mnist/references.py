"""References of exercises that are no expression."""

import numpy as np


def pool(x, scale, shift):
    n, c, h, w = x.shape
    z = np.maximum(x * scale[:, None, None] + shift[:, None, None], 0)
    return z.reshape(n, c, h // 2, 2, w // 2, 2).max(axis=(3, 5))


def update(w, v, g):
    keep, rate = float(np.float32(0.9)), float(np.float32(0.1))  # as the kernel's constants
    v2 = keep * v + g
    return w - rate * v2, v2


def loss(x, t):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    p = e / e.sum(axis=1, keepdims=True)
    p[np.arange(len(x)), t] -= 1
    return p / len(x)
