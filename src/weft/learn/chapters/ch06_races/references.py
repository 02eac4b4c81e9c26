"""References of exercises that are no expression."""

import numpy as np


def steps(x):
    groups = x.reshape(-1, 256)
    for _ in range(4):
        left = np.concatenate([groups[:, :1], groups[:, :-1]], axis=1)
        right = np.concatenate([groups[:, 1:], groups[:, -1:]], axis=1)
        groups = 0.25 * left + 0.5 * groups + 0.25 * right
    return groups.reshape(-1)
