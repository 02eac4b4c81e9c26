"""References of exercises that are no expression."""

import numpy as np


def backward(x, dy):
    s = 1 / (1 + np.exp(-x))
    return dy * (s + x * s * (1 - s))
