"""Blocks of a cluster that race in distributed shared memory, each with a clean twin."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import weft
from weft.kernels import Module

SOURCE = r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

// Neighbours are read: the barrier before is missing.
extern "C" __global__ void neighbour(int* out, int bug) {
    __shared__ int v[64];
    cg::cluster_group c = cg::this_cluster();
    v[threadIdx.x] = threadIdx.x + c.block_rank();
    if (bug) __syncthreads(); else c.sync();
    unsigned next = (c.block_rank() + 1) % c.num_blocks();
    int x = c.map_shared_rank(v, next)[63 - threadIdx.x];  // reads
    c.sync();
    out[blockIdx.x * 64 + threadIdx.x] = x;
}

// Neighbours are read, then overwritten by their owner: the barrier between is missing.
extern "C" __global__ void reused(int* out, int bug) {
    __shared__ int v[64];
    cg::cluster_group c = cg::this_cluster();
    v[threadIdx.x] = threadIdx.x;
    c.sync();
    unsigned next = (c.block_rank() + 1) % c.num_blocks();
    int x = c.map_shared_rank(v, next)[threadIdx.x];  // reads
    if (!bug) c.sync();
    v[threadIdx.x] = x + 1;  // writes
    c.sync();
    out[blockIdx.x * 64 + threadIdx.x] = v[63 - threadIdx.x];
}

// All blocks add to the first: not by atomics.
extern "C" __global__ void added(int* out, int bug) {
    __shared__ int sum;
    cg::cluster_group c = cg::this_cluster();
    if (threadIdx.x == 0) sum = 0;
    c.sync();
    int* first = c.map_shared_rank(&sum, 0);
    if (threadIdx.x == 0) { if (bug) *first += 1; else atomicAdd(first, 1); }  // adds
    c.sync();
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

// The arrival orders nothing.
extern "C" __global__ void relaxed(int* out, int bug) {
    __shared__ int v;
    cg::cluster_group c = cg::this_cluster();
    if (threadIdx.x == 0) v = c.block_rank();
    if (bug) asm volatile("barrier.cluster.arrive.relaxed.aligned;");
    else asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    if (threadIdx.x == 0) out[blockIdx.x] = *c.map_shared_rank(&v, 1 - c.block_rank());  // reads
    c.sync();
}

// A token goes from rank 0 to rank 1, which waits for the mbarrier that announces it.
extern "C" __global__ void announced(int* out, int bug) {
    __shared__ unsigned long long bar;
    __shared__ int token;
    cg::cluster_group c = cg::this_cluster();
    unsigned near = (unsigned)__cvta_generic_to_shared(&bar), far, done = bug;
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(near));
    c.sync();
    asm volatile("mapa.shared::cluster.u32 %0, %1, 1;" : "=r"(far) : "r"(near));
    if (threadIdx.x == 0 && c.block_rank() == 0) {
        *c.map_shared_rank(&token, 1) = 7;  // writes
        asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];"
                     :: "r"(far) : "memory");
    } else if (threadIdx.x == 0) {
        while (!done)
            asm volatile("{ .reg .pred p;"
                         " mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], 0;"
                         " selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(near) : "memory");
        out[blockIdx.x] = token;  // reads
    }
    c.sync();
}

// Values that no block has written.
extern "C" __global__ void unwritten(int* out, int bug) {
    __shared__ int v[64];
    cg::cluster_group c = cg::this_cluster();
    if (!bug || c.block_rank() == 0) v[threadIdx.x] = 1;
    c.sync();
    out[blockIdx.x * 64 + threadIdx.x] = c.map_shared_rank(v, 1)[threadIdx.x];  // reads
    c.sync();
}

// Some lanes of a warp write.
extern "C" __global__ void partly(int* out, int bug) {
    __shared__ int v[64];
    if (threadIdx.x >= 32 && threadIdx.x < 35) v[threadIdx.x - 32] = threadIdx.x;
    __syncthreads();
    out[blockIdx.x * 64 + threadIdx.x] = v[threadIdx.x % (bug ? 4 : 3)];  // reads
    cg::this_cluster().sync();
}
"""
BUGS = {
    "neighbour": ("data race", "reads"),
    "reused": ("data race", "reads"),
    "added": ("data race", "adds"),
    "relaxed": ("data race", "reads"),
    "announced": ("data race", "reads"),
    "unwritten": ("uninitialised", "reads"),
    "partly": ("uninitialised", "reads"),
}


@cache
def module() -> Module:
    return weft.cuda(SOURCE, arch="sm_90", device="sim:h200")


def launch(name: str, bug: bool) -> None:
    out = np.zeros(256, np.int32)
    module().kernel(name)[4, 64, 0, None, 2](out, bug, sanitize=True)


@pytest.mark.parametrize("name", BUGS)
def test_planted(name: str) -> None:
    kind, mark = BUGS[name]
    with pytest.raises(weft.SanitizerError) as caught:
        launch(name, bug=True)
    found = [f for f in caught.value.findings if kind in f.kind]
    assert found, caught.value
    lines = " ".join(a.line for f in found for a in f.accesses)
    assert f"// {mark}" in lines
    if kind == "data race":
        race = found[0]
        assert len({a.block for a in race.accesses}) == 2, race
        assert "cluster" in race.next


@pytest.mark.parametrize("name", BUGS)
def test_clean_twin(name: str) -> None:
    launch(name, bug=False)


COPIES = r"""
#include <cooperative_groups.h>
#include <weft/barrier.cuh>
namespace cg = cooperative_groups;
using namespace weft;

// The first block copies 256 bytes to every block; each waits for its own mbarrier.
__device__ void copy_to_all(const int* in, int* v, Barrier& full) {
    cg::cluster_group c = cg::this_cluster();
    if (threadIdx.x == 0) {
        full.init(1);
        publish_barriers();
        full.arrive_expecting(256);
    }
    c.sync();
    if (c.block_rank() == 0 && threadIdx.x == 0)
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
            " [%0], [%1], 256, [%2], %3;" ::"r"(shared_address(v)), "l"(in),
            "r"(shared_address(&full)), "h"((short)((1 << c.num_blocks()) - 1)) : "memory");
    full.wait(0);
}

// Warps exchange what was copied: the barrier between is missing.
extern "C" __global__ void warps(const int* in, int* out, int bug) {
    __shared__ alignas(128) int v[64];
    __shared__ int w[64];
    __shared__ Barrier full;
    copy_to_all(in, v, full);
    w[threadIdx.x] = v[threadIdx.x] + 1;  // writes
    if (!bug) __syncthreads();
    out[blockIdx.x * 64 + threadIdx.x] = w[63 - threadIdx.x];  // reads
    cg::this_cluster().sync();
}

// A neighbour reads what its owner has changed: the barrier of the cluster is missing.
extern "C" __global__ void blocks(const int* in, int* out, int bug) {
    __shared__ alignas(128) int v[64];
    __shared__ Barrier full;
    cg::cluster_group c = cg::this_cluster();
    copy_to_all(in, v, full);
    v[threadIdx.x] += c.block_rank();  // writes
    if (bug) __syncthreads(); else c.sync();
    unsigned next = (c.block_rank() + 1) % c.num_blocks();
    out[blockIdx.x * 64 + threadIdx.x] = c.map_shared_rank(v, next)[threadIdx.x];  // reads
    c.sync();
}

// More is read than was copied.
extern "C" __global__ void beyond(const int* in, int* out, int bug) {
    __shared__ alignas(128) int v[128];
    __shared__ Barrier full;
    copy_to_all(in, v, full);
    out[blockIdx.x * 64 + threadIdx.x] = v[threadIdx.x + (bug ? 32 : 0)];  // reads
    cg::this_cluster().sync();
}

// Threads have written what a copy replaces, and read it after the copy.
extern "C" __global__ void replaced(const int* in, int* out, int bug) {
    __shared__ alignas(128) int v[64];
    __shared__ Barrier full;
    v[63 - threadIdx.x] = 7;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    copy_to_all(in, v, full);
    if (bug && threadIdx.x == 40) v[3] = 1;  // writes
    out[blockIdx.x * 64 + threadIdx.x] = v[threadIdx.x];  // reads
    cg::this_cluster().sync();
}
"""
COPIED = {
    "warps": ("data race", "writes"),
    "blocks": ("data race", "writes"),
    "beyond": ("uninitialised", "reads"),
    "replaced": ("data race", "writes"),
}


@cache
def copies() -> Module:
    return weft.cuda(COPIES, arch="sm_90", device="sim:h200")


@pytest.mark.parametrize("bug", [True, False], ids=["planted", "clean"])
@pytest.mark.parametrize("name", COPIED)
def test_kernels_with_bulk_copies(name: str, bug: bool) -> None:
    """A multicast writes in each block; what threads do with it is compared."""
    kind, mark = COPIED[name]
    x, out = np.arange(64, dtype=np.int32), np.zeros(256, np.int32)
    launch = copies().kernel(name)[4, 64, 0, None, 2]
    if not bug:
        launch(x, out, bug, sanitize=True)
        return
    with pytest.raises(weft.SanitizerError) as caught:
        launch(x, out, bug, sanitize=True)
    found = [f for f in caught.value.findings if kind in f.kind]
    assert found, caught.value
    assert f"// {mark}" in " ".join(a.line for f in found for a in f.accesses)
