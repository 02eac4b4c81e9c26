"""Dropout with probability 1/2, forward and backward: eight bytes per element and pass."""

import numpy as np

from weft.measure import Case, Op

SEED = 7
LOW = 2**32 - 1
KEPT = 2**31 - 64
"""Below it the uniform number is less than 1/2: from here on, the float of the bits is 2**31."""


def kept(i):
    """The mask of elements i, integers of NumPy or torch: number i % 4 of subsequence i // 4.

    Philox4x32-10; products of 32-bit numbers wrap around in 64 bits, which keeps their bits.
    """
    c, key = [0 * i, 0 * i, i // 4, 0 * i], (SEED, 0)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 & LOW ^ c[1] ^ key[0], b & LOW, a >> 32 & LOW ^ c[3] ^ key[1], a & LOW]
        key = (key[0] + 0x9E3779B9 & LOW, key[1] + 0xBB67AE85 & LOW)
    return sum((i % 4 == k) * (c[k] < KEPT) for k in range(4))


def reference(x, dy):
    mask = 2 * kept(np.arange(len(x)))
    return x * mask, dy * mask


def answer(x, dy):
    return x * 2 * kept(x.new_ones(len(x)).long().cumsum(0) - 1)


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
    answer=answer,
    target="limit 0.95",
)
