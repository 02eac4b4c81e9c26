"""Measures tensor copies (TMA) of the simulated GPU beside copies of the same tiles by NumPy.

    python benchmarks/tensor_copies.py [--record]

One block copies all tiles of a matrix that is in the cache, one by one, and waits for each.
NumPy copies the same tiles, and the matrix as a whole (memcpy). All use one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

os.environ |= {"WEFT_THREADS": "1", "WEFT_DRAFTS": "0"}

import numpy as np

import weft

RECORDS = Path(__file__).with_name("records") / "tensor_copies.jsonl"
ROWS, COLUMNS, TIMES, CALLS = 1024, 512, 8, 8
SOURCE = r"""
struct alignas(64) CUtensorMap { unsigned long long opaque[16]; };
extern "C" __global__ void tiles(const __grid_constant__ CUtensorMap map, unsigned* y, int times,
                                 int rows, int columns, int high, int wide, int bytes) {
    extern __shared__ __align__(1024) unsigned char tile[];
    __shared__ unsigned long long full;
    unsigned bar = __cvta_generic_to_shared(&full), dst = __cvta_generic_to_shared(tile);
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(bar));
    __syncthreads();
    int phase = 0;
    for (int i = 0; i < times; i++)
        for (int row = 0; row < rows; row += high)
            for (int column = 0; column < columns; column += wide, phase ^= 1) {
                if (threadIdx.x == 0) {
                    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;"
                                 :: "r"(bar), "r"(bytes));
                    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global"
                                 ".mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                                 :: "r"(dst), "l"(&map), "r"(column), "r"(row), "r"(bar)
                                 : "memory");
                }
                unsigned done = 0;
                while (!done)
                    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2;"
                                 " selp.u32 %0, 1, 0, p; }"
                                 : "=r"(done) : "r"(bar), "r"(phase) : "memory");
            }
    y[threadIdx.x] = tile[threadIdx.x];
}
"""


def gigabytes_per_second(call: Callable[[], object], nbytes: int) -> float:
    """The best of seven runs, in CPU time: other processes may run meanwhile."""
    call()
    best = float("inf")
    for _ in range(7):
        start = time.process_time()
        for _ in range(CALLS):
            call()
        best = min(best, (time.process_time() - start) / CALLS)
    return round(nbytes / best / 1e9, 2)


def main() -> None:
    """Print a row for each tile; `--record` keeps them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true")
    record = parser.parse_args().record
    kernel = weft.cuda(SOURCE, arch="sm_90a", device="sim:h200").kernel("tiles")
    x = np.random.default_rng(0).integers(0, 2**16, (ROWS, COLUMNS), dtype=np.uint16)
    y, whole = np.zeros(32, np.uint32), np.empty_like(x)
    memcpy = gigabytes_per_second(lambda: np.copyto(whole, x), x.nbytes)
    for (high, wide), swizzle in (((128, 64), 128), ((128, 64), 0), ((64, 256), 0)):
        made = weft.tensor_map(x, (high, wide), swizzle=swizzle)
        one = np.empty((high, wide), np.uint16)
        launch = kernel[1, 32, made.nbytes + 1024]

        def by_tma(launch=launch, made=made, high=high, wide=wide) -> None:  # type: ignore[no-untyped-def]
            launch(made, y, TIMES, ROWS, COLUMNS, high, wide, made.nbytes)

        def by_numpy(one=one, high=high, wide=wide) -> None:  # type: ignore[no-untyped-def]
            for row in range(0, ROWS, high):
                for column in range(0, COLUMNS, wide):
                    np.copyto(one, x[row : row + high, column : column + wide])

        found = {
            "tile": [high, wide * 2],
            "swizzle": swizzle,
            "tma": gigabytes_per_second(by_tma, TIMES * x.nbytes),
            "numpy_tiles": gigabytes_per_second(by_numpy, x.nbytes),
            "memcpy": memcpy,
        }
        print(found)
        if record:
            line = {"at": datetime.now(UTC).isoformat(timespec="seconds"), **found}
            with RECORDS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
