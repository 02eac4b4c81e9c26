"""Dropout with probability 1/2, forward and backward: eight bytes per element and pass."""

import numpy as np

from weft.measure import Case, Op

SEED = 7


def numbers(n):
    """Philox4x32-10: element i has number i % 4 of subsequence i // 4."""
    low = np.uint64(2**32 - 1)
    c = [np.zeros(-(-n // 4), np.uint64) for _ in range(4)]
    c[2] = np.arange(len(c[0]), dtype=np.uint64)
    key = [SEED, 0]
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        x, y = (np.uint64(k) for k in key)
        c = [b >> np.uint64(32) ^ c[1] ^ x, b & low, a >> np.uint64(32) ^ c[3] ^ y, a & low]
        key = [(key[0] + 0x9E3779B9) % 2**32, (key[1] + 0xBB67AE85) % 2**32]
    return np.stack(c, 1).reshape(-1)[:n]


def reference(x, dy):
    kept = numbers(len(x)) < 2**31
    return x * kept * 2, dy * kept * 2


op = Op(
    "dropout",
    "x:f32[n] dy:f32[n] -> y:f32[n] dx:f32[n]",
    reference=reference,
    cases=[
        Case(n=4096),
        Case(n=5003, why="ragged: neither whole blocks nor whole vectors of four"),
        Case(n=1),
    ],
    bench=[Case(n=2**28)],
    flops="2*n",
    bytes="16*n",
    peers=[
        "torch.ops.aten.native_dropout_backward("
        "dy, torch.ops.aten.native_dropout(x, 0.5, True)[1], 2.0)"
    ],
    target="limit 0.95",
)
