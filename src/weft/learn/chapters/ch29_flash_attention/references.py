"""References of exercises that are no expression."""

import numpy as np


def _softmax(s):
    """The softmax of the last axis and its log-sum-exp."""
    most = s.max(axis=-1, keepdims=True)
    e = np.exp(s - most)
    total = e.sum(axis=-1, keepdims=True)
    return e / total, (most + np.log(total))[..., 0]


def naive(q, k, v):
    return _softmax(q @ k.T / np.sqrt(32))[0] @ v


def online(x):
    return _softmax(x)


def fused(q, k, v):
    s = q @ k.swapaxes(1, 2) / 4
    n = s.shape[1]
    p, lse = _softmax(np.where(np.arange(n)[:, None] >= np.arange(n), s, -np.inf))
    return p @ v, lse


def merge(part, lse, count):
    out, total = np.zeros(part.shape[1:]), np.full(part.shape[1], -np.inf)
    for r, used in enumerate(count):
        if used:
            weights, total[r] = _softmax(lse[:used, r])
            out[r] = weights @ part[:used, r]
    return out, total


def backward(q, k, v, out, lse, dout):
    p = np.exp(q @ k.T / 4 - lse[:, None])
    delta = (dout * out).sum(axis=1, keepdims=True)
    return p * (dout @ v.T - delta) @ k / 4


def ring(rows):
    i, c = np.arange(4 * rows)[:, None], np.arange(8)
    q = ((i * 7 + c * 3) % 11 - 5) / 4
    k = ((i * 5 + c * 2) % 9 - 4) / 4
    v = (i * 3 + c) % 10 / 10
    p, _ = _softmax(np.where(i >= i.T, q @ k.T / np.sqrt(8), -np.inf))
    return ((np.arange(32 * rows).reshape(-1, 8) % 7 + 1) * (p @ v)).sum()
