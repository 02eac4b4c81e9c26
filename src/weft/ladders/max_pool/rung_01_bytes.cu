// rung:   01 bytes
// idea:   a window of four has four places: a byte says which. The thread of a window writes all
//         four elements of the gradient, so nothing is cleared first
// scratch: where:u8[planes*rows*columns]
// launch: forward<<<cdiv(planes*rows*columns, 256), 256>>>
// launch: backward<<<cdiv(planes*rows*columns, 256), 256>>>

__global__ void forward(const float* x, float* y, unsigned char* where, int planes, int rows,
                        int columns) {
    int e = blockIdx.x * 256 + threadIdx.x;
    if (e >= planes * rows * columns) return;
    int column = e % columns, line = e / columns;
    const float* from = x + size_t(line) * 4 * columns + 2 * column;
    float v[4] = {from[0], from[1], from[2 * columns], from[2 * columns + 1]}, most = v[0];
    int best = 0;
    for (int k = 1; k < 4; ++k)
        if (v[k] > most || v[k] != v[k]) most = v[k], best = k;
    y[e] = most, where[e] = best;
}

__global__ void backward(const float* dy, float* dx, const unsigned char* where, int planes,
                         int rows, int columns) {
    int e = blockIdx.x * 256 + threadIdx.x;
    if (e >= planes * rows * columns) return;
    int column = e % columns, line = e / columns;
    float* to = dx + size_t(line) * 4 * columns + 2 * column;
    for (int k = 0; k < 4; ++k) to[k / 2 * 2 * columns + k % 2] = where[e] == k ? dy[e] : 0;
}
