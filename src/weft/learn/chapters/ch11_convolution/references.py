"""References of exercises that are no expression."""

import numpy as np


def border(x, filter):
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, 1), (3, 3))
    return np.einsum("hwij,ij->hw", windows, filter)


halo = border


def butterfly(re, im):
    out = np.fft.fft(re + 1j * im, axis=1)
    return out.real, out.imag
