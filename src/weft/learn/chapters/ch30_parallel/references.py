"""References of exercises that are no expression."""

import numpy as np


def allreduce(part):
    i = np.arange(4 * part)
    total = 4 * (i % 13) + (0 + 1 + 2 + 3) * (i % 3)
    return (1 + 2 + 3 + 4) * ((i % 7 + 1) * total).sum()


def data(n, steps):
    i = np.arange(n)
    x = i[:, None] * np.arange(2, 6) % 7 / 7
    t, w = i % 5, np.zeros(4)
    for _ in range(steps):
        w = w - 0.25 * 2 * (x @ w - t) @ x / n
    return (1 + 2) * (np.arange(1, 5) * w).sum()


def _layers(rows):
    """max(x w1, 0) w2, as a flat array."""
    x = (np.arange(rows * 8) * 5 % 11 - 5) / 4
    i, j = np.arange(8), np.arange(32)
    w1 = ((i[:, None] * 3 + j * 7) % 13 - 6) / 8
    w2 = ((j[:, None] * 5 + i) % 9 - 4) / 8
    return (np.maximum(x.reshape(rows, 8) @ w1, 0) @ w2).reshape(-1)


def _weighed(y):
    return ((np.arange(y.size) % 5 + 1) * y).sum()


def tensor(rows):
    return (1 + 2) * _weighed(_layers(rows))


def pipeline(rows, parts):
    return _weighed(_layers(rows * parts))
