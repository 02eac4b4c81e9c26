"""References of exercises that are no expression."""

import numpy as np


def occupancy(x):
    return np.diff(x, prepend=0)


def overlap(parts):
    # v = v / 2 + 1 ends at 2, whatever it begins with.
    return 2 * 8192 * parts
