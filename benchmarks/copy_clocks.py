"""Measures the clocks of bulk copies (TMA) from global to shared memory, and of shared memory of
another block.

    python benchmarks/copy_clocks.py            # a table
    python benchmarks/copy_clocks.py --record   # also appended to records/copy_clocks.jsonl
    python benchmarks/copy_clocks.py --sim      # tries the kernels on the simulated GPU, untimed

One thread of a block starts copies, which one mbarrier counts, and waits for all of them. The
second turn finds the data in L2; for `global memory` it takes other data, and what L2 has is
replaced before. The latency is that of one copy of 16 bytes. The rate is that of an SM while 8
copies of 16 KiB are under way: on one SM, and on all of them at once. A dependent load of another
block's shared memory gives the last row.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np

import weft

RECORDS = Path(__file__).parent / "records" / "copy_clocks.jsonl"
SOURCE = r"""
#include <weft/barrier.cuh>
using namespace weft;

extern "C" __global__ void copies(const char* x, long long* out, int bytes, int count,
                                  long long apart) {
    extern __shared__ __align__(128) char data[];
    __shared__ Barrier full;
    if (threadIdx.x != 0) return;
    full.init(1);
    publish_barriers();
    for (int turn = 0; turn < 2; ++turn) {
        const char* from = x + turn * apart + (long long)blockIdx.x * bytes * count;
        long long start = clock64();
        full.arrive_expecting(bytes * count);
        for (int i = 0; i < count; ++i)
            asm volatile(
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
                "[%3];" ::"r"(shared_address(data + i * bytes)), "l"(from + i * bytes),
                "r"(bytes), "r"(shared_address(&full)) : "memory");
        full.wait(turn);
        out[blockIdx.x] = clock64() - start;
    }
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) chase(long long* out, int steps) {
    __shared__ unsigned next[256];
    if (threadIdx.x == 0)
        for (int i = 0; i < 256; ++i) next[i] = (i * 5 + 1) % 256;  // all numbers once
    asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
    unsigned there, at = 0;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(there) : "r"(shared_address(next)), "r"(blockIdx.x ^ 1));
    if (threadIdx.x == 0 && blockIdx.x == 0) {
        long long start = clock64();
        for (int i = 0; i < steps; ++i)
            asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(at) : "r"(there + 4 * at));
        out[0] = clock64() - start;
        out[1] = at;
    }
    asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
}
"""
SIZE, COUNT, STEPS = 16 << 10, 8, 2000
APART = 256 << 20
"""Bytes from the data of one turn to that of the next, where L2 shall not have it."""


def clocks(module: Any, x: Any, out: Any, grid: int, size: int, count: int, apart: int) -> float:
    """The clocks of the slowest block's second turn, median of five launches."""
    found = []
    for _ in range(5):
        if apart and hasattr(x, "zero_"):
            x.zero_()  # L2 has the end of `x` then, which is not read
        module.copies[grid, 32, size * count](x, out, size, count, apart)
        found.append(float(_host(out)[:grid].max()))
    return statistics.median(found)


def _host(array: Any) -> Any:
    return np.asarray(array.cpu() if hasattr(array, "cpu") else array)


def measure(module: Any, place: Any, sms: int, *, far: bool) -> dict[str, dict[str, float]]:
    """Level -> latency in clocks, and bytes a clock of an SM, alone and with all SMs."""
    x = place(np.zeros(2 * APART if far else 2 * SIZE * COUNT, np.uint8))
    out = place(np.zeros(max(2, sms), np.int64))
    rows: dict[str, dict[str, float]] = {}
    for level, apart in (("L2", 0), ("global memory", APART if far else SIZE * COUNT)):
        whole = clocks(module, x, out, 1, SIZE, COUNT, apart)
        once = clocks(module, x, out, 1, 16, 1, apart)
        rows[level] = {"clocks": once, "bytes_one_sm": SIZE * COUNT / max(1, whole - once)}
        if far:
            busy = clocks(module, x, out, sms, SIZE, COUNT, apart)
            rows[level]["bytes_each_sm"] = SIZE * COUNT / max(1, busy - once)
    module.chase[2, 32](out, STEPS)
    return rows | {"another block": {"clocks": float(_host(out)[0]) / STEPS}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--sim", action="store_true")
    given = parser.parse_args()
    if given.sim:
        module = weft.cuda(SOURCE, arch="sm_90a", device="sim:h200")
        found = measure(module, lambda a: a, 1, far=False)
    else:
        import torch

        sms = torch.cuda.get_device_properties(0).multi_processor_count
        module = weft.cuda(SOURCE, arch="sm_90a")
        found = measure(module, lambda a: torch.from_numpy(a).cuda(), sms, far=True)
    for level, row in found.items():
        print(f"{level:14}", "  ".join(f"{name} {value:.1f}" for name, value in row.items()))
    if given.record:
        from weft.device.gpu import system
        from weft.device.gpu.facts import facts

        record = {
            "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "gpu": facts(0).name,
            "driver": system.driver_version(),
            "copies": found,
        }
        with RECORDS.open("a") as file:
            file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
