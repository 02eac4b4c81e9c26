"""y = sigmoid(a + b c): a product first, then the rest."""

import numpy as np

import weft

module = weft.cuda("""
__global__ void product(const float* b, const float* c, float* t, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) t[i] = b[i] * c[i];
}

__global__ void rest(const float* a, const float* t, float* y, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) y[i] = 1 / (1 + expf(-(a[i] + t[i])));
}
""")


def run(a, b, c, y, n):
    t = np.zeros_like(b)
    module.product[weft.cdiv(n, 256), 256](b, c, t, n)
    module.rest[weft.cdiv(n, 256), 256](a, t, y, n)
