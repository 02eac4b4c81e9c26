"""A network of two layers in NumPy, and its training by stochastic gradient descent."""

import numpy as np


def unpack(p, k, h):
    w1, b1, w2, b2 = np.split(p, np.cumsum([k * h, h, 10 * h]))
    return w1.reshape(k, h), b1, w2.reshape(h, 10), b2


def gradients(p, x, t, h):
    n, k = x.shape
    w1, b1, w2, b2 = unpack(p, k, h)
    a = np.tanh(x @ w1 + b1)
    z = a @ w2 + b2
    z = z - z.max(axis=1, keepdims=True)
    parts = np.exp(z)
    sums = parts.sum(axis=1)
    loss = np.mean(np.log(sums) - z[np.arange(n), t])
    d = parts / sums[:, None]
    d[np.arange(n), t] -= 1
    d /= n
    e = (d @ w2.T) * (1 - a * a)
    return loss, np.concatenate([(x.T @ e).ravel(), e.sum(0), (a.T @ d).ravel(), d.sum(0)])


def train(x, t, h):
    rng, k = np.random.default_rng(0), x.shape[1]
    # Sums of k products start with a variance of about 1.
    starts = (k * h, k**-0.5), (h, 0), (h * 10, h**-0.5), (10, 0)
    p = np.concatenate([scale * rng.standard_normal(size) for size, scale in starts])
    for _ in range(300):
        some = rng.integers(0, len(x), 32)
        p -= 0.3 * gradients(p, x[some], t[some], h)[1]
    return p
