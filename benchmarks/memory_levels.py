"""Measures the latency and the throughput of each level of a GPU's memory.

    python benchmarks/memory_levels.py            # a table
    python benchmarks/memory_levels.py --record   # also appended to records/memory_levels.jsonl
    python benchmarks/memory_levels.py --sim      # tries the kernels on the simulated GPU, untimed

Latency: one thread follows a chain of indices, each of which is the address of the next load, so
that no two loads overlap. The chain is one random cycle over lines of 128 bytes; its size decides
which level answers. Throughput: all SMs read an array that fits the L2, or copy one that does not.
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

RECORDS = Path(__file__).parent / "records" / "memory_levels.jsonl"
LINE = 32
"""Elements of 4 bytes in a line of 128 bytes."""
SOURCE = r"""
__device__ unsigned long long nanoseconds() {
    unsigned long long t;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
    return t;
}

template <int LEVEL>  // 0: shared memory, 1: L1, 2: L2 and below
__global__ void chase(const unsigned* next, int count, int steps, long long* out) {
    __shared__ unsigned here[2048];
    if (LEVEL == 0)
        for (int i = 0; i < count; i++) here[i] = next[i];
    unsigned at = 0;
    for (int turn = 0; turn < 2; turn++) {  // the first turn fills the caches
        long long cycles = clock64(), time = nanoseconds();
        for (int i = 0; i < steps; i++)
            at = LEVEL == 0 ? here[at] : LEVEL == 1 ? __ldca(next + at) : __ldcg(next + at);
        out[0] = clock64() - cycles;
        out[1] = nanoseconds() - time;
        out[2] = at;
    }
}

__global__ void chain_of_sums(float a, float b, int steps, long long* out) {
    float x = a;
    for (int turn = 0; turn < 2; turn++) {
        long long cycles = clock64(), time = nanoseconds();
#pragma unroll 32
        for (int i = 0; i < steps; i++) x = x * a + b;
        out[0] = clock64() - cycles;
        out[1] = nanoseconds() - time;
        out[2] = x;
    }
}

__global__ void copy(const float4* x, float4* y, long long count) {
    long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count; i += step)
        y[i] = x[i];
}

__global__ void read(const float4* x, float* y, int count, int times) {
    float sum = 0;
    for (int turn = 0; turn < times; turn++)
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count;
             i += gridDim.x * blockDim.x) {
            float4 v = __ldcg(x + i);
            sum += v.x + v.y + v.z + v.w;
        }
    if (sum == 1e30f) *y = sum;  // never; the loads must not be removed
}
"""
STEPS = 20_000
"""Loads of a turn: more than a cached chain has lines, so that the first turn caches all of it. The
second turn over a longer chain goes on where the first one ended, to lines that are not cached."""
CHAINS = (  # level, template argument, bytes of the chain
    ("shared memory", 0, 8 << 10),
    ("L1 cache", 1, 32 << 10),
    ("L2 cache", 2, 2 << 20),
    ("global memory", 2, 512 << 20),
)


def cycle(nbytes: int, spread: int) -> np.ndarray:
    """Indices that lead once round all lines of an array, in random order."""
    count = nbytes // 4
    order = np.random.default_rng(0).permutation(count // spread).astype(np.uint32) * spread
    order = np.roll(order, -int(np.flatnonzero(order == 0)[0]))  # the chain starts at element 0
    chain = np.zeros(count, np.uint32)
    chain[order] = np.roll(order, -1)
    return chain


def latencies(module: Any, place: Any, steps: int = STEPS) -> dict[str, dict[str, float]]:
    """Level -> cycles and nanoseconds of one dependent load."""
    found = {}
    for level, number, nbytes in CHAINS:
        chain = place(cycle(nbytes, 1 if number == 0 else LINE))
        out = place(np.zeros(3, np.int64))
        module.kernel(f"chase<{number}>")[1, 1](chain, nbytes // 4, steps, out)
        found[level] = _per_step(out, steps)
    out = place(np.zeros(3, np.int64))
    module.chain_of_sums[1, 1](0.5, 1.0, steps, out)
    return {"multiply and add": _per_step(out, steps), **found}


def _per_step(out: Any, steps: int) -> dict[str, float]:
    cycles, time, _ = (int(v) for v in np.asarray(out.cpu() if hasattr(out, "cpu") else out))
    return {"cycles": cycles / steps, "ns": time / steps}


def throughputs(module: Any) -> dict[str, float]:
    """Level -> bytes per second, medians of 15 launches."""
    import torch

    x, y = (torch.zeros(1 << 28, device="cuda") for _ in range(2))
    sms = torch.cuda.get_device_properties(0).multi_processor_count

    def seconds(launch: Any) -> float:
        times = []
        for _ in range(20):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            launch()
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end) / 1e3)
        return statistics.median(times[5:])

    copied = seconds(lambda: module.copy[sms * 16, 512](x, y, x.numel() // 4))
    count, times = (16 << 20) // 16, 40
    cached = seconds(lambda: module.read[sms * 4, 512](x, y, count, times))
    return {"L2 cache": 16 * count * times / cached, "global memory": 8 * x.numel() / copied}


def measure(*, simulated: bool) -> dict[str, Any]:
    module = weft.cuda(SOURCE)
    if simulated:
        return {"latency": latencies(module, lambda a: a, 200), "throughput": {}}
    import torch

    def place(array: np.ndarray) -> Any:
        return torch.from_numpy(array).cuda()

    rounds = [latencies(module, place) for _ in range(5)]
    middle = {
        level: {u: statistics.median(r[level][u] for r in rounds) for u in ("cycles", "ns")}
        for level in rounds[0]
    }
    return {"latency": middle, "throughput": throughputs(module)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--sim", action="store_true")
    given = parser.parse_args()
    found = measure(simulated=given.sim)
    for level, row in found["latency"].items():
        rate = found["throughput"].get(level)
        delivered = f"  {rate / 1e12:.2f} TB/s" if rate else ""
        print(f"{level:18} {row['cycles']:8.1f} cycles {row['ns']:8.1f} ns{delivered}")
    if given.record:
        from weft.device.gpu import system
        from weft.device.gpu.facts import facts

        record = {
            "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "gpu": facts(0).name,
            "driver": system.driver_version(),
            **found,
        }
        with RECORDS.open("a") as file:
            file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
