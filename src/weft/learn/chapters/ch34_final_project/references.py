"""References of exercises that are no expression."""

from pathlib import Path

import numpy as np

from weft.climbing.rung import load

network = load(Path(__file__).with_name("network.py"))


def kernels(x, t, p):
    # The size of p is k h + h + 10 h + 10.
    h = (p.size - 10) // (x.shape[1] + 11)
    losses, g = network.gradients(p, x, t, h)
    return losses, g, p - 0.5 * g


def graph(seed, steps):
    n, k, h = 32, 48, 24
    size = k * h + h + 10 * h + 10
    i = np.arange(size + n * k)
    u = ((i * 7919 + seed * 104729) % 2003).astype(np.float32) / np.float32(2003) - np.float32(0.5)
    p, x = u[:size].astype(np.float64), 2 * u[size:].reshape(n, k).astype(np.float64)
    t = (7 * np.arange(n) + seed) % 10
    for _ in range(steps):
        losses, g = network.gradients(p, x, t, h)
        p = p - 0.5 * g
    return float(losses.mean())
