"""References of exercises that are no expression."""

import numpy as np


def dot4(a, b):
    return (a.astype(np.int64) * b.astype(np.int64)).reshape(-1, 4).sum(1)


def fields(x, start, length):
    masks = (np.uint64(1) << length.astype(np.uint64)) - np.uint64(1)
    return (x.astype(np.uint64) >> start.astype(np.uint64)) & masks
