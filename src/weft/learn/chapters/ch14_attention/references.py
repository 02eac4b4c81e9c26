"""References of exercises that are no expression."""

import numpy as np


def overflow(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


online = overflow


def scores(q, k, v):
    weights = overflow(np.einsum("hd,hsd->hs", q, k))
    return np.einsum("hs,hsd->hd", weights, v)
