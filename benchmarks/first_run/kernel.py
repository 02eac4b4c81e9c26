"""Compiles and runs one small kernel on the simulated GPU."""

import numpy as np

import weft

SOURCE = """
__global__ void scale(float* y, const float* x, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i];
}
"""

x = np.arange(1000, dtype=np.float32)
y = np.zeros_like(x)
weft.cuda(SOURCE).scale[weft.cdiv(1000, 256), 256](y, x, 2.0, 1000)
assert (y == 2 * x).all()
