"""The self-test of `weft doctor`: compiles and runs one kernel and prints the time.

`weft doctor` runs it in its own process with an empty cache. Both compilers then have to work, and
a crash does not end the doctor.
"""

from __future__ import annotations

import time

import numpy as np

import weft

SOURCE = r"""
__global__ void saxpy(float a, const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
"""


def main() -> None:
    """Run `saxpy` and compare every element."""
    start = time.perf_counter()
    n = 1000
    x, y = np.arange(n, dtype=np.float32), np.ones(n, np.float32)
    weft.cuda(SOURCE).saxpy[weft.cdiv(n, 256), 256](2.0, x, y, n)
    if not np.array_equal(y, 2 * x + 1):
        raise SystemExit(f"saxpy gave {y[:4]}..., not {(2 * x + 1)[:4]}...")
    print(f"compiled, ran and verified a kernel in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()
