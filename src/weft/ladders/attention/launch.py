"""Launches of the rungs that have a kernel for each size of a head, 32 and 128."""

from weft import cdiv
from weft.ops.families.attention.structs import Units

DEFINES = Units.define()
"""The struct of the kernels of weft.ops that a rung includes."""

TILES = {32: (64, 64, 25600), 128: (128, 32, 69632)}
"""The size of a head -> queries and keys of a tile, and bytes of shared memory."""


def rung_03_one_head(b, h, m, d):
    yield f"attention<{d}>", cdiv(m, 64) * b * h, 256, {32: 27648, 128: 76800}[d]


def rung_04_tensor_cores(b, h, m, d):
    queries, keys, shared = TILES[d]
    yield f"attention<{d}, {queries}, {keys}>", cdiv(m, queries) * b * h, 128, shared


def _split_keys(b, h, d):
    """A single query: 16 blocks of each head share its keys."""
    return f"split<{d}>", 16 * b * h, 128, {32: 25600, 128: 87040}[d]


def rung_05_split_keys(b, h, m, d):
    if m == 1:
        yield _split_keys(b, h, d)
    else:
        yield from rung_04_tensor_cores(b, h, m, d)


def rung_07_warpgroups(b, h, m, d):
    if m == 1:
        yield _split_keys(b, h, d)
    else:
        keys, shared = {32: (64, 50176), 128: (128, 164864)}[d]
        yield f"groups<{d}, {keys}>", cdiv(m, 128) * b * h, 384, shared


def rung_08_boxes(b, h, m, d, sms):
    if m == 1:
        yield _split_keys(b, h, d)
    else:
        shared = 1024 + (6 * 64 + 4 * 80) * 128 if d == 32 else 1024 + (3 * 64 + 6 * 80) * 256
        yield f"units<{d}>", min(cdiv(m, 192) * b * h, sms), 512, shared
