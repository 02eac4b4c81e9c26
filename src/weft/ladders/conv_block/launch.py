"""Launches of the tiles: blocks of strips, and the shared memory of their ring."""

from weft import cdiv


def _tiles(N, P, Q, K, lanes, per_lane, strips, images, channels, columns=7):
    filters = lanes * per_lane
    blocks = cdiv(N, images) * cdiv(P, strips) * cdiv(Q, columns)
    across = cdiv(2 * columns + 2, 4) * 4
    stage = (
        channels * 9 * (filters + max(2, per_lane)) + images * channels * (2 * strips + 2) * across
    )
    results = images * filters * (strips * columns | 1)
    yield "block", (blocks, cdiv(K, filters)), lanes * strips * images, 4 * max(3 * stage, results)


def rung_02_strips(N, P, Q, K):
    return _tiles(N, P, Q, K, 32, 1, 7, 1, 8)


def rung_03_half_warps(N, P, Q, K):
    return _tiles(N, P, Q, K, 16, 4, 7, 2, 8)
