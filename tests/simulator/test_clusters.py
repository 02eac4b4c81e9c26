"""Clusters of blocks: random programs, everyday kernels, refused launches, wrong uses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from math import prod
from typing import Any

import numpy as np
import pytest

import weft
from cluster_probes import ARCH, SOURCE, Dims, answers
from folders import TESTS
from recorded import GOLDEN
from weft.device import models
from weft.device.base import LaunchConfig
from weft.device.clusters import check_cluster
from weft.device.occupancy import active_clusters, occupancy
from weft.device.sim import schedules
from weft.device.sim.emit.generate import generate
from weft.kernels import Module
from weft.ptx.parse import parse

READ, ADD, PUSH, COPY, MULTICAST, EXCHANGE = range(6)
"""The steps of a random program: see kernels/clusters.cu."""


@cache
def module() -> Module:
    source = (TESTS / "kernels" / "clusters.cu").read_text()
    return weft.cuda(source, arch="sm_90a", device="sim:h200")


# ---- random programs ---------------------------------------------------------------------------
def ranks(grid: Dims, cluster: Dims) -> list[list[int]]:
    """The blocks of each cluster, by rank."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for block in range(prod(grid)):
        place = (block % grid[0], block // grid[0] % grid[1], block // (grid[0] * grid[1]))
        key = tuple(p // c for p, c in zip(place, cluster, strict=True))
        groups.setdefault(key, []).append(block)  # x counts fastest, as in a rank
    return list(groups.values())


def model(steps: np.ndarray, data: np.ndarray, grid: Dims, cluster: Dims) -> np.ndarray:
    """The results of a program, one cluster after the other."""
    out = np.zeros((prod(grid), 64), np.int64)
    t = np.arange(64)
    for blocks in ranks(grid, cluster):
        n = len(blocks)
        v = np.array([1000 * b + t for b in blocks])
        for i, (op, k, a, b) in enumerate(steps.tolist()):
            at, new, rows = (a * t + b) % 64, v.copy(), range(n)
            if op == READ:
                new = np.array([v[(r + k) % n][at] + i for r in rows])
            elif op == ADD:
                w = np.zeros_like(v)
                for r in rows:
                    np.add.at(w, ((r + k * t) % n, at), v[r])
                new = wrap(v) ^ wrap(w)
            elif op == PUSH:
                for r in rows:
                    new[(r + k) % n][t ^ (b % 64)] = v[r] + b
            elif op == COPY:
                for r in rows:
                    new[(r + k) % n] = 3 * v[r][63 - t] + 1
            elif op == MULTICAST:
                mask = b | 1 << (k % n)
                new = np.array([v[r] + (mask >> r & 1) * data[a % 4] for r in rows])
            else:
                for r in rows:
                    x = v[(r + k) % n].reshape(16, 4)[(t[:16] + b) % 16]
                    new[r] = np.stack([x[:, 3], x[:, 2], x[:, 1], x[:, 0] + t[:16]], 1).ravel()
            v = wrap(new)
        out[blocks] = v
    return out


def wrap(v: np.ndarray) -> np.ndarray:
    """Values as 32-bit integers."""
    return v.astype(np.int64).astype(np.int32).astype(np.int64)


SHAPES: list[tuple[Dims, Dims]] = [
    ((4, 1, 1), (2, 1, 1)), ((8, 1, 1), (8, 1, 1)), ((6, 2, 1), (3, 2, 1)), ((2, 4, 2), (1, 2, 2)),
    ((3, 1, 1), (1, 1, 1)), ((16, 1, 1), (16, 1, 1)), ((2, 2, 6), (2, 1, 3)),
    ((14, 1, 1), (7, 1, 1)),
]  # fmt: skip


@pytest.mark.draws
@pytest.mark.parametrize("case", range(len(SHAPES)))
def test_random_programs(case: int, seed: str) -> None:
    grid, cluster = SHAPES[case]
    rng = np.random.default_rng([int(seed), case])
    steps = np.stack(
        [rng.integers(0, 6, 12), rng.integers(0, 9, 12), rng.integers(0, 64, 12) * 2 + 1,
         rng.integers(0, 1 << 16, 12)], 1,
    ).astype(np.int32)  # fmt: skip
    data = rng.integers(-1000, 1000, (4, 64)).astype(np.int32)
    out = np.zeros((prod(grid), 64), np.int32)
    launch = module().kernel("program")[grid, 64, 0, None, cluster]
    launch(steps, len(steps), data, out)
    np.testing.assert_array_equal(out, model(steps, data, grid, cluster), err_msg=f"{steps}")


# ---- everyday kernels --------------------------------------------------------------------------
def test_a_row_is_summed_by_a_cluster() -> None:
    x = np.random.default_rng(1).integers(-9, 9, (3, 1000)).astype(np.float32)
    sums = np.zeros(3, np.float32)
    module().kernel("row_sums")(x, sums, 1000, grid=(4, 3), block=64, cluster=4)
    np.testing.assert_array_equal(sums, x.sum(1))


@pytest.mark.parametrize("cluster", [1, 2, 4, 8])
def test_bins_are_spread_over_a_cluster(cluster: int) -> None:
    x = np.random.default_rng(cluster).integers(0, 256, 5000).astype(np.int32)
    bins = np.zeros(256, np.int32)
    launch = module().kernel("histogram")[8, 96, 256 * 4 // cluster, None, cluster]
    launch(x, len(x), bins, 256)
    np.testing.assert_array_equal(bins, np.bincount(x, minlength=256))


def test_the_kernel_may_bring_its_cluster() -> None:
    out = np.zeros(4, np.int32)
    module().kernel("pairs")[4, 32](out)
    assert out.tolist() == [2] * 4
    module().kernel("pairs").bind(4, 32, out, cluster=2)()
    module().kernel("plain")[4, 32, 0, None, 2](out)
    assert out.tolist() == [4] * 4


def test_bytes_are_expected_and_completed_in_another_block() -> None:
    out = np.zeros(2, np.int32)
    module().kernel("remote_bytes")[2, 32, 0, None, 2](out, time_limit=60)
    assert out.tolist() == [5, 7]


# ---- refused launches --------------------------------------------------------------------------
REFUSED: dict[str, tuple[str, Any, Any, str, str]] = {
    "a part of a cluster": ("plain", 7, 2, "does not divide the grid", "grid.x a multiple of 2"),
    "a part in y": ("plain", (4, 3), (1, 2), "does not divide", "grid.y a multiple of 2"),
    "too many": ("plain", 32, 32, "too many blocks in a cluster", "1 to 8, and 16 on this GPU"),
    "none": ("plain", 4, (0, 1), "a cluster needs blocks", "1 to 8"),
    "another": ("pairs", 4, 4, "was compiled for another cluster", "(2, 1, 1)"),
    "an odd grid": ("pairs", 3, None, "does not divide the grid", "a multiple of 2"),
    "four sizes": ("plain", 8, (2, 1, 1, 1), "cluster has one to three sizes", ""),
    "a word": ("plain", 8, "two", "cluster must be a whole number", ""),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    name, grid, cluster, what, allowed = REFUSED[case]
    with pytest.raises(weft.LaunchError) as caught:
        module().kernel(name)[grid, 32, 0, None, cluster](np.zeros(64, np.int32))
    assert what in caught.value.what and allowed in caught.value.allowed


def test_a_gpu_without_clusters() -> None:
    plain = weft.cuda("__global__ void k(int* x) {}", device="sim:a100").k
    with pytest.raises(weft.LaunchError, match="has no clusters"):
        plain[4, 32, 0, None, 2](np.zeros(4, np.int32))


HEADER = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() "


@pytest.mark.parametrize(
    ("directives", "cluster", "what"),
    [
        (".explicitcluster", None, "must be launched with a cluster"),
        (".maxclusterrank 2", 4, "was compiled for smaller clusters"),
        (".reqntid 32 .reqnctapercluster 2 .blocksareclusters", None, "counts its grid"),
    ],
)
def test_directives(directives: str, cluster: int | None, what: str) -> None:
    k = weft.load_ptx(f"{HEADER}{directives} {{ ret; }}", device="sim:h200").k
    with pytest.raises(weft.LaunchError, match=what):
        k[8, 32, 0, None, cluster]()


# ---- wrong uses --------------------------------------------------------------------------------
def failure(name: str, *args: Any, grid: int = 2, cluster: int = 2) -> weft.DeviceError:
    with pytest.raises(weft.DeviceError) as caught:
        module().kernel(name)[grid, 64, 0, None, cluster](*args, time_limit=60)
    return caught.value


def test_memory_of_a_block_that_has_exited() -> None:
    error = failure("exits_early", np.zeros(2, np.int32))
    assert isinstance(error, weft.IllegalAddress)
    assert "shared memory of a block that has exited" in error.what
    assert "block (0, 0, 0)" in error.got and "of block (1, 0, 0), rank 1" in error.got
    assert "map_shared_rank(&v, 1)" in error.where


@pytest.mark.parametrize("rank", [2, 3, 100, -1])
def test_a_rank_beyond_the_cluster(rank: int) -> None:
    error = failure("beyond_the_cluster", np.zeros(1, np.int32), rank)
    assert "shared::cluster memory" in error.what
    assert f"ranks 0 to 1 of the cluster; the address is of rank {rank % 256}" in error.allowed


@pytest.mark.parametrize("index", [4, -5, 1000])
def test_an_offset_beyond_shared_memory(index: int) -> None:
    error = failure("beyond_the_memory", np.zeros(1, np.int32), index)
    assert isinstance(error, weft.IllegalAddress) and "shared::cluster" in error.what


def test_the_barrier_needs_one_arrival_and_one_wait() -> None:
    error = failure("arrives_twice", np.zeros(1, np.int32))
    assert "arrives twice" in error.what and error.block == (1, 0, 0)
    assert "arrive.aligned" in error.where
    error = failure("never_arrives", np.zeros(1, np.int32))
    assert "without having arrived" in error.what and "block (1, 0, 0)" in error.got


def test_a_mask_beyond_the_cluster() -> None:
    error = failure("multicasts_too_far", np.zeros(64, np.int32))
    assert "blocks beyond its cluster" in error.what


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("one_block_waits", "waits at the barrier of its cluster"),
        ("barrier_and_mbarrier", "waits for an mbarrier"),
    ],
)
def test_deadlocks_name_who_waits_where(name: str, how: str) -> None:
    error = failure(name, np.zeros(1, np.int32))
    assert isinstance(error, weft.Deadlock)
    assert how in error.got and "waits at the barrier of its cluster" in error.got
    assert "block (0, 0, 0)" in error.got and "block (1, 0, 0)" in error.got


@pytest.mark.parametrize("schedule", ["", "random:3"])
def test_a_deadlock_names_the_bytes_of_a_multicast(schedule: str) -> None:
    with schedules.named(schedule):
        error = failure("multicasts_too_little", np.zeros(64, np.int32))
    assert isinstance(error, weft.Deadlock)
    assert "block (1, 0, 0) warp 0 waits for an mbarrier" in error.got
    assert "272 bytes are expected, 256 have arrived" in error.got
    lines = (TESTS / "kernels" / "clusters.cu").read_text().splitlines()
    armed = next(i for i, line in enumerate(lines, 1) if "arrive.expect_tx" in line)
    first = lines.index('extern "C" __global__ void multicasts_too_little(const int* data) {')
    copied = next(i for i, s in enumerate(lines[first:], first + 1) if "multicast::cluster" in s)
    assert f"last armed at kernel.cu:{armed}" in error.got
    assert f"last copy at kernel.cu:{copied}" in error.got


# ---- what an H200 answered ---------------------------------------------------------------------
RECORDED = np.load(GOLDEN / "clusters.npz")
DRIVER = json.loads((GOLDEN / "clusters.json").read_text())


@cache
def probes() -> Module:
    return weft.cuda(SOURCE, arch=ARCH, device="sim:h200")


def probe(
    name: str, grid: Dims, threads: int, cluster: Dims | None, words: int, more: Sequence[int]
) -> np.ndarray:
    out = np.full(words, -77, np.int32)
    probes().kernel(name)[grid, threads, 0, None, cluster](out, *more)
    return out


@pytest.mark.parametrize("kernel", sorted({name.split()[0] for name in RECORDED.files}))
def test_recorded_probes(kernel: str) -> None:
    def of_kernel(name: str, *rest: Any) -> np.ndarray:
        return probe(name, *rest) if name == kernel else np.zeros(0, np.int32)

    found = {name: x for name, x in answers(of_kernel).items() if name.split()[0] == kernel}
    assert found.keys() == {name for name in RECORDED.files if name.split()[0] == kernel}
    for name, x in found.items():
        np.testing.assert_array_equal(x, RECORDED[name], err_msg=name)


def test_active_clusters_are_those_of_the_driver() -> None:
    gpu = models.get("h200")
    for threads, shared, size, code, count in DRIVER["active 1"]:
        blocks = occupancy(gpu, threads=threads, registers=32, shared_bytes=shared).blocks
        assert (code, active_clusters(gpu, blocks, size)) == (0, count), (threads, shared, size)


def test_refusals_are_those_of_the_driver() -> None:
    for grid, cluster, code in DRIVER["launches 1"]:
        config = LaunchConfig(tuple(grid), (32, 1, 1), 0, tuple(cluster))
        try:
            check_cluster("k", {}, config, "H200", 16)
            found = 0
        except weft.LaunchError:
            found = 912
        assert found == code, (grid, cluster)


# ---- kernels without clusters ------------------------------------------------------------------
def test_a_kernel_that_names_no_peer_has_no_code_for_clusters() -> None:
    parsed = parse(module().ptx.text)
    for name, named in (("plain", False), ("pairs", True)):
        text, info = generate(parsed, name, (64, 1, 1))
        assert info.clusters is named and ("cluster_release" in text) is named


# ---- blocks that end late ----------------------------------------------------------------------
LATE = r"""
#include <cooperative_groups.h>
extern "C" __global__ void __cluster_dims__(2, 1, 1) late(const volatile int* flag, int* out) {
    __shared__ int mine;
    auto cluster = cooperative_groups::this_cluster();
    *cluster.map_shared_rank(&mine, cluster.block_rank()) = 1;
    if (cluster.block_rank() == 0) return;
    for (int i = 0; i < (blockIdx.x == 1 ? 1000 : 20000) && flag[0] == 0; ++i) {}
    out[blockIdx.x] = mine;
}
"""


@pytest.mark.parametrize("schedule", ["first", "last"])
def test_a_launch_ends_with_the_last_block_of_any_cluster(schedule: str) -> None:
    """Clusters whose first block has exited, beside one that has ended as a whole."""
    kernel = weft.cuda(LATE, arch="sm_90a", device="sim:h200").late
    for blocks in (4, 6, 10):
        out = np.zeros(blocks, np.int32)
        with weft.schedule(schedule):
            kernel[blocks, 1](np.zeros(1, np.int32), out)
        assert out.tolist() == [0, 1] * (blocks // 2)
