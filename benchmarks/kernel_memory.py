"""Measures the memory of a process that compiles, launches and drops many kernels.

    python benchmarks/kernel_memory.py [--record] [--kernels 1000] [--full]

Each kernel has a source of its own. The resident memory is read after every tenth of them. Kernels
are compiled as drafts; `--full` compiles the code of longer launches.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

RECORDS = Path(__file__).with_name("records") / "kernel_memory.jsonl"

SOURCE = """
__global__ void scale_{i}(float *x, int n) {{
    __shared__ float tile[128];
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = k < n ? x[k] : 0;
    __syncthreads();
    if (k < n) x[k] = {i} + tile[127 - threadIdx.x];
}}
"""


def resident() -> float:
    """MiB of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 2**20


def measure(kernels: int) -> list[dict[str, Any]]:
    """A row after the first kernel, and one after every tenth of them."""
    import numpy as np

    import weft

    rows = []
    for i in range(kernels):
        x = np.arange(128, dtype=np.float32)
        kernel = getattr(weft.cuda(SOURCE.format(i=i)), f"scale_{i}")
        kernel[1, 128](x, 128)
        assert np.array_equal(x, i + np.arange(127, -1, -1, dtype=np.float32))
        del kernel
        if i == 0 or (i + 1) % (kernels // 10) == 0:
            gc.collect()
            rows.append({"kernels": i + 1, "mib": round(resident(), 1)})
            print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Measure in a cache of its own, so that every kernel is compiled."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kernels", type=int, default=1000)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    os.environ["WEFT_DRAFTS"] = "0" if options.full else "1"
    with tempfile.TemporaryDirectory() as folder:
        os.environ["WEFT_CACHE_DIR"] = folder
        rows = measure(options.kernels)
    if options.record:
        from simspeed.machine import describe

        when = datetime.now(UTC).isoformat(timespec="seconds")
        code = "full" if options.full else "drafts"
        line = {"when": when, "machine": describe(), "code": code, "rows": rows}
        with RECORDS.open("a") as file:
            file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
