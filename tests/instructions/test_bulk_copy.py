"""Bulk copies of sm_90: from CUDA C++, waited for and not, with wrong ranges, by the hundred."""

from __future__ import annotations

import numpy as np
import pytest

import weft

PIPELINE = r"""
#include <cuda/barrier>
#include <cuda/ptx>
namespace ptx = cuda::ptx;
using barrier = cuda::barrier<cuda::thread_scope_block>;

// Tiles come in through two buffers in turn, and go out in bulk.
__global__ void scaled(const float* x, float* y, int tiles, float factor) {
    __shared__ alignas(128) float in[2][256], out[256];
    #pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ barrier full[2];
    if (threadIdx.x == 0) {
        init(&full[0], blockDim.x); init(&full[1], blockDim.x);
        ptx::fence_proxy_async(ptx::space_shared);
    }
    __syncthreads();
    for (int tile = 0; tile < tiles; ++tile) {
        barrier::arrival_token token;
        if (threadIdx.x == 0) {
            cuda::device::memcpy_async_tx(in[tile % 2], x + 256 * tile,
                                          cuda::aligned_size_t<16>(sizeof(out)), full[tile % 2]);
            token = cuda::device::barrier_arrive_tx(full[tile % 2], 1, sizeof(out));
        } else {
            token = full[tile % 2].arrive();
        }
        full[tile % 2].wait(std::move(token));
        out[threadIdx.x] = in[tile % 2][threadIdx.x] * factor;
        ptx::fence_proxy_async(ptx::space_shared);
        __syncthreads();
        if (threadIdx.x == 0) {
            ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, y + 256 * tile, out,
                               sizeof(out));
            ptx::cp_async_bulk_commit_group();
            ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
        }
        __syncthreads();
    }
}
"""

HEAD = """.version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y, .param .u32 n)
{ .reg .b32 %r<8>; .reg .b64 %rd<6>; .reg .pred %p<2>;
  .shared .align 128 .b8 near[4096]; .shared .align 8 .b64 full;
  ld.param.u64 %rd0, [x]; ld.param.u64 %rd1, [y]; ld.param.u32 %r0, [n]; mov.u32 %r1, %tid.x;
  mov.u32 %r2, near; mov.u32 %r3, full; shl.b32 %r4, %r1, 2; add.u32 %r5, %r2, %r4;
  cvt.u64.u32 %rd2, %r4; add.u64 %rd3, %rd1, %rd2; setp.ne.u32 %p0, %r1, 0;
"""
INIT = """@!%p0 mbarrier.init.shared.b64 [full], 1; bar.sync 0;
  @!%p0 mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [full], %r0;
"""
LOAD = """@!%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes
      [near], [%rd0], %r0, [%r3];
"""
WAIT = """again: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p1, [%r3], 0;
  @!%p1 bra again;
"""
READ = "ld.shared.b32 %r6, [%r5]; st.global.b32 [%rd3], %r6;\n"
STORE = """fence.proxy.async; bar.sync 0;
  @!%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [near], %r0;
  @!%p0 cp.async.bulk.commit_group;
"""


def run(body: str, x: np.ndarray, n: int, threads: int = 64) -> np.ndarray:
    """y of a kernel that has `body`."""
    y = np.zeros(len(x), np.uint32)
    weft.load_ptx(f"{HEAD}{body}\nret; }}\n", device="sim:h200").kernel("k")[1, threads](x, y, n)
    return y


X = np.arange(1, 65, dtype=np.uint32)


@pytest.mark.slow  # ten seconds of headers
def test_cuda_pipeline() -> None:
    x = np.arange(5 * 256, dtype=np.float32)
    y = np.zeros_like(x)
    weft.cuda(PIPELINE, arch="sm_90", device="sim:h200").scaled[1, 256](x, y, 5, 3.0)
    np.testing.assert_array_equal(y, 3 * x)


def test_what_is_waited_for_is_there() -> None:
    np.testing.assert_array_equal(run(INIT + LOAD + WAIT + READ, X, 256), X)


def test_what_nobody_waited_for_is_not() -> None:
    clear = "st.shared.b32 [%r5], 0; bar.sync 0;"
    assert not run(clear + INIT + LOAD + "bar.sync 0;" + READ, X, 256).any()


def test_lanes_that_wait_for_different_barriers() -> None:
    body = """.shared .align 8 .b64 odd; .reg .b32 %own; .reg .pred %q;
      @!%p0 mbarrier.init.shared.b64 [full], 1; @!%p0 mbarrier.init.shared.b64 [odd], 1; bar.sync 0;
      @!%p0 mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [full], 64;
      @!%p0 mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [odd], 64;
      @!%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes
          [near], [%rd0], 64, [full];
      add.u64 %rd4, %rd0, 64; mov.u32 %own, odd;
      @!%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes
          [near+64], [%rd4], 64, [odd];
      and.b32 %r7, %r1, 1; setp.ne.u32 %q, %r7, 0; selp.b32 %r3, %own, %r3, %q;
    """
    np.testing.assert_array_equal(run(body + WAIT + READ, X[:32], 128, threads=32), X[:32])


FILL = "add.u32 %r6, %r1, 7; st.shared.b32 [%r5], %r6;"
LATER = "bar.sync 0; st.shared.b32 [%r5], 0;"


@pytest.mark.parametrize("kind", ["wait_group", "wait_group.read"])
def test_store_is_sent_when_waited_for(kind: str) -> None:
    y = run(f"{FILL}{STORE}@!%p0 cp.async.bulk.{kind} 0;{LATER}", X, 256)
    np.testing.assert_array_equal(y, np.arange(7, 71))


def test_store_without_waiting_sends_what_came_later() -> None:
    assert not run(FILL + STORE + LATER, X, 128, threads=32).any()


def test_newest_groups_may_stay_pending() -> None:
    second = STORE.replace("[%rd1]", "[%rd1+128]").replace("%r0;", "128;")
    first = STORE.replace("%r0;", "128;")
    y = run(f"{FILL}{first}{second}@!%p0 cp.async.bulk.wait_group 1;{LATER}", X, 0)
    np.testing.assert_array_equal(y, [*range(7, 39), *[0] * 32])


def test_more_copies_than_the_list_holds() -> None:
    body = f"""{FILL} fence.proxy.async; bar.sync 0; mov.u32 %r6, 0;
      again: setp.ge.u32 %p1, %r6, 100; @%p1 bra done;
      @!%p0 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [near], 256;
      add.u32 %r6, %r6, 1; bra again; done:"""
    np.testing.assert_array_equal(run(body, X, 0), 100 * np.arange(7, 71))


def test_reduction_in_shared_memory() -> None:
    body = f"""{FILL} add.u32 %r6, %r6, 5; st.shared.b32 [%r5+2048], %r6; {INIT}
      @!%p0 cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32
      [near], [near+2048], 256, [full]; {WAIT} {READ}"""
    np.testing.assert_array_equal(run(body, X, 256), 2 * np.arange(7, 71) + 5)


@pytest.mark.parametrize(
    ("body", "n", "error"),
    [
        (INIT + LOAD, 1024, weft.IllegalAddress),  # the end of x
        (INIT + LOAD.replace("[near]", "[near+4000]"), 256, weft.IllegalAddress),
        (INIT + LOAD, 40, weft.errors.MisalignedAddress),  # not a multiple of 16
        (INIT + LOAD.replace("[%rd0]", "[%rd0+4]"), 16, weft.errors.MisalignedAddress),
        (INIT + LOAD.replace("[%r3]", "[%r3+4]"), 16, weft.errors.MisalignedAddress),
    ],
)
def test_wrong_ranges(body: str, n: int, error: type[weft.Error]) -> None:
    with pytest.raises(error, match=r"cp\.async\.bulk|global|shared"):
        run(body, X, n)


def test_hints_and_waits_that_mean_nothing_here() -> None:
    body = """griddepcontrol.wait; griddepcontrol.launch_dependents;
      setmaxnreg.dec.sync.aligned.u32 40; setmaxnreg.inc.sync.aligned.u32 232;
      applypriority.global.L2::evict_normal [%rd0], 128; membar.proxy.alias;
      cp.async.bulk.prefetch.L2.global [%rd0], 256; prefetch.tensormap [%rd0];
      fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;
      fence.proxy.tensormap::generic.acquire.gpu [%rd0], 128;
      fence.acquire.sync_restrict::shared::cluster.cluster;
      createpolicy.range.global.L2::evict_last.L2::evict_unchanged.b64 %rd4, [%rd0], 128, 256;
      ld.mmio.relaxed.sys.global.u32 %r6, [%rd0]; st.global.b32 [%rd3], %r6;"""
    assert (run(body, X, 0) == X[0]).all()


def test_arrive_drop_expects_bytes_and_leaves() -> None:
    """One of two drops out with a copy to come; the next phase needs the other only."""
    body = """@!%p0 mbarrier.init.shared.b64 [full], 2; bar.sync 0;
      @!%p0 mbarrier.arrive_drop.expect_tx.shared::cta.b64 %rd4, [full], 256;
      @!%p0 mbarrier.arrive.shared.b64 %rd4, [full];
      @!%p0 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [full], 256;
      @!%p0 mbarrier.arrive.shared.b64 %rd4, [full]; bar.sync 0;
      mbarrier.test_wait.parity.shared.b64 %p1, [full], 1; selp.u32 %r6, 1, 2, %p1;
      st.global.b32 [%rd3], %r6;"""
    assert (run(body, X, 0) == 1).all()


ODD = """@!%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd1+16], [near], 96;
  @!%p0 cp.async.bulk.commit_group; @!%p0 cp.async.bulk.wait_group 0;"""
EVERY = """shl.b32 %r4, %r1, 6; add.u32 %r5, %r2, %r4;
  cvt.u64.u32 %rd2, %r4; add.u64 %rd3, %rd1, %rd2;
  and.b32 %r6, %r1, 1; shl.b32 %r6, %r6, 4; add.u32 %r6, %r6, 16;
  cp.async.bulk.global.shared::cta.bulk_group [%rd3], [%r5], %r6;
  cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"""
SUM = """@!%p0 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [near], %r0;
  @!%p0 cp.async.bulk.commit_group; @!%p0 cp.async.bulk.wait_group 0;"""
INSIDE = """@!%p0 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes
      [near+1024], [near], %r0, [%r3];
"""


@pytest.mark.parametrize(
    ("body", "n", "expected"),
    [
        (f"{INIT}{LOAD}{WAIT}", 512, [("global", "bulk load", 1, 1, 512, 16, 0),
                                      ("shared", "bulk store", 1, 1, 512, 16, 4)]),
        (f"{STORE}@!%p0 cp.async.bulk.wait_group 0;", 512,
         [("shared", "bulk load", 1, 1, 512, 0, 4), ("global", "bulk store", 1, 1, 512, 16, 0)]),
        # 96 bytes from byte 16 on are in four sectors, three of which would do
        (ODD, 0, [("shared", "bulk load", 1, 1, 96, 0, 1),
                  ("global", "bulk store", 1, 1, 96, 4, 0)]),
        # two warps, each lane with a range of its own: 16 or 32 bytes, a sector each
        (EVERY, 0, [("shared", "bulk load", 2, 64, 1536, 0, 64),
                    ("global", "bulk store", 2, 64, 1536, 64, 0)]),
        (SUM, 256, [("shared", "bulk load", 1, 1, 256, 0, 2),
                    ("global", "bulk reduction", 1, 1, 256, 8, 0)]),
        (f"{INIT}{INSIDE}{WAIT}", 512, [("shared", "bulk load", 1, 1, 512, 0, 4),
                                        ("cluster", "bulk store", 1, 1, 512, 16, 0)]),
        (f"{STORE}@!%p0 cp.async.bulk.wait_group 0;", 0, []),
    ],
    ids=["load", "store", "not on a sector", "a range for each lane", "reduction",
         "in shared memory", "no bytes"],
)  # fmt: skip
def test_bulk_copies_are_counted(body: str, n: int, expected: list[tuple[object, ...]]) -> None:
    x, y = np.ones(1024, np.uint32), np.zeros(1024, np.uint32)
    kernel = weft.load_ptx(f"{HEAD}{body}\nret; }}\n", device="sim:h200").kernel("k")
    p = weft.profile(kernel[1, 64], x, y, n)
    copies = [a for i in p.instructions for a in i.accesses if "bulk" in a.kind]
    assert [
        (a.space, a.kind, a.requests, a.threads, a.bytes, a.sectors, a.wavefronts) for a in copies
    ] == expected
    assert not any(a.conflicts or a.tags for a in copies)
    far = sum(a.bytes for a in copies if a.space == "global")
    assert p.totals["sim:smsp__sass_data_bytes_mem_global.sum"] == far
    assert sum(v for k, v in p.totals.items() if "weft__data_bytes_mem_global" in k) == far
    touched = 32 * sum(a.sectors for a in copies if a.space == "global")
    assert sum(a.touched for a in p.arrays) == touched
    moved = {k: v for k, v in p.totals.items() if "xbar" in k and "bytes_mem_global_op_tma" in k}
    assert sum(moved.values()) == touched


def test_a_bulk_load_reaches_memory_once() -> None:
    """4 KiB through L2; another block that loads them again finds them there."""
    x, y = np.ones(1024, np.uint32), np.zeros(1024, np.uint32)
    body = f"{INIT}{LOAD}{WAIT}"
    kernel = weft.load_ptx(f"{HEAD}{body}\nret; }}\n", device="sim:h200").kernel("k")
    p = weft.profile(kernel[2, 64], x, y, 4096)
    assert p.totals["sim:dram__bytes_read.sum"] == 4096
    assert p.totals["sim:l1tex__m_xbar2l1tex_read_sectors.sum"] == 2 * 4096 // 32
    assert {a.name: (a.read, a.written) for a in p.arrays} == {"arg0": (4096, 0)}


ADDED = """__global__ void added(const unsigned* y, unsigned* z) {
    z[threadIdx.x] = y[threadIdx.x] + 1;
}"""


@pytest.mark.parametrize(("nbytes", "unwritten"), [(256, 0), (128, 32)])
def test_what_a_bulk_copy_writes_is_written(nbytes: int, unwritten: int) -> None:
    """The sanitizer reports the words that the copy left out, and no others."""
    body = f"st.shared.b32 [%r5], %r1;{STORE}@!%p0 cp.async.bulk.wait_group 0;"
    store = weft.load_ptx(f"{HEAD}{body}\nret; }}\n", device="sim:h200").kernel("k")
    y, z = weft.sanitizer.empty(64, np.uint32), np.zeros(64, np.uint32)
    with weft.sanitize(raises=False) as report:
        store[1, 64](np.zeros(64, np.uint32), y, nbytes)
        weft.cuda(ADDED).added[1, 64](y, z)
    assert [(f.kind, f.times) for f in report.findings] == (
        [("uninitialised", unwritten)] if unwritten else []
    )
    assert (z[: nbytes // 4] == np.arange(1, nbytes // 4 + 1)).all()
