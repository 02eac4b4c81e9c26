// rung:   00 indices
// idea:   one thread per window. The forward pass stores the position of each maximum as an integer
//         of 64 bits, as PyTorch's op returns it; the backward pass clears the gradient and writes
//         one element per window
// scratch: where:i64[planes*rows*columns]
// launch: forward<<<cdiv(planes*rows*columns, 256), 256>>>
// launch: zeros<<<cdiv(4*planes*rows*columns, 256), 256>>>
// launch: backward<<<cdiv(planes*rows*columns, 256), 256>>>

__global__ void forward(const float* x, float* y, long long* where, int planes, int rows,
                        int columns) {
    int e = blockIdx.x * 256 + threadIdx.x;
    if (e >= planes * rows * columns) return;
    int column = e % columns, row = e / columns % rows, plane = e / columns / rows;
    const float* from = x + size_t(plane) * 4 * rows * columns;
    float most = 0;
    long long best = -1;
    for (int k = 0; k < 4; ++k) {
        long long at = (2 * row + k / 2) * 2ll * columns + 2 * column + k % 2;
        if (best < 0 || from[at] > most || from[at] != from[at]) most = from[at], best = at;
    }
    y[e] = most, where[e] = best;
}

__global__ void zeros(float* dx, int planes, int rows, int columns) {
    size_t e = size_t(blockIdx.x) * 256 + threadIdx.x;
    if (e < size_t(planes) * rows * columns * 4) dx[e] = 0;
}

__global__ void backward(const float* dy, float* dx, const long long* where, int planes, int rows,
                         int columns) {
    int e = blockIdx.x * 256 + threadIdx.x;
    if (e >= planes * rows * columns) return;
    dx[size_t(e / columns / rows) * 4 * rows * columns + where[e]] = dy[e];
}
