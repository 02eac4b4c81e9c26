"""Accesses that are counted in closed form, against a count of every lane."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import astuple, dataclass, field

import numpy as np
import pytest

import memory_oracle as oracle
import weft
from weft.device.sim.tools.counters.counting import Counting
from weft.device.sim.tools.counters.lines import HASH
from weft.measure.profile import aggregate

KERNEL = """
template <int AT = 0> __device__ int load(const char* p) {
    int x; asm volatile("ld.global.s8 %0, [%1+%2];" : "=r"(x) : "l"(p), "n"(AT)); return x;
}
template <int AT = 0> __device__ int load(const float* p) {
    int x; asm volatile("ld.global.u32 %0, [%1+%2];" : "=r"(x) : "l"(p), "n"(4 * AT)); return x;
}
template <int AT = 0> __device__ int load(const float4* p) {
    int x, y, z, w;
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4+%5];"
                 : "=r"(x), "=r"(y), "=r"(z), "=r"(w) : "l"(p), "n"(16 * AT));
    return x + y + z + w;
}
template <typename T>
__device__ void touch(const T* a, T* b, int s, int t, int at, int step, int reps, int n) {
    int x = threadIdx.x, y = threadIdx.y, sum = 0;
    if (y * blockDim.x + x >= n) return;
    #pragma unroll 1
    for (int k = 0; k < reps; ++k) {
        const T *row = a + y * s + at + k, *one = a + k * step + at;  // each is read more than once
        sum += load(a + (y * s + x + at + k * step)) + load(row) + load<2>(row);
        sum += load(a + (y * s + x * t + at + k)) + load<1>(row);
        sum += load(one) + load<1>(one) + load(a + ((x == 5 ? 40 * t : x) + at + k));
    }
    b[y * s + x + at] = T();
    if (sum) b[0] = T();
}
extern "C" __global__ void k1(const char* a, char* b, int s, int t, int at, int step, int reps,
                              int n) { touch(a, b, s, t, at, step, reps, n); }
extern "C" __global__ void k4(const float* a, float* b, int s, int t, int at, int step, int reps,
                              int n) { touch(a, b, s, t, at, step, reps, n); }
extern "C" __global__ void k16(const float4* a, float4* b, int s, int t, int at, int step,
                               int reps, int n) { touch(a, b, s, t, at, step, reps, n); }
"""
WIDTHS = (1, 4, 16)
COLUMNS = ("requests", "threads", "sectors", "tags", "tag_wavefronts", "sectors_ideal")
NBYTES = 1 << 17
LINES = 32
"""Lines of the L1 of a block: so few that lines are evicted."""


@dataclass
class Cache:
    """An L1 of one block: sets of the last four lines that came in, each with its sectors."""

    sets: dict[int, list[dict[int, set[int]]]] = field(default_factory=lambda: defaultdict(list))

    def misses(self, lanes: oracle.Lanes) -> int:
        """Sectors that a load does not find, line by line in the order of the lanes."""
        wanted: dict[int, set[int]] = defaultdict(set)
        for a in lanes.values():
            wanted[a >> 7].add(a >> 5 & 3)
        count = 0
        for line, sectors in wanted.items():
            group = self.sets[(line * HASH % 2**64) >> 40 & (LINES // 4 - 1)]
            entry = next((x[line] for x in group if line in x), None)
            if entry is None:
                entry = set()
                group[:] = [{line: entry}, *group][:4]
            count += len(sectors - entry)
            entry |= sectors
        return count


@dataclass(frozen=True)
class Case:
    """The numbers of a launch; an element of thread (x, y) and iteration k for each load."""

    s: int
    t: int
    at: int
    step: int
    reps: int
    n: int

    def loads(self, x: int, y: int, k: int) -> tuple[int, ...]:
        row, one = y * self.s + self.at, k * self.step + self.at
        first, odd = row + x + k * self.step, (40 * self.t if x == 5 else x) + self.at + k
        return first, row + k, row + k + 2, row + x * self.t + k, row + k + 1, one, one + 1, odd

    def stored(self, x: int, y: int) -> int:
        return y * self.s + x + self.at


def _case(rng: np.random.Generator, threads: int) -> Case:
    s, t, at, step = (int(rng.integers(0, n)) for n in (150, 13, 24, 40))
    return Case(
        s=int(rng.choice([s, 0, 16, 64, 512, 512])),
        t=int(rng.choice([t, 1])),
        at=at,
        # Rows that move by whole sectors or lines are where they were, in another line.
        step=int(rng.choice([step, 0, 8, 32, 128])),
        reps=int(rng.integers(1, 12)),
        n=int(rng.choice([threads, threads, rng.integers(1, threads)])),
    )


def _counted(kernel: weft.Kernel, block: tuple[int, int], width: int, case: Case) -> Counter[str]:
    kind = {1: np.int8, 4: np.float32, 16: np.float32}[width]
    a, b = (np.zeros(NBYTES // np.dtype(kind).itemsize, kind) for _ in range(2))
    counting = Counting(l1_lines=LINES, resident=132)
    kernel[1, block].observe(counting, a, b, *astuple(case))
    assert counting.counts is not None
    seen: Counter[str] = Counter()
    for i in aggregate.instructions(counting.counts):
        for x in i.accesses:
            seen.update(
                {f"{x.kind} {name}": getattr(x, name) for name in (*COLUMNS, "sectors_missed")}
            )
    return seen


def _expected(block: tuple[int, int], width: int, case: Case) -> Counter[str]:
    want, cache, threads = Counter[str](), Cache(), min(block[0] * block[1], case.n)

    def count(kind: str, here: oracle.Lanes) -> None:
        counts = oracle.global_access(here, width)
        missed = cache.misses(here) if kind == "load" else counts["sectors"]
        for name, n in {**counts, "sectors_missed": missed}.items():
            want[f"{kind} {name}"] += n

    for warp in range(0, threads, 32):
        places = [divmod(i, block[0]) for i in range(warp, min(warp + 32, threads))]
        for k in range(case.reps):
            for load in zip(*(case.loads(x, y, k) for y, x in places), strict=True):
                count("load", {i: width * at for i, at in enumerate(load)})
        stored = (case.stored(x, y) for y, x in places)
        count("store", {i: NBYTES + width * at for i, at in enumerate(stored)})
    return want


@pytest.mark.parametrize("block", [(16, 6), (8, 8), (32, 2), (24, 3)], ids=str)
def test_rows_and_strides_count_as_their_lanes(
    block: tuple[int, int], seed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEFT_THREADS", "1")  # blocks and warps in their order, as the oracle's L1
    module = weft.cuda(KERNEL)
    rng = np.random.default_rng([int(seed), *block])
    for _ in range(40):
        width, case = int(rng.choice(WIDTHS)), _case(rng, block[0] * block[1])
        seen = _counted(module.kernel(f"k{width}"), block, width, case)
        assert seen == _expected(block, width, case), (width, case)
