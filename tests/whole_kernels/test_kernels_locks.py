"""Spin locks, tickets, flags between blocks: every waiting thread gets on."""

from __future__ import annotations

import numpy as np
import pytest

from everyday import load


@pytest.mark.parametrize(("blocks", "block"), [(1, 1), (1, 32), (3, 64), (20, 33)])
@pytest.mark.parametrize("kernel", ["per_thread", "spin_first"])
def test_lock_of_every_thread(kernel: str, blocks: int, block: int) -> None:
    lock, counter = np.zeros(1, np.int32), np.zeros(1, np.int32)
    n = max(1, blocks * block - 5)
    load("locks").kernel(kernel)[blocks, block](lock, counter, n, time_limit=600)
    assert counter[0] == n
    assert lock[0] == 0


@pytest.mark.parametrize(("blocks", "warps"), [(1, 1), (1, 4), (8, 4)])
@pytest.mark.parametrize("work", [0, 500])  # the long one makes others yield while they wait
def test_lock_of_a_warp(blocks: int, warps: int, work: int) -> None:
    lock, counters = np.zeros(1, np.int32), np.zeros(64, np.int32)
    load("locks").per_warp[blocks, 32 * warps](lock, counters, 10, work, time_limit=600)
    np.testing.assert_array_equal(counters[:32], 10 * blocks * warps)


@pytest.mark.parametrize(("blocks", "block"), [(1, 32), (5, 100), (40, 64)])
def test_ticket_of_a_block(blocks: int, block: int) -> None:
    tickets, serving = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    counters = np.zeros(block, np.int32)
    load("locks").per_block[blocks, block](tickets, serving, counters, time_limit=600)
    np.testing.assert_array_equal(counters, blocks)
    assert tickets[0] == serving[0] == blocks


@pytest.mark.parametrize("blocks", [1, 2, 100])
def test_chain_of_blocks(blocks: int) -> None:
    flags, order = np.zeros(blocks, np.int32), np.full(blocks, -1, np.int32)
    load("locks").chain[blocks, 32](flags, order, np.zeros(1, np.int32), time_limit=600)
    np.testing.assert_array_equal(order, np.arange(blocks))


def test_ping_pong() -> None:
    out = np.zeros(1, np.int32)
    load("locks").ping_pong[1, 64](out, 25, time_limit=600)
    assert out[0] == 50
