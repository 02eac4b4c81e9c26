"""References of exercises that are no expression."""

import numpy as np


def invariant(x):
    return x / np.sqrt((x * x).sum(axis=1, keepdims=True) + 1)


def diverge(x):
    return np.where(np.arange(len(x)) % 2 == 0, np.log1p(x), np.exp(x))
