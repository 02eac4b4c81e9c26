"""y = x x + 1, in four parts. On a GPU each part would have its copies and kernel in a stream."""

import weft

module = weft.cuda("""
__global__ void curve(const float* x, float* y, int count) {
    int i = blockIdx.x * 128 + threadIdx.x;
    if (i < count) y[i] = x[i] * x[i] + 1;
}
""")


def run(x, y, n):
    part = weft.cdiv(n, 4)
    for first in range(0, n, part):
        count = min(part, n - first)
        launch = module.curve[weft.cdiv(count, 128), 128]
        launch(x[first : first + count], y[first : first + count], count)
