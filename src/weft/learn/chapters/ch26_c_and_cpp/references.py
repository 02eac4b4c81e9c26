"""References of exercises that are no expression."""

import numpy as np


def records(bytes):
    fields = [("value", "<i4"), ("kind", "u1"), ("shift", "i1"), ("count", "<i2")]
    record = np.ascontiguousarray(bytes).astype(np.uint8).view(fields)
    value, count = record["value"].astype(np.int64), record["count"].astype(np.int64)
    kind, shift = record["kind"] % 4, record["shift"].astype(np.int64)
    chosen = [value + count, value - count, value ^ count, value >> (shift & 31)]
    return np.choose(kind, chosen).astype(np.int32)


def bodies(n, steps):
    return sum(i % 10 + steps * (i % 3) for i in range(n))


def chains(n, buckets):
    keys = [i * 7919 % 10007 for i in range(n)]
    sizes = np.bincount([key % buckets for key in keys], minlength=buckets)
    return sum(keys) + int((sizes**2).sum())


def order(n, seed):
    pairs = sorted((i * seed % 101, i) for i in range(n))
    return sum((i + 1) * key + value for i, (key, value) in enumerate(pairs))


def attempts(n):
    threads = sum(128 * k for k in range(1, 9))
    refused = n - 8
    wrong_device = len(range(1, n + 1, 2))
    return threads + 100000 * (refused + wrong_device) + n // 2
