"""Profiles of Hopper kernels: TMA, multicast, distributed shared memory, products, barriers."""

from __future__ import annotations

import functools
import json
import sys

import numpy as np
import pytest

import weft
from folders import ROOT
from weft.measure.profile import latency
from weft.report.page import page
from weft.values.profile import UNIT_COUNTERS

sys.path.insert(0, str(ROOT / "scripts"))
sys.path.insert(0, str(ROOT / "benchmarks"))

import profile_tables
from profiled.hopper import CASES
from profiled.launches import arguments, launch

pytestmark = pytest.mark.sim
ASKED = "weft__data_bytes_mem_{}.sum"
ARRIVED = "l1tex__m_xbar2l1tex_read_{}_mem_global_op_tma_ld.sum"
LEFT = "l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_{}.sum"
MULTICAST = "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld_dest_multicast.sum"
PEERS = "l1tex__m_xbar2l1tex_read_bytes_mem_dshared_op_{}.sum"
WAITS = "weft__barrier_waits.sum"
DRAM = "dram__bytes_read.sum"


@functools.cache
def profile(title: str) -> weft.Profile:
    """The profile of a launch of `profiled/hopper.py`."""
    (case,) = (c for c in CASES if c.title == title)
    return weft.profile(launch(case), *arguments(case, lambda array: array), device="sim:h200")


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("tile_loads of whole boxes",
         {ASKED.format("global_op_tma_ld"): 32 * 8192, ARRIVED.format("bytes"): 32 * 8192,
          ARRIVED.format("sectors"): 32 * 256, "smsp__sass_inst_executed_op_tma_ld.sum": 32,
          DRAM: 32 * 8192}),
        # each row of 128 bytes is in five sectors; 64 bytes are read from DRAM at a time
        ("tile_loads that begin inside of a sector",
         {ASKED.format("global_op_tma_ld"): 32 * 8192, ARRIVED.format("sectors"): 32 * 64 * 5,
          DRAM: 32 * 64 * 192}),
        # 40 of 64 columns of 496 rows in three sectors; two, or four of 16 rows, are filled
        ("tile_loads across an edge", {ASKED.format("global_op_tma_ld"): 496 * 80,
                                       ARRIVED.format("sectors"): 496 * (3 + 2) + 16 * 4,
                                       "smsp__sass_inst_executed_op_tma_ld.sum": 8}),
        ("tile_stores", {LEFT.format("st"): 8 * 8192, LEFT.format("red"): 8 * 8192,
                         ARRIVED.format("bytes"): 0,
                         "lts__t_sectors_srcunit_tex_op_write.sum": 8 * 256}),
        ("ranges of whole lines", {ARRIVED.format("bytes"): 8 * 8192,
                                   LEFT.format("st"): 8 * 8192, DRAM: 2 * 8 * 8192}),
        # read once, written four times
        ("spread to 4 of 4", {ASKED.format("global_op_tma_ld"): 8 * 4096,
                              MULTICAST: 4 * 8 * 4096, ARRIVED.format("bytes"): 4 * 8 * 4096,
                              DRAM: 8 * 4096}),
        ("spread to 2 of 4", {ASKED.format("global_op_tma_ld"): 8 * 4096,
                              MULTICAST: 2 * 8 * 4096}),
        ("peer_loads of a peer, step 1",
         {ASKED.format("dshared"): 1024 * 20, PEERS.format("ld"): 1024 * 20,
          "smsp__sass_inst_executed_op_dshared_ld.sum": 64}),
        # 28 sectors of 32 words that lie seven words apart
        ("peer_pointers of a peer, step 7",
         {ASKED.format("dshared"): 1024 * 8, PEERS.format("ld"): 32 * 28 * 32,
          PEERS.format("st"): 32 * 28 * 32}),
        # atomics go there and come back
        ("peer_stores of a peer, step 2",
         {ASKED.format("dshared"): 1024 * 12, PEERS.format("st"): 1024 * 8,
          PEERS.format("atom"): 2 * 2 * 1024 * 8}),
        ("peer_sends to a peer",
         {PEERS.format("st"): 1024 * 20, PEERS.format("redas"): 1024 * 4,
          "smsp__sass_inst_executed_op_dshared_stas.sum": 64}),
        ("peer_copies of a part", {ASKED.format("dshared"): 8 * 1072,
                                   PEERS.format("tma_st"): 8 * 34 * 32}),
        # 12 warps at first, the warp that copies and the 8 that multiply in each of 12 steps
        ("products",
         {"sm__inst_executed_pipe_tensor_op_gmma.sum": 12 * 4 * 8,
          "sm__ops_path_tensor_op_hgmma_src_fp16_sparsity_off.sum": 2 * 128 * 16 * 64 * 12,
          "smsp__sass_data_bytes_mem_shared_op_gmma.sum": 12 * 4 * 2 * (2048 + 16 * 32),
          WAITS: 12 + 12 * 9}),
        # of the block, of two warps and in memory, 5 times each, by 4 warps of 8 blocks
        ("barriers", {WAITS: 8 * 4 * (1 + 3 * 5)}),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)  # fmt: skip
def test_totals(title: str, expected: dict[str, int]) -> None:
    totals = profile(title).totals
    assert {name: totals[f"sim:{name}"] for name in expected} == expected


@pytest.mark.parametrize("title", [c.title for c in CASES])
def test_counters_are_those_of_an_h200(title: str) -> None:
    """ncu counted the same launches."""
    cases = profile_tables.newest("profile_vs_ncu.jsonl")["cases"]
    both = next(c["both"] for c in cases if c["name"] == title)
    exact = {n: theirs for n, (_, theirs) in both.items() if profile_tables.is_exact(n)}
    totals = profile(title).totals
    assert {n: totals[f"sim:{n}"] for n in exact} == exact and len(exact) >= 28


@pytest.mark.parametrize(
    "title",
    ["peer_loads of itself, step 1", "peer_stores of itself, step 1",
     "peer_pointers of itself, step 1"],
)  # fmt: skip
def test_memory_of_the_own_block_is_no_distributed_memory(title: str) -> None:
    p = profile(title)
    assert not any("dshared" in name for name in p.totals)
    assert sum(a.bytes for i in p.instructions for a in i.accesses if a.space == "shared")


def test_what_is_sent_to_the_own_block_goes_through_the_network() -> None:
    for name in ("peer_sends", "peer_copies"):
        own, peer = profile(f"{name} to itself").totals, profile(f"{name} to a peer").totals
        assert {k: v for k, v in own.items() if "dshared" in k} == {
            k: v for k, v in peer.items() if "dshared" in k
        }


def test_lines_have_their_bytes_work_and_waits() -> None:
    p = profile("products")
    found = {
        name: {line.quote.partition(",")[0]: of for line in p.lines if (of := counter(line))}
        for name, counter in UNIT_COUNTERS.items()
    }
    assert found["TMA bytes"] == {
        "load_box(shared_address(to.left)": 12 * 128 * 128,
        "load_box(shared_address(to.right)": 12 * 16 * 128,
    }
    assert found["tensor operations"] == {"wgmma<__half>(sums": 2 * 128 * 16 * 64 * 12}
    assert found["barrier waits"] == {
        "__syncthreads();": 12,
        "stages.wait_empty(turn);": 12,
        "stages.wait_full(turn);": 12 * 8,
    }
    assert not found["multicast bytes"] and not found["cluster bytes"]
    (products,) = (a for line in p.lines for a in line.accesses if a.kind == "product load")
    assert products.bytes == 12 * 4 * 2 * (2048 + 16 * 32), "A of 64 rows and B, once a warpgroup"


def test_polls_are_no_work() -> None:
    """Tests in vain depend on the order of warps: the model of time leaves them out."""
    p = profile("products")
    tests = [i for i in p.instructions if "mbarrier.try_wait" in i.opcode]
    assert sum(i.polls for i in tests) == p.totals["sim:weft__barrier_polls.sum"] > 0
    assert "sim:weft__barrier_polls.sum" in p.modelled
    assert [latency.needed(p)[i.index] for i in tests] == [i.waits for i in tests]
    assert sorted(i.waits for i in tests) == [12, 96]


def test_views_show_the_units_that_a_kernel_uses() -> None:
    p = profile("spread to 4 of 4")
    text = str(p)
    assert "TMA: bytes loaded                                    32 KiB" in text
    assert "Multicast: bytes that arrive at SMs                 128 KiB" in text
    assert "tensor" not in text and "Distributed" not in text
    (head,) = (line for line in text.splitlines() if "sect/req" in line)
    assert head.split() == [
        "line", "instr", "sect/req", "wave/req", "lanes", "TMA", "multicast", "waits", "source"
    ]  # fmt: skip
    (row,) = (line for line in text.splitlines() if "load_box_multicast(" in line)
    assert "32 KiB   128 KiB" in row
    html = page([p])
    assert ">multicast</th>" in html and "<option>multicast bytes</option>" in html
    assert ">cluster</th>" not in html
    data = json.loads(json.dumps(p.to_dict()))
    assert data["totals"][f"sim:{MULTICAST}"] == 131072
    assert sum(line["waits"] for line in data["lines"]) == p.totals[f"sim:{WAITS}"]


def test_other_kernels_show_nothing_new() -> None:
    kernel = weft.cuda("__global__ void twice(float* x) { x[threadIdx.x] *= 2; }").twice
    p = weft.profile(kernel[1, 32], np.ones(32, np.float32))
    text = f"{p} {page([p])}"
    assert not any(word in text for word in ("TMA", "Multicast", "Distributed", "waits", "Waits"))
    assert not any("barrier" in name or "tma" in name or "weft" in name for name in p.totals)


MIXED = r"""
#include <cooperative_groups.h>
extern "C" __global__ void __cluster_dims__(2, 1, 1) mixed(unsigned* y) {
    __shared__ unsigned words[32];
    auto cluster = cooperative_groups::this_cluster();
    words[threadIdx.x] = threadIdx.x;
    cluster.sync();
    unsigned there = words[0], at;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) :
        "r"((unsigned)__cvta_generic_to_shared(words + threadIdx.x)), "r"(threadIdx.x % 4 ? 0 : 1));
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(there) : "r"(at) : "memory");
    y[blockIdx.x * 32 + threadIdx.x] = there;
    y[blockIdx.x * 32 + threadIdx.x] += cluster.map_shared_rank(words, threadIdx.x % 2)[0];
    cluster.sync();
}
"""


def test_lanes_in_several_blocks_are_told_apart() -> None:
    """8 lanes read rank 1 and 24 rank 0; then every second one through a pointer."""
    kernel = weft.cuda(MIXED, arch="sm_90a", device="sim:h200").mixed
    p = weft.profile(kernel[2, 32], np.zeros(64, np.uint32))
    loads = [i for i in p.instructions if i.opcode in ("ld.shared::cluster.u32", "ld.u32")]
    assert [{a.space: a.threads for a in i.accesses} for i in loads] == [
        {"cluster": 8 + 24, "shared": 24 + 8},
        {"cluster": 2 * 16, "shared": 2 * 16},
    ]


GUARDED = """.version 8.0
.target sm_80
.address_size 64
.entry k() {
    .reg .pred %p;
    .reg .u32 %t;
    mov.u32 %t, %tid.x;
    setp.lt.u32 %p, %t, 32;
    @%p bar.sync 1, 32;
    bar.sync 0;
    ret;
}
"""


def test_a_barrier_that_a_warp_passes_by_is_not_waited_at() -> None:
    p = weft.profile(weft.load_ptx(GUARDED).k[3, 96])
    assert [i.waits for i in p.instructions if i.opcode.startswith("bar")] == [3, 9]


def test_waits_do_not_depend_on_threads_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    (case,) = (c for c in CASES if c.title == "barriers")
    seen = []
    for threads in ("1", "4"):
        monkeypatch.setenv("WEFT_THREADS", threads)
        seen.append(weft.profile(launch(case), *arguments(case, lambda array: array)))
    assert seen[0] == seen[1]
