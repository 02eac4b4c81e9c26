"""cp.async and mbarrier: what has landed when, and what a missing wait shows."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from threads import run

rng = np.random.default_rng(5)
NEXT = "mov.u32 %r90, pool; mul.lo.u32 %r91, %i, {n}; add.u32 %r90, %r90, %r91;"
SOURCE = "mul.wide.u32 %l90, %i, {n}; add.u64 %l91, %memory, %l90;"


def words(n: int) -> np.ndarray:
    return rng.integers(1, 1 << 32, n, dtype=np.uint32)


@pytest.mark.parametrize(("opcode", "size"), [("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16)])
@pytest.mark.parametrize("end", ["wait_all", "commit_group; cp.async.wait_group 0"])
def test_copies_land_at_the_wait(opcode: str, size: int, end: str) -> None:
    n, k = 40, size // 4
    data = words(n * k)
    text = f"""{NEXT.format(n=size)} {SOURCE.format(n=size)}
        st.shared.u32 [%r90], 7;
        cp.async.{opcode}.shared.global [%r90], [%l91], {size};
        ld.shared.u32 %d0, [%r90];
        cp.async.{end};
        ld.shared.u32 %d1, [%r90+{size - 4}];"""
    before, after = run(text, [words(n)], [np.uint32] * 2, memory=data, shared=n * size)
    assert (before == 7).all(), "a copy that nobody waited for must not be seen"
    assert (after == data[k - 1 :: k]).all()


@pytest.mark.parametrize("size", [4, 8, 16])
def test_lanes_that_wait_apart(size: int) -> None:
    """The whole warp copies as one, twice so that its place is known; then half of it waits."""
    n, k = 32, size // 4
    data = words(n * k)
    text = f"""{NEXT.format(n=size)} {SOURCE.format(n=size)}
        cp.async.ca.shared.global [%r90], [%l91], {size};
        cp.async.wait_all;
        st.shared.u32 [%r90+{size - 4}], 7;
        mov.u32 %r97, 0;
    AGAIN:
        cp.async.ca.shared.global [%r90], [%l91], {size};
        add.u32 %r97, %r97, 1;
        setp.lt.u32 %p8, %r97, 2;
        @%p8 bra AGAIN;
        setp.lt.u32 %p9, %i, 16;
        @%p9 bra LOOK;
        cp.async.wait_all;
    LOOK:
        ld.shared.u32 %d0, [%r90+{size - 4}];
        cp.async.wait_all;
        ld.shared.u32 %d1, [%r90+{size - 4}];"""
    before, after = run(text, [words(n)], [np.uint32] * 2, memory=data, shared=n * size)
    mine = data[k - 1 :: k]
    assert (before == np.where(np.arange(n) < 16, 7, mine)).all()
    assert (after == mine).all()


@pytest.mark.parametrize("wanted", [4, 2, 0], ids=["all", "a part", "nothing"])
def test_the_whole_warp_wants_the_same(wanted: int) -> None:
    data = words(32)
    text = f"""{NEXT.format(n=4)} {SOURCE.format(n=4)} mov.u32 %r96, {wanted}; mov.u32 %r97, 0;
    AGAIN:
        st.shared.u32 [%r90], 7;
        cp.async.ca.shared.global [%r90], [%l91], 4, %r96;
        cp.async.wait_all;
        add.u32 %r97, %r97, 1;
        setp.lt.u32 %p8, %r97, 3;
        @%p8 bra AGAIN;
        ld.shared.u32 %d0, [%r90];"""
    (got,) = run(text, [words(32)], [np.uint32], memory=data, shared=128)
    assert (got == data & ((1 << 8 * wanted) - 1)).all()


def test_groups_land_in_order() -> None:
    data = words(32 * 4)
    issue = "".join(
        f"""cp.async.ca.shared.global [%r90+{128 * g}], [%l91+{128 * g}], 4;
            cp.async.commit_group;"""
        for g in range(3)
    )
    look = "".join(
        f"cp.async.wait_group {left};"
        + "".join(f"ld.shared.u32 %d{3 * i + g}, [%r90+{128 * g}];" for g in range(3))
        for i, left in enumerate((2, 1, 0))
    )
    zero = "".join(f"st.shared.u32 [%r90+{128 * g}], 0;" for g in range(3))
    text = NEXT.format(n=4) + SOURCE.format(n=4) + zero + issue + look
    got = run(text, [words(32)], [np.uint32] * 9, memory=data, shared=512)
    for step in range(3):
        for group in range(3):
            want = data[32 * group : 32 * group + 32] if group <= step else np.zeros(32, np.uint32)
            assert (got[3 * step + group] == want).all()


def test_uncommitted_copies_wait_for_wait_all() -> None:
    data = words(32)
    text = f"""{NEXT.format(n=4)} {SOURCE.format(n=4)} st.shared.u32 [%r90], 1;
        cp.async.ca.shared.global [%r90], [%l91], 4; cp.async.wait_group 0;
        ld.shared.u32 %d0, [%r90]; cp.async.wait_all; ld.shared.u32 %d1, [%r90];"""
    early, late = run(text, [words(32)], [np.uint32] * 2, memory=data, shared=128)
    assert (early == 1).all() and (late == data).all()


@pytest.mark.parametrize("size", [4, 8, 16])
def test_source_size_fills_with_zeros_and_touches_nothing_else(size: int) -> None:
    """Lanes ask for 0 .. size bytes; those that ask for none have a wild address."""
    n = 32
    wanted = (np.arange(n, dtype=np.uint32) * 5) % (size + 1)
    raw = rng.integers(1, 255, n * size, dtype=np.uint8)
    stop = n * size - size + int(wanted[-1])  # the last lane's bytes end the allocation
    memory = raw[:stop].copy()
    units = size // 4
    reads = "".join(f"ld.shared.u32 %d{i}, [%r90+{4 * i}];" for i in range(units))
    text = f"""{NEXT.format(n=size)} {SOURCE.format(n=size)}
        setp.eq.u32 %p0, %a0, 0; @%p0 mov.u64 %l91, 64;
        cp.async.ca.shared.global.L2::128B [%r90], [%l91], {size}, %a0;
        cp.async.wait_all; {reads}"""
    got = run(text, [wanted], [np.uint32] * units, memory=memory, shared=n * size)
    have = np.stack(got, 1).view(np.uint8).reshape(n, size)
    padded = np.concatenate([memory, np.zeros(n * size - stop, np.uint8)]).reshape(n, size)
    want = np.where(np.arange(size) < wanted[:, None], padded, 0)
    assert (have == want).all()


def test_ignored_sources_and_cache_policies() -> None:
    data = words(32)
    text = f"""{NEXT.format(n=4)} {SOURCE.format(n=4)}
        createpolicy.fractional.L2::evict_last.b64 %l1, 0f3F800000;
        setp.ge.u32 %p0, %i, 20; @%p0 mov.u64 %l91, 64;
        cp.async.ca.shared.global.L2::cache_hint [%r90], [%l91], 4, %p0, %l1;
        cp.async.wait_all; ld.shared.u32 %d0, [%r90];"""
    (got,) = run(text, [words(32)], [np.uint32], memory=data, shared=128)
    assert (got == np.where(np.arange(32) < 20, data, 0)).all()


def test_guarded_and_divergent_copies() -> None:
    data = words(40)
    text = f"""{NEXT.format(n=4)} {SOURCE.format(n=4)} st.shared.u32 [%r90], 3;
        and.b32 %r0, %a0, 1; setp.ne.u32 %p0, %r0, 0;
        @%p0 cp.async.ca.shared.global [%r90], [%l91], 4;
        cp.async.commit_group;
        setp.lt.u32 %p1, %i, 8; @%p1 bra SOME; bra END;
        SOME: cp.async.wait_group 0;
        END: ld.shared.u32 %d0, [%r90]; cp.async.wait_all; ld.shared.u32 %d1, [%r90];"""
    odd = words(40)
    early, late = run(text, [odd], [np.uint32] * 2, memory=data, shared=160)
    want = np.where(odd & 1, data, 3)
    assert (late == want).all()
    assert (early == np.where(np.arange(40) < 8, want, 3)).all()


def test_more_copies_than_the_ring_holds() -> None:
    data = words(32 * 200)
    text = f"""{NEXT.format(n=4)} {SOURCE.format(n=4)} mov.u32 %r1, 0;
        AGAIN: cp.async.ca.shared.global [%r90], [%l91], 4; cp.async.commit_group;
        add.u64 %l91, %l91, 128; add.u32 %r90, %r90, 128; add.u32 %r1, %r1, 1;
        setp.lt.u32 %p0, %r1, 200; @%p0 bra AGAIN;
        cp.async.wait_group 0; bar.sync 0;
        mov.u32 %r2, pool; mov.u32 %r3, 0; mov.u32 %d0, 0; mul.lo.u32 %r4, %i, 800;
        add.u32 %r2, %r2, %r4;
        SUM: ld.shared.u32 %r5, [%r2]; xor.b32 %d0, %d0, %r5; add.u32 %r2, %r2, 4;
        add.u32 %r3, %r3, 1; setp.lt.u32 %p0, %r3, 200; @%p0 bra SUM;"""
    (got,) = run(text, [words(32)], [np.uint32], memory=data, shared=128 * 200)
    assert (got == np.bitwise_xor.reduce(data.reshape(32, 200), axis=1)).all()


@pytest.mark.parametrize(
    ("target", "source"), [("add.u32 %r90, %r90, 2;", ""), ("", "add.u64 %l91, %l91, 4096;")]
)
def test_wrong_addresses_are_errors(target: str, source: str) -> None:
    text = f"""{NEXT.format(n=4)} {SOURCE.format(n=4)} {target} {source}
        cp.async.ca.shared.global [%r90], [%l91], 4; cp.async.wait_all;"""
    with pytest.raises(weft.errors.Error):
        run(text, [words(32)], [np.uint32], memory=words(32), shared=256)


@pytest.mark.parametrize("size", [4, 8, 16])
@pytest.mark.parametrize("waiting", [32, 20], ids=["all wait", "some wait"])
def test_swizzled_targets(size: int, waiting: int) -> None:
    """All lanes copy, to places that are known only at run time; perhaps not all wait at once."""
    n, k = 32, size // 4
    data = words(n * k)
    text = f"""mov.u32 %r90, pool; xor.b32 %r91, %a0, 5; mul.lo.u32 %r91, %r91, {size};
        add.u32 %r90, %r90, %r91; {SOURCE.format(n=size)}
        st.shared.u32 [%r90+{size - 4}], 7;
        cp.async.ca.shared.global [%r90], [%l91], {size};
        setp.lt.u32 %p9, %i, {n - waiting};
        @%p9 bra LOOK;
        cp.async.wait_all;
    LOOK:
        ld.shared.u32 %d0, [%r90+{size - 4}];
        cp.async.wait_all;
        ld.shared.u32 %d1, [%r90+{size - 4}];"""
    lanes = rng.permutation(n).astype(np.uint32)
    before, after = run(text, [lanes], [np.uint32] * 2, memory=data, shared=n * size)
    mine = data[k - 1 :: k]
    assert (before == np.where(np.arange(n) < n - waiting, 7, mine)).all()
    assert (after == mine).all()


@pytest.mark.parametrize("lane", [0, 13, 31])
@pytest.mark.parametrize("wrong", [2, 4096], ids=["misaligned", "outside"])
def test_one_wrong_target_among_swizzled_ones(lane: int, wrong: int) -> None:
    text = f"""mov.u32 %r90, pool; add.u32 %r90, %r90, %a0; {SOURCE.format(n=4)}
        cp.async.ca.shared.global [%r90], [%l91], 4; cp.async.wait_all; mov.u32 %d0, 0;"""
    places = 4 * rng.permutation(32).astype(np.uint32)
    run(text, [places], [np.uint32], memory=words(32), shared=128)
    places[lane] += wrong
    with pytest.raises(weft.errors.Error, match=rf"thread \({lane}, 0, 0\)"):
        run(text, [places], [np.uint32], memory=words(32), shared=128)


# ---- mbarrier ----------------------------------------------------------------------------------
def test_a_phase_ends_with_the_last_arrival() -> None:
    """Four arrivals are expected; lanes 0..3 arrive one after the other."""
    text = """setp.eq.u32 %p0, %i, 0; mov.u32 %r0, pool;
        @%p0 mbarrier.init.shared.b64 [%r0], 4;
        bar.warp.sync -1;
        mov.u64 %l0, 0;
        setp.lt.u32 %p1, %i, 3;
        @%p1 mbarrier.arrive.shared.b64 %l0, [%r0];
        mbarrier.test_wait.parity.shared.b64 %p2, [%r0], 0; selp.u32 %d0, 1, 0, %p2;
        mbarrier.test_wait.parity.shared.b64 %p2, [%r0], 1; selp.u32 %d1, 1, 0, %p2;
        setp.eq.u32 %p3, %i, 3;
        @%p3 mbarrier.arrive.shared.b64 %l0, [%r0];
        setp.lt.u32 %p4, %i, 4;
        @!%p4 bra END;
        mbarrier.test_wait.shared.b64 %p2, [%r0], %l0; selp.u32 %d2, 1, 0, %p2;
        mbarrier.pending_count.b64 %d3, %l0;
        mbarrier.try_wait.parity.shared.b64 %p2, [%r0], 0; selp.u32 %d4, 1, 0, %p2;
        END:"""
    before, other, done, pending, parity = run(text, [words(32)], [np.uint32] * 5, shared=16)
    assert (before == 0).all() and (other == 1).all()
    assert (done[:4] == 1).all() and (parity[:4] == 1).all()
    assert pending[:4].tolist() == [4, 3, 2, 1]


def test_drop_no_complete_and_byte_counts() -> None:
    text = """mov.u32 %r0, pool; setp.ne.u32 %p0, %i, 0; @%p0 bra END;
        mbarrier.init.shared.b64 [%r0], 3;
        mbarrier.arrive.noComplete.shared.b64 %l0, [%r0], 2;
        mbarrier.arrive_drop.shared.b64 %l0, [%r0];
        mbarrier.test_wait.parity.shared.b64 %p2, [%r0], 0; selp.u32 %d0, 1, 0, %p2;
        mbarrier.arrive.shared.b64 %l0, [%r0]; mbarrier.pending_count.b64 %d1, %l0;
        mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r0], 96;
        mbarrier.test_wait.parity.shared.b64 %p2, [%r0], 1; selp.u32 %d2, 1, 0, %p2;
        mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r0], 96;
        mbarrier.test_wait.parity.shared.b64 %p2, [%r0], 1; selp.u32 %d3, 1, 0, %p2;
        mbarrier.inval.shared.b64 [%r0];
        END:"""
    got = run(text, [words(32)], [np.uint32] * 4, shared=16)
    assert [x[0] for x in got] == [1, 2, 0, 1]


def test_copies_arrive_at_a_barrier() -> None:
    data = words(64)
    text = f"""{NEXT.format(n=4)} {SOURCE.format(n=4)} mov.u32 %r0, pool;
        add.u32 %r90, %r90, 16;
        setp.eq.u32 %p0, %i, 0; @%p0 mbarrier.init.shared.b64 [%r0], 64; bar.sync 0;
        cp.async.ca.shared.global [%r90], [%l91], 4;
        cp.async.mbarrier.arrive.noinc.shared.b64 [%r0];
        WAIT: mbarrier.test_wait.parity.shared.b64 %p1, [%r0], 0; @!%p1 bra WAIT;
        xor.b32 %r1, %i, 63; shl.b32 %r1, %r1, 2; add.u32 %r1, %r1, %r0;
        ld.shared.u32 %d0, [%r1+16];"""
    (got,) = run(text, [words(64)], [np.uint32], memory=data, shared=1024)
    assert (got == data[::-1]).all()


PIPELINE = r"""
#include <cuda_pipeline.h>
#include <cuda/barrier>
extern "C" __global__ void staged(const float4* x, float4* y, int n) {
    __shared__ float4 stage[3][64];
    int t = threadIdx.x, tiles = n / 64;
    for (int s = 0; s < 2; s++) {
        if (s < tiles) __pipeline_memcpy_async(&stage[s][t], &x[s * 64 + t], 16);
        __pipeline_commit();
    }
    for (int i = 0; i < tiles; i++) {
        int j = i + 2;
        if (j < tiles) __pipeline_memcpy_async(&stage[j % 3][t], &x[j * 64 + t], 16);
        __pipeline_commit();
        __pipeline_wait_prior(2);
        __syncthreads();
        y[i * 64 + t] = stage[i % 3][63 - t];
        __syncthreads();
    }
}
#pragma nv_diag_suppress static_var_with_dynamic_init
extern "C" __global__ void meet(int* x, int rounds) {
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    if (threadIdx.x == 0) init(&bar, blockDim.x);
    __syncthreads();
    for (int r = 0; r < rounds; r++) {
        int v = x[(threadIdx.x + 1) % blockDim.x];
        bar.arrive_and_wait();
        x[threadIdx.x] = v + 1;
        bar.arrive_and_wait();
    }
}
"""


@pytest.fixture(scope="module")
def kernels() -> weft.Module:
    return weft.cuda(PIPELINE)


def test_a_pipeline_of_three_stages(kernels: weft.Module) -> None:
    x = rng.random((10 * 64, 4), dtype=np.float32)
    y = np.zeros_like(x)
    kernels.staged[1, 64](x, y, len(x))
    assert (y.reshape(10, 64, 4) == x.reshape(10, 64, 4)[:, ::-1]).all()


def test_warps_meet_at_a_cuda_barrier(kernels: weft.Module) -> None:
    x = np.arange(100, dtype=np.int32)
    kernels.meet[1, 100](x, 7)
    assert (x == np.roll(np.arange(100), -7) + 7).all()
