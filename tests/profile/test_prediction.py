"""Predicted times: what bounds a launch, where warps wait, samples of blocks, the verb, errors."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import weft
from weft.cli import app
from weft.device import models
from weft.measure.profile.prediction import judge
from weft.measure.profile.prediction.constants import FITTED
from weft.measure.profile.prediction.demand import demand, demand_of_sample, kept
from weft.measure.profile.prediction.duration import duration, joined, times
from weft.measure.profile.sampling.blocks import sampling, spread

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import prediction_tables  # noqa: E402

pytestmark = pytest.mark.sim

SOURCE = r"""
__global__ void add(const float* x, const float* y, float* z) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    z[i] = x[i] + y[i];
}
__global__ void multiply(const float* x, float* z, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float a = x[i], b = a, c = a, d = a;
    for (int k = 0; k < rounds; k++) {
        a = a * a + 1.0f;
        b = b * b + 2.0f;
        c = c * c + 3.0f;
        d = d * d + 4.0f;
    }
    z[i] = a + b + c + d;
}
__global__ void chase(const int* next, int* out, int steps) {
    int at = 0;
    for (int k = 0; k < steps; k++) at = next[at];
    *out = at;
}
__global__ void staged(const float* x, float* z) {
    __shared__ float s[256];
    s[threadIdx.x] = x[blockIdx.x * 256 + threadIdx.x];
    __syncthreads();
    z[blockIdx.x * 256 + threadIdx.x] = s[255 - threadIdx.x];
}
__global__ void in_turn(const float* x, float* z, volatile int* done) {
    if (threadIdx.x == 0 && blockIdx.x > 0)
        while (done[blockIdx.x - 1] == 0) {}
    __syncthreads();
    z[blockIdx.x * 32 + threadIdx.x] = x[blockIdx.x * 32 + threadIdx.x];
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) done[blockIdx.x] = 1;
}
__global__ void drawn(const float* x, float* z, int* next, int tiles, int first) {
    __shared__ int tile;
    if (threadIdx.x == 0) tile = blockIdx.x;
    for (bool draws = !first;; draws = true) {
        __syncthreads();
        if (draws && threadIdx.x == 0) tile = atomicAdd(next, 1) + first * gridDim.x;
        __syncthreads();
        if (tile >= tiles) return;
        z[tile * 256 + threadIdx.x] = 2 * x[tile * 256 + threadIdx.x];
    }
}
__global__ void met(const float4* x, float4* z) {
    __shared__ float4 s[1024];
    float4 sum = x[threadIdx.x];
    for (int k = 0; k < 16; k++) {
        s[threadIdx.x] = x[(blockIdx.x * 16 + k) * 1024 + threadIdx.x];
        __syncthreads();
        float4 v = s[1023 - threadIdx.x];
        for (int n = 0; n < 64; n++) sum.x = sum.x * v.x + v.y, sum.y = sum.y * v.z + v.w;
        __syncthreads();
    }
    z[blockIdx.x * 1024 + threadIdx.x] = sum;
}
__global__ void twice(const float4* x, float4* z, int n) {
    float4 sum = make_float4(0, 0, 0, 0);
    for (int k = 0; k < 2 * n; k += 1024) sum.x += x[(k + threadIdx.x) % n].x;
    z[blockIdx.x * 1024 + threadIdx.x] = sum;
}
__global__ void long_code(float* x) {
    float sum = x[threadIdx.x];
#pragma unroll
    for (int k = 0; k < 500; k++) sum = sum * sum + float(k);
    x[threadIdx.x] = sum;
}
__global__ void empty() {}
__global__ void empty_early() {
    asm volatile("griddepcontrol.launch_dependents;");
    asm volatile("griddepcontrol.wait;" ::: "memory");
}
#include <weft/tma.cuh>
#include <weft/barrier.cuh>
__global__ void copied(const float* x, float* z) {
    __shared__ __align__(128) float tile[256];
    __shared__ weft::Barrier full;
    if (threadIdx.x == 0) full.init(1);
    __syncthreads();
    if (threadIdx.x == 0) {
        full.arrive_expecting(sizeof tile);
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
            " [%0], [%1], %2, [%3];"
            ::"r"(weft::shared_address(tile)), "l"(x + blockIdx.x * 256), "r"(int(sizeof tile)),
            "r"(weft::shared_address(&full)) : "memory");
    }
    full.wait(0);
    z[blockIdx.x * 256 + threadIdx.x] = tile[threadIdx.x];
}
"""
BLOCKS, FEW = 8192, 512
N = 256 * BLOCKS


@pytest.fixture(scope="module")
def kernels() -> weft.Module:
    return weft.cuda(SOURCE, name="prediction.cu")


@pytest.fixture(scope="module")
def added(kernels: weft.Module) -> weft.Profile:
    return weft.profile(kernels.add[BLOCKS, 256], *(np.ones(N, np.float32) for _ in range(3)))


def test_a_stream_is_bound_by_memory(added: weft.Profile) -> None:
    said = added.predicted
    least = 3 * 4 * N / (models.get("h200").memory_gb_per_s * 1e9)
    assert said.bound == "DRAM"
    assert least < dict(said.units)["DRAM"] < 1.5 * least
    assert said.seconds > max(seconds for _, seconds in said.units)
    assert said.judged and said.kernel == "add" and said.gpu == "h200"
    assert duration(added) == said.seconds


def test_products_are_bound_by_arithmetic(kernels: weft.Module) -> None:
    x, z = np.ones(256 * FEW, np.float32), np.zeros(256 * FEW, np.float32)
    short, long = (weft.profile(kernels.multiply[FEW, 256], x, z, n) for n in (40, 400))
    said = long.predicted
    assert said.bound in ("fp32", "instructions")
    assert 5 < (said.seconds - FITTED.launch) / (short.predicted.seconds - FITTED.launch) < 11
    loop = said.stalls[0]
    assert loop.quote.strip().endswith(("1.0f;", "2.0f;", "3.0f;", "4.0f;"))
    assert sum(line.share for line in said.stalls) == pytest.approx(1, abs=0.01)


def test_a_chain_of_loads_is_bound_by_latency(kernels: weft.Module) -> None:
    steps = 500
    next_place = np.roll(np.arange(steps * 64, dtype=np.int32), -64)
    p = weft.profile(kernels.chase[1, 32], next_place, np.zeros(1, np.int32), steps)
    said = p.predicted
    clocks = said.seconds * models.get("h200").boost_mhz * 1e6 / steps
    assert said.bound == "latency" and 287 < clocks < 1000
    worst = said.stalls[0]
    assert "next[at]" in worst.quote and next(iter(worst.reasons)) == "long scoreboard"
    assert worst.share > 0.9


def test_a_barrier_has_its_own_stall(kernels: weft.Module) -> None:
    x, z = np.ones(512, np.float32), np.zeros(512, np.float32)
    said = weft.profile(kernels.staged[2, 256], x, z).predicted
    quotes = {line.quote.strip(): line for line in said.stalls}
    assert "barrier" in quotes["__syncthreads();"].reasons


def test_an_empty_launch_takes_the_time_of_a_launch(kernels: weft.Module) -> None:
    said = weft.profile(kernels.empty[1, 32]).predicted
    assert said.bound == "launch" and said.seconds < 2 * FITTED.launch


def test_other_gpus_have_their_rates(added: weft.Profile) -> None:
    t4, h200 = added.predict("t4"), added.predicted
    assert t4.gpu == "t4" and not t4.judged and t4.seconds > 2 * h200.seconds
    with pytest.raises(weft.LaunchError, match="no such GPU model"):
        added.predict("h2000")


def test_several_launches_are_one_on_average(added: weft.Profile) -> None:
    from weft.measure.profile import merge

    twice = merge.add(added, added)
    assert twice.predicted.seconds == pytest.approx(added.predicted.seconds)
    assert twice.predicted.launches == 2


# ---- samples of blocks ---------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("total", "cluster", "wanted"),
    [(1, 1, 32), (7, 1, 32), (1000, 1, 32), (1000, 1, 3), (64, 4, 32), (64, 8, 8)],
)
def test_ranges_are_clusters_inside_of_the_grid(total: int, cluster: int, wanted: int) -> None:
    found = spread(total, cluster, wanted, (0.618, 0.236, 0.854, 0.472))
    blocks = [n for part in found for n in part]
    assert len(set(blocks)) == len(blocks) and max(blocks) < total
    assert len(blocks) <= max(wanted, cluster) and found
    assert all(part.start % cluster == 0 and len(part) % cluster == 0 for part in found)


def test_some_blocks_predict_all(kernels: weft.Module, added: weft.Profile) -> None:
    model = models.get("h200")
    with sampling(model) as found:
        kernels.add[BLOCKS, 256](*(np.ones(N, np.float32) for _ in range(3)))
    (one,) = found.launches
    assert one.blocks < BLOCKS and one.profile.launch.blocks == BLOCKS
    some, whole = demand_of_sample(one, model), demand(added, model)
    assert some.units == pytest.approx(whole.units, rel=0.02)
    assert some.latency == pytest.approx(whole.latency, rel=0.02)


def test_blocks_that_wait_for_others_run_from_the_first(kernels: weft.Module) -> None:
    arrays = [np.ones(32 * 64, np.float32), np.zeros(32 * 64, np.float32), np.zeros(64, np.int32)]
    with sampling(models.get("h200")) as found:
        kernels.in_turn[64, 32](*arrays)
    (one,) = found.launches
    assert 0 < one.blocks < 64
    assert arrays[2][: one.blocks].all() and not arrays[2][one.blocks :].any()


@pytest.mark.parametrize("first", [0, 1], ids=["all tiles", "all but the first"])
def test_blocks_that_draw_their_work_have_done_all_of_it(kernels: weft.Module, first: int) -> None:
    tiles, gpu = 300, models.get("h200")
    x, z = (np.zeros(256 * tiles, np.float32) for _ in range(2))
    with sampling(gpu) as found:
        kernels.drawn[132, 256](x, z, np.zeros(1, np.int32), tiles, first)
    (one,) = found.launches
    p = weft.profile(kernels.drawn[132, 256], x, z, np.zeros(1, np.int32), tiles, first)
    some, whole = demand_of_sample(one, gpu), demand(p, gpu)
    assert some.units["L2"] == pytest.approx(whole.units["L2"], rel=0.1)
    assert some.latency == pytest.approx(whole.latency, rel=0.1)


def test_blocks_that_stay_read_the_same_bytes_at_the_same_time(kernels: weft.Module) -> None:
    n, gpu = 1 << 19, models.get("t4")  # twice as much as L2 has
    x, z = np.zeros((n, 4), np.float32), np.zeros((40 * 1024, 4), np.float32)
    with sampling(gpu) as found:
        kernels.twice[40, 1024](x, z, n)
    (one,) = found.launches
    least = (2 * x.nbytes + z.nbytes) / (gpu.memory_gb_per_s * 1e9)
    assert demand_of_sample(one, gpu).units["DRAM"] == pytest.approx(least, rel=0.1)


def test_units_are_idle_while_a_block_meets_at_barriers(kernels: weft.Module) -> None:
    x, z = np.zeros((132 * 16 * 1024, 4), np.float32), np.zeros((132 * 1024, 4), np.float32)
    with sampling(models.get("h200")) as found:
        kernels.met[132, 1024](x, z)
    (one,) = found.launches
    asked = demand_of_sample(one, models.get("h200"))
    # Loads and arithmetic of 16 rounds follow one another, by nearly all of their own time.
    assert asked.latency > 0.8 * (asked.units["DRAM"] + asked.units["fp32"])


def test_code_is_fetched_when_it_runs_for_the_first_time(kernels: weft.Module) -> None:
    gpu, x = models.get("h200"), np.zeros(32, np.float32)
    p = weft.profile(kernels.long_code[1, 32], x)
    assert 500 < demand(p, gpu).code * gpu.boost_mhz * 1e6 < 550
    free = replace(FITTED, fetch=0.0)
    asked = demand(p, gpu)
    saved = joined(times(asked), FITTED) - joined(times(asked, free), free)
    assert saved == pytest.approx(asked.code * FITTED.fetch, rel=0.2)


def test_what_the_launch_before_left_in_l2(kernels: weft.Module) -> None:
    gpu = models.get("h200")
    small, large = (np.ones(n, np.float32) for n in (1 << 16, 1 << 24))
    one = weft.profile(kernels.add[1 << 8, 256], small, small.copy(), small.copy())
    several = replace(one, launches=2)
    assert kept([one], gpu) == 0 and kept([one, one], gpu) == kept([several], gpu) == 1
    wide = weft.profile(kernels.add[1 << 16, 256], large, large.copy(), large.copy())
    assert kept([one, wide], gpu) == 0
    assert "DRAM" in demand(one, gpu).units and "DRAM" not in demand(one, gpu, 1.0).units


def test_early_launches_and_the_copy_engine_have_factors_of_their_own(kernels: weft.Module) -> None:
    late, early = (weft.profile(k[1, 32]) for k in (kernels.empty, kernels.empty_early))
    saved = late.predicted.seconds - early.predicted.seconds
    assert saved == pytest.approx(FITTED.launch - FITTED.early, rel=0.1)
    x = np.zeros(256 * 64, np.float32)
    p = weft.profile(kernels.copied[64, 256], x, np.zeros_like(x), device="sim:h200")
    units = demand(p, models.get("h200")).units
    assert units["L2 (copies)"] == pytest.approx(units["L2"])  # as much is stored as is copied
    assert "L2 (copies)" not in dict(p.predicted.units)


# ---- the judge -----------------------------------------------------------------------------------
def _row(rung: str, measured: float, seconds: float) -> dict[str, Any]:
    launch = {"units": {}, "latency": seconds / FITTED.latency, "wave": 0.0}
    return {"ladder": "l", "rung": rung, "case": "n=1", "measured": measured, "launches": [launch]}


def test_the_judge_counts_errors_and_pairs() -> None:
    rows = [_row("a", 1.0, 1.1), _row("b", 2.0, 2.0), _row("c", 3.0, 1.5), _row("d", 1.05, 4.0)]
    found = judge.judge(rows)
    assert found.rows == 4 and found.within == 0.5
    # a and d differ by less than 10 %, so five pairs are left; two of b-c, b-d, c-d are wrong.
    assert found.pairs == 5 and found.ordered == pytest.approx(2 / 5)
    assert judge.rank_correlation(rows[:2]) is None
    assert judge.rank_correlation([*rows[:2], _row("e", 9.0, 9.0)]) == 1


def test_all_sizes_of_a_rung_are_on_one_side() -> None:
    sides: dict[tuple[str, str], set[bool]] = {}
    for row in prediction_tables.rows():
        sides.setdefault((row["ladder"], row["rung"]), set()).add(judge.is_for_fit(row))
    assert all(len(side) == 1 for side in sides.values())
    part = sum(side == {True} for side in sides.values()) / len(sides)
    assert 0.2 < part < 0.47


def test_units_join_to_more_than_the_busiest() -> None:
    assert joined({}, FITTED) == FITTED.launch
    alone, both = (joined({"DRAM": 1.0, "L2": other}, FITTED) for other in (0.0, 1.0))
    assert alone == pytest.approx(1 + FITTED.launch) and alone < both < 2
    sharp = replace(FITTED, sharpness=50.0)
    assert joined({"DRAM": 1.0, "L2": 0.9}, sharp) == pytest.approx(1, abs=0.01)


# ---- the verb ------------------------------------------------------------------------------------
def _weft(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["predict", *words])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def record(added: weft.Profile, tmp_path: Path) -> str:
    added.save(tmp_path / "added.json")
    return str(tmp_path / "added.json")


def test_the_verb_predicts_on_several_gpus(record: str) -> None:
    code, out, _ = _weft(record, "--on", "h200,RTX 4090")
    assert code == 0 and "rtx4090 was never measured" in out and "add on h200" in out
    code, out, _ = _weft(record, "--on", "h200,a100,h200", "--json")
    found = json.loads(out)
    assert code == 0 and list(found["gpus"]) == ["h200", "a100"]
    ((h200, a100),) = found["launches"]
    assert h200["seconds"] < a100["seconds"] and h200["judged"] and not a100["judged"]


@pytest.mark.parametrize(
    ("words", "said"),
    [(("--on", "h2000"), "no such GPU model"), (("--on", ", "), "--on names no GPU")],
)
def test_a_wrong_gpu_is_an_error(record: str, words: tuple[str, ...], said: str) -> None:
    code, _, err = _weft(record, *words)
    assert code == 1 and said in err


def _refused(path: Path) -> str:
    """The verb's message for a script that fails; a process that runs a script keeps its hooks."""
    command = [sys.executable, "-m", "weft", "predict", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    return done.stderr


def test_a_file_without_launches_is_an_error(tmp_path: Path) -> None:
    quiet = tmp_path / "quiet.py"
    quiet.write_text("print('nothing to do')\n")
    assert "no launch was profiled" in _refused(quiet)


def test_a_kernel_that_fails_is_an_error(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text(
        "import numpy as np, weft\n"
        'k = weft.cuda("__global__ void out(float* x) { x[64 + threadIdx.x] = 1; }").out\n'
        "k[1, 32](np.zeros(32, np.float32))\n"
    )
    err = _refused(bad)
    assert "out" in err and "Predicted" not in err
