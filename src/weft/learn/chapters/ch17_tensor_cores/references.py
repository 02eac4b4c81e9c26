"""References of exercises that are no expression."""

import numpy as np


def rounding(x):
    x = x.astype(np.float32)  # halves are where float32 puts them
    scale = np.abs(x).max(axis=1) / np.float32(127)
    safe = np.where(scale > 0, scale, np.float32(1))
    return np.rint(x / safe[:, None]).astype(np.int8), scale
