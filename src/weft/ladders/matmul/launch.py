"""Launches of the rungs that treat sizes with whole vectors and ragged sizes differently.

Vector kernels access 16 bytes at a time, so rows of A and B must be multiples of four floats.
"""

from weft import cdiv


def _has_whole_vectors(N, K):
    return N % 4 == 0 and K % 4 == 0


def _launches(M, N, K, width=128, shared=0):
    """One block per tile of 128 rows and `width` columns; ragged sizes take tiles of 128 x 128."""
    if _has_whole_vectors(N, K):
        yield "matmul", (cdiv(N, width), cdiv(M, 128)), 256, shared
    else:
        yield "ragged", (cdiv(N, 128), cdiv(M, 128)), 256, 0


def rung_07_vectorised(M, N, K):
    return _launches(M, N, K)


rung_08_conflict_free = rung_09_warp_tiles = rung_07_vectorised


def rung_10_async(M, N, K):
    return _launches(M, N, K, shared=49920)


def rung_11_tuned(M, N, K):
    return _launches(M, N, K, width=256, shared=24832)


def rung_12_shared_tail(M, N, K, sms):
    """Full waves of tiles, then the tiles of the last wave, whose work all SMs share."""
    if not _has_whole_vectors(N, K):
        yield from _launches(M, N, K)
        return
    tiles = cdiv(N, 256) * cdiv(M, 128)
    last = tiles % sms if tiles > sms else 0
    yield "whole", tiles - last, 256, 24832
    if last:
        yield "rest", sms, 256, 24832
