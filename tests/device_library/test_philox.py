"""weft/philox.cuh, against the same algorithm in Python."""

from __future__ import annotations

import numpy as np
import pytest

from device_library import run
from everyday import close, random


def philox(seed: int, subsequence: int, call: int) -> list[int]:
    mask, k = 0xFFFFFFFF, [seed & 0xFFFFFFFF, seed >> 32]
    c = [call & mask, call >> 32, subsequence & mask, subsequence >> 32]
    for _ in range(10):
        p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [q >> 32 ^ c[1] ^ k[0], q & mask, p >> 32 ^ c[3] ^ k[1], p & mask]
        k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
    return c


@pytest.mark.parametrize("in_memory", [False, True])
def test_words(in_memory: bool) -> None:
    seed, offset = 0x123456789ABCDEF0, 4 * (7 + (1 << 33))
    y = np.zeros((5, 4), np.uint32)
    state = np.array([seed, offset])
    others = (1, 2) if in_memory else (seed, offset)
    run("philox", "words", (1, 5), y, state if in_memory else None, *others)
    np.testing.assert_array_equal(y, [philox(seed, i, offset // 4) for i in range(5)])


def test_known_words() -> None:
    """The first test vector of the authors' Random123: counter and key 0."""
    assert philox(0, 0, 0) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


def test_numbers() -> None:
    words = random(1).integers(0, 2**32, (64, 2), np.uint32)
    words[:2, 0] = 0, 2**32 - 1
    uniforms, normals = np.zeros(64, np.float32), np.zeros((64, 2), np.float32)
    run("philox", "numbers", (1, 64), words, uniforms, normals)
    u, turn = (words + 0.5).T / 2**32
    close(uniforms, u, rtol=1e-6)
    assert uniforms[0] > 0 and uniforms[1] == 1
    radius = np.sqrt(-2 * np.log(np.minimum(uniforms.astype(np.float64), 1)))
    want = np.stack([np.sin(turn * 2 * np.pi), np.cos(turn * 2 * np.pi)], 1) * radius[:, None]
    close(normals, want, rtol=0, atol=2e-5)
