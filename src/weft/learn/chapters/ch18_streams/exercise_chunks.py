"""y = x x + 1, in four parts. On a GPU each part would have its copies and kernel in a stream."""

import weft

module = weft.cuda("""
__global__ void curve(const float* x, float* y, int count) {
    int i = blockIdx.x * 128 + threadIdx.x;
    if (i < count) y[i] = x[i] * x[i] + 1;
}
""")


def run(x, y, n):
    part = n // 4
    for k in range(4):
        first, last = k * part, (k + 1) * part
        module.curve[weft.cdiv(part, 128), 128](x[first:last], y[first:last], part)
