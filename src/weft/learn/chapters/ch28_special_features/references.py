"""References of exercises that are no expression."""

import numpy as np


def phases(n, blocks):
    x = (np.arange(n) * 37) % 1001 + 1
    return (1000 * x // x.max()).sum()


def taps(n, seed):
    x = (np.arange(n) * seed) % 101
    weights = (np.arange(8) + seed) % 7
    padded = np.pad(x, (0, 7))
    return sum(weights[k] * padded[k : k + n] for k in range(8)).sum()


def zoom(w, h):
    image = ((np.arange(h)[:, None] * 16 + np.arange(w) * 48) % 256).astype(np.float64)
    wide = _doubled(_doubled(image.T).T)
    return (wide * (np.arange(2 * h)[:, None] % 3 + np.arange(2 * w) % 5)).sum()


def _doubled(rows):
    """Rows of twice the number: a quarter of the farther one, three quarters of the nearer one."""
    around = np.pad(rows, ((1, 1), (0, 0)), mode="edge")
    out = np.empty((2 * len(rows), rows.shape[1]))
    out[0::2] = 0.25 * around[:-2] + 0.75 * around[1:-1]
    out[1::2] = 0.75 * around[1:-1] + 0.25 * around[2:]
    return out


def children(rows, longest):
    return sum(r * (1 + 7 * r % longest) for r in range(rows))
