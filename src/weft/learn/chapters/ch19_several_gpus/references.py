"""References of exercises that are no expression."""

import numpy as np


def ring(x):
    """x[g][p] is part p on GPU g; GPU g sends its part g to the right."""
    y = x.copy()
    gpus = len(x)
    for g in range(gpus):
        left = (g - 1) % gpus
        y[g, left] = x[g, left] + x[left, left]
    return y


def join(a, la, b, lb):
    wa, wb = np.exp(la - np.maximum(la, lb))[:, None], np.exp(lb - np.maximum(la, lb))[:, None]
    return (wa * a + wb * b) / (wa + wb)
