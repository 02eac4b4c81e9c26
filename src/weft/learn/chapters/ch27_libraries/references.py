"""References of exercises that are no expression."""

import numpy as np


def rows(m, n, k):
    a = (np.arange(m * k) % 7 - 3).reshape(m, k)
    b = (np.arange(k * n) % 5 - 2).reshape(k, n)
    c = (a @ b).ravel().astype(np.float64)
    return ((np.arange(m * n) + 1) * c * c).sum()


def spectrum(n):
    j = np.arange(n)
    x = np.fft.fft((j * 7 % 11 - 5) + 1j * (j * 3 % 13 - 6))
    return ((j + 1) * np.abs(x) ** 2).sum() / n


def philox(seed, n):
    """10 rounds of Philox 4x32 (Salmon et al., 2011), of the counters (0, 0, t, 0)."""
    words = np.zeros((4, n), np.uint64)
    words[2] = np.arange(n)
    key, low = np.array([seed & 0xFFFFFFFF, seed >> 32], np.uint64), np.uint64(0xFFFFFFFF)
    for _ in range(10):
        first, second = words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)
        words = np.stack(
            [
                (second >> np.uint64(32)) ^ words[1] ^ key[0],
                second & low,
                (first >> np.uint64(32)) ^ words[3] ^ key[1],
                first & low,
            ]
        )
        key = (key + np.array([0x9E3779B9, 0xBB67AE85], np.uint64)) & low
    uniform = (words.T.ravel().astype(np.float64) + 0.5) / 2.0**32
    return (uniform**2).sum()


def sparse(n):
    total, x = 0.0, np.arange(n) % 5 + 1
    for row in range(n):
        near = [c for c in (row - 3, row, row + 1) if 0 <= c < n]
        y = sum((row + 2 * c) % 7 * x[c] for c in near)
        total += (row + 1) * float(y) ** 2
    return total
