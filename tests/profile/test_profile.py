"""`weft.profile`: whole launches, whose counters can be worked out by hand."""

from __future__ import annotations

import json
import sys
import threading

import numpy as np
import pytest

import weft
from folders import ROOT
from weft.device.sim.run import settings
from weft.measure.profile.session import Recording, recording
from weft.measure.profile.work import work

sys.path.insert(0, str(ROOT / "scripts"))
sys.path.insert(0, str(ROOT / "benchmarks"))

import profile_tables
from profiled.case import Case
from profiled.everyday import CASES

TRANSPOSE = r"""
template <int PAD>
__global__ void transpose(const float* in, float* out, int n) {
    __shared__ float tile[32][32 + PAD];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}
__global__ void columns(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0;
    for (int j = 0; j < 8; j++) s += in[i * 8 + j];
    out[i] = s;
}
__device__ float square(float v) {
    return v * v;
}
__global__ void odd(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i % 2)
        x[i] = square(x[i]);
}
"""


@pytest.fixture(scope="module")
def module() -> weft.Module:
    return weft.cuda(TRANSPOSE)


@pytest.mark.parametrize(("pad", "ways"), [(0, 32), (1, 1)])
def test_bank_conflicts_of_a_transpose(module: weft.Module, pad: int, ways: int) -> None:
    x = np.arange(128 * 128, dtype=np.float32).reshape(128, 128)
    y = np.empty_like(x)
    p = weft.profile(module.kernel(f"transpose<{pad}>")[(4, 4), (32, 8)], x, y, 128)
    assert (y == x.T).all(), "a profiled launch is a launch"
    warps = 128 * 128 // 32
    of = p.totals
    assert of["sim:l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"] == warps * ways
    assert of["sim:l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"] == warps * (ways - 1)
    assert of["sim:l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum"] == warps
    for op in ("ld", "st"):
        assert of[f"sim:l1tex__t_requests_pipe_lsu_mem_global_op_{op}.sum"] == warps
        assert of[f"sim:l1tex__t_sectors_pipe_lsu_mem_global_op_{op}.sum"] == 4 * warps
    assert of["sim:dram__bytes_read.sum"] == x.nbytes


def test_a_strided_load_hits_l1_the_second_time(module: weft.Module) -> None:
    x, y = np.ones(8 * 256, np.float32), np.empty(256, np.float32)
    p = weft.profile(module.columns[2, 128], x, y, 256)
    line = next(line for line in p.lines if "in[i * 8 + j]" in line.quote)
    (load,) = (a for a in line.accesses if a.space == "global")
    assert (load.requests, load.bytes) == (8 * 8, x.nbytes)
    assert load.sectors == 32 * load.requests, "each lane has a sector of its own"
    assert load.sectors_ideal == 4 * load.requests
    assert load.sectors_missed == x.nbytes // 32
    assert p.totals["sim:dram__bytes_read.sum"] == x.nbytes


def test_divergence_and_inlined_lines(module: weft.Module) -> None:
    x = np.full(256, 3.0, np.float32)
    p = weft.profile(module.odd[2, 128], x, 256)
    assert p.totals["sim:ptx__branch_targets_threads_divergent.sum"] == 8
    inlined = next(line for line in p.lines if "return v * v" in line.quote)
    assert inlined.work == {"fp32": 128} and inlined.threads_on == 128
    assert inlined.executions == 8, "half of each warp, and once"


def test_bytes_touched_of_each_array(module: weft.Module) -> None:
    x, y = np.ones(8 * 256, np.float32), np.empty(1000, np.float32)
    p = weft.profile(module.columns[2, 128], x, y, 256)
    touched = {a.name: (a.nbytes, a.read, a.written) for a in p.arrays}
    assert touched == {"in": (8192, 8192, 0), "out": (4000, 0, 1024)}


def test_a_profile_is_plain_data(module: weft.Module) -> None:
    x, y = np.ones(8 * 256, np.float32), np.empty(256, np.float32)
    first = weft.profile(module.columns[2, 128], x, y, 256)
    second = weft.profile(module.columns[2, 128], x, y, 256)
    assert first == second, "the same launch, the same profile"
    data = json.loads(json.dumps(first.to_dict()))
    assert data["launch"]["kernel"] == "columns" and data["gpu"] == "h200"
    assert set(data["modelled"]) <= set(data["totals"])
    assert data["instructions"][0]["executions"] == 8


def test_many_threads_of_the_host_count_the_same(
    module: weft.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    for threads in ("1", "4"):
        monkeypatch.setenv("WEFT_THREADS", threads)
        x, y = np.ones((512, 512), np.float32), np.empty((512, 512), np.float32)
        seen.append(weft.profile(module.kernel("transpose<1>")[(16, 16), (32, 8)], x, y, 512))
    assert seen[0] == seen[1]


def test_ptx_alone_has_a_profile(module: weft.Module) -> None:
    ptx = weft.load_ptx(module.ptx.text)
    x = np.ones(64, np.float32)
    entry = next(n for n in ptx.names if "odd" in n)
    p = weft.profile(ptx.kernel(entry)[1, 64], x, 64)
    same = weft.profile(module.odd[1, 64], x, 64)
    assert p.launch.registers == same.launch.registers and p.instructions  # as ptxas says


def test_a_fault_is_the_fault(module: weft.Module) -> None:
    with pytest.raises(weft.IllegalAddress):
        weft.profile(module.odd[2, 128], np.ones(100, np.float32), 256)


def test_what_cannot_be_profiled_says_so(module: weft.Module) -> None:
    x = np.ones(64, np.float32)
    with pytest.raises(weft.LaunchError, match="kernel with its grid"):
        weft.profile(module.odd, x, 64)  # type: ignore[arg-type]
    with pytest.raises(weft.LaunchError, match="no such block in the grid"):
        weft.profile(module.odd[1, 64], x, 64, block=1)
    with pytest.raises(weft.LaunchError, match="no such device"):
        weft.profile(module.odd[1, 64], x, 64, device="sim:rtx9999")
    with pytest.raises(weft.LaunchError, match="a grid needs blocks"):
        weft.profile(module.odd[0, 64], x, 64)
    big = weft.cuda("extern __shared__ float s[]; __global__ void k(float* x) { x[0] = s[0]; }").k
    with pytest.raises(weft.LaunchError, match="shared memory"):
        weft.profile(big[1, 32, 150_000], x, device="sim:rtx3070")


@pytest.mark.parametrize(
    ("opcode", "unit", "operations"),
    [
        ("fma.rn.f32", "fp32", 2),
        ("add.f64", "fp64", 1),
        ("fma.rn.bf16x2", "fp16", 4),
        ("ex2.approx.ftz.f32", "special", 1),
        ("mad.lo.s32", "integer", 2),
        ("setp.lt.f32", "fp32", 1),
        ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "tensor.bf16", 128),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32", "tensor.f16", 256),
        ("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16", "tensor.bf16", 128),
        ("wmma.load.a.sync.aligned.row.m16n16k16.f16", "memory", 1),
        ("cp.async.cg.shared.global", "memory", 1),
        ("cp.async.wait_all", "sync", 1),
        ("bra", "control", 1),
    ],
)
def test_work_of_an_instruction(opcode: str, unit: str, operations: int) -> None:
    assert work(opcode.split(".")) == (unit, operations)


WALK = r"""
__global__ void walk(const float* x, const int* start, float* y, int steps, int by) {
    int at = start[threadIdx.x];
    float s = 0;
#pragma unroll 1
    for (int k = 0; k < steps; ++k, at += by) s += x[at];
    y[threadIdx.x] = s;
}
"""


@pytest.mark.parametrize(
    ("start", "by"),
    [
        (np.arange(32) // 16 * 512, 1),  # two rows, as in a matmul whose blocks are 16 wide
        (np.arange(32) // 8 * 512 + 500, -1),  # backwards, from the middle of a line
        (np.arange(32) * 40, 3),  # lanes leave their lines at different steps
        (np.arange(32) % 5 * 32 + 8, 8),  # a sector a step
        (np.arange(20) * 64, 1),  # not all lanes
        (np.random.default_rng(0).integers(0, 1500, 32), 2),
    ],
)
def test_lanes_that_walk_together(start: np.ndarray, by: int) -> None:
    steps, x, y = 100, np.ones(2048, np.float32), np.zeros(32, np.float32)
    places = [set((start + k * by) * 4 // 32) for k in range(steps)]
    own = -(-start.size * 4 // 32)  # of the starts themselves, on one line
    args = x, start.astype(np.int32), y, steps, by
    p = weft.profile(weft.cuda(WALK).walk[1, start.size], *args)
    loads = [a for i in p.instructions for a in i.accesses if a.kind == "load"]
    assert sum(a.requests for a in loads) == steps + 1
    assert sum(a.sectors for a in loads) == sum(map(len, places)) + own
    assert sum(a.tags for a in loads) == sum(len({s // 4 for s in p}) for p in places) + 1
    assert sum(a.sectors_missed for a in loads) == len(set().union(*places)) + own


def test_records_hold_what_the_documents_claim() -> None:
    cases = profile_tables.newest("profile_vs_ncu.jsonl")["cases"]
    assert len(cases) >= 30
    unexplained = [
        (case["name"], name)
        for case in cases
        for name, (mine, theirs) in case["both"].items()
        if profile_tables.is_exact(name)
        and mine != theirs
        and profile_tables.reason(name, case["both"], case.get("marks", ())) == "?"
    ]
    assert unexplained == []
    near, some = profile_tables.within()
    assert near >= 0.75 * some
    cost = profile_tables.newest("profile_cost.jsonl")
    assert cost["mean"] <= cost["whole_mean"] <= 3
    assert cost["most_prediction"] <= 0.3
    limits = [n for case in cases for n in case["both"] if n.startswith("launch__occupancy_limit")]
    assert limits, "occupancy is compared too"


RECORDED = [c for c in CASES if c.kernel in ("histogram_shared", "heat", "matmul_tiled")]


@pytest.mark.parametrize("row", RECORDED, ids=lambda c: c.kernel)
def test_a_recorded_launch_counts_as_ncu_did(row: Case) -> None:
    launch = getattr(weft.cuda(row.file), row.kernel)[row.grid, row.block]
    p = weft.profile(launch, *row.make())
    cases = profile_tables.newest("profile_vs_ncu.jsonl")["cases"]
    both = next(c["both"] for c in cases if c["name"] == row.kernel)
    exact = {n: theirs for n, (_, theirs) in both.items() if profile_tables.is_exact(n)}
    assert {n: p.totals[f"sim:{n}"] for n in exact} == exact


def test_a_recording_of_one_thread_leaves_the_others_alone() -> None:
    """A thread that outlives its caller, as after a time limit, keeps its session to itself."""
    module = weft.cuda("__global__ void one(int* y) { y[threadIdx.x] = 1; }")
    started, end = threading.Event(), threading.Event()
    recorder = Recording()

    def record() -> None:
        with recording(recorder, one_thread=True):
            module.one[1, 32](np.zeros(32, np.int32))
            started.set()
            end.wait()

    thread = threading.Thread(target=record)
    thread.start()
    started.wait()
    try:
        assert settings.active() is not recorder
        module.one[1, 32](np.zeros(32, np.int32))
    finally:
        end.set()
        thread.join()
    assert [p.launches for p in recorder.profiles] == [1]
