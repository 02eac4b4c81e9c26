"""Results of the simulated GPU have the same bits on every CPU, with and without vector units."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import weft
from limits import PROCESS_SECONDS
from weft.device import jit

pytestmark = pytest.mark.sim
OLDER = {"x86_64": ["x86-64", "x86-64-v3"], "aarch64": ["generic"]}
"""CPUs of each architecture: without AVX and FMA, without AVX-512. x86-64-v2 is between them."""

MODULE = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
__global__ void scalars(const float* x, const double* d, float* f, double* g, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i], w = x[n - 1 - i];
    f[i] = fmaf(v, w, expf(v)) + sinf(w) / (1 + v * v) + __expf(v) * rsqrtf(fabsf(w)) + tanhf(v);
    g[i] = fma(d[i], d[n - 1 - i], exp(d[i])) + pow(fabs(d[i]), 1.7) / (1 + d[i] * d[i]);
}
__global__ void halves(const float* x, half* h, __nv_bfloat16* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    half v = __float2half(x[i]), w = __float2half(x[n - 1 - i]);
    h[i] = __hadd(__hfma(v, w, v), hexp(v));
    b[i] = __hfma(__float2bfloat16(x[i]), __float2bfloat16(x[n - 1 - i]), __float2bfloat16(1.5f));
}
__global__ void tensor(const half* a, const half* b, float* c) {
    using namespace nvcuda::wmma;
    fragment<matrix_a, 16, 16, 16, half, row_major> x;
    fragment<matrix_b, 16, 16, 16, half, col_major> y;
    fragment<accumulator, 16, 16, 16, float> z;
    fill_fragment(z, 0.25f);
    load_matrix_sync(x, a, 16);
    load_matrix_sync(y, b, 16);
    mma_sync(z, x, y, z);
    store_matrix_sync(c, z, 16, mem_row_major);
}
__global__ void warp(const float* x, float* y) {
    float v = x[threadIdx.x];
    for (int step = 16; step; step /= 2) v += __shfl_xor_sync(~0u, v, step) * 1.0001f;
    y[threadIdx.x] = v;
}
__global__ void narrow(const float* x, const double* d, half* f, half* g, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) f[i] = __float2half(x[i]), g[i] = __double2half(d[i]);
}
__global__ void widen(const half* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = __half2float(x[i]);
}
"""
N = 1000


def results() -> dict[str, Any]:
    """Run every kernel, in code for the CPU that `jit.host` names."""
    module, rng = weft.cuda(MODULE), np.random.default_rng(1)
    x = ((rng.random(N) - 0.5) * 20).astype(np.float32)
    out = {
        "f": np.zeros(N, np.float32), "g": np.zeros(N), "h": np.zeros(N, np.float16),
        "b": np.zeros(N, np.uint16), "c": np.zeros((16, 16), np.float32),
        "y": np.zeros(32, np.float32),
    }  # fmt: skip
    module.scalars[4, 256](x, x.astype(np.float64), out["f"], out["g"], N)
    module.halves[4, 256](x, out["h"], out["b"], N)
    module.tensor[1, 32](*x[:512].astype(np.float16).reshape(2, 256), out["c"])
    module.warp[1, 32](x[:32], out["y"])
    return out


def conversions() -> None:
    """Compare conversions of halves with NumPy's: all halves, and numbers around every exponent."""
    module, rng = weft.cuda(MODULE), np.random.default_rng(2)
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    wide = np.zeros(1 << 16, np.float32)
    module.widen[256, 256](halves, wide)
    np.testing.assert_array_equal(wide, halves.astype(np.float32))
    d = (1 + rng.random(4096)) * np.exp2(rng.integers(-30, 20, 4096)) * rng.choice((-1, 1), 4096)
    d[:2048] = np.nextafter(halves[1024:3072].astype(np.float64), np.inf)  # all but ties
    x, f, g = d.astype(np.float32), *np.zeros((2, 4096), np.float16)
    x[:3] = np.inf, np.nan, 65519.996
    module.narrow[16, 256](x, d, f, g, 4096)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(f, x.astype(np.float16))
        np.testing.assert_array_equal(g, d.astype(np.float16))


def digests() -> dict[str, str]:
    return {name: hashlib.sha256(v.tobytes()).hexdigest() for name, v in results().items()}


@pytest.mark.parametrize("draft", ["0", "1"], ids=["full code", "draft"])
def test_bits_do_not_depend_on_the_cpu(draft: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_DRAFTS", draft)
    here = digests()
    for cpu in OLDER[platform.machine()]:
        # Code for one CPU cannot call code for another: they pass vectors in other registers.
        child = [sys.executable, __file__]
        environment = {**os.environ, jit.HOST_CPU: cpu, "PYTHONPATH": os.pathsep.join(sys.path)}
        ran = subprocess.run(
            child, env=environment, capture_output=True, text=True, timeout=PROCESS_SECONDS
        )
        assert ran.returncode == 0, (cpu, ran.stderr)
        assert json.loads(ran.stdout) == {"cpu": cpu, **here}


if __name__ == "__main__":
    conversions()
    print(json.dumps({"cpu": jit.host()[0], **digests()}))
