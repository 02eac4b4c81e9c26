"""References of exercises that are no expression."""

import numpy as np


def places(start):
    i = np.arange(len(start))
    return start + i // 64, start + i % 64 // 32, start + i % 32
