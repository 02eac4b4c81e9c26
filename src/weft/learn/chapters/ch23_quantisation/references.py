"""References of exercises that are no expression."""

import numpy as np


def quantise(x):
    x = x.astype(np.float32)  # halves are where float32 puts them
    scale = np.abs(x).max(axis=1) / np.float32(127)
    safe = np.where(scale > 0, scale, np.float32(1))
    return np.rint(x / safe[:, None]).astype(np.int8), scale


def _kept(w):
    """The places of the two largest magnitudes of each four, in order."""
    magnitudes = np.abs(w.astype(np.int64)).reshape(-1, 4)
    return np.sort(np.argsort(-magnitudes, axis=1, kind="stable")[:, :2], axis=1)


def prune(w):
    mask = np.zeros((w.size // 4, 4), bool)
    np.put_along_axis(mask, _kept(w), True, axis=1)
    return np.where(mask.reshape(w.shape), w, 0)


def compress(w):
    kept = _kept(w)
    values = np.take_along_axis(w.reshape(-1, 4), kept, axis=1)
    return values.reshape(-1), kept[:, 0] + 4 * kept[:, 1]
