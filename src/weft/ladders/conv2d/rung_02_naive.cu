// rung:   02 naive
// idea:   one thread per element of y, adjacent threads on adjacent columns. Every product loads
//         an element of x and a weight
// expect: load sectors per request <= 4
// expect: store sectors per request <= 4
// launch: conv2d<<<(cdiv(H*W, 128), K, N), 128>>>

__global__ void conv2d(const float* x, const float* w, float* y, int C, int H, int W, int K,
                       int R) {
    int pixel = blockIdx.x * 128 + threadIdx.x, k = blockIdx.y, n = blockIdx.z;
    if (pixel >= H * W) return;
    int i = pixel / W - R / 2, j = pixel % W - R / 2;
    float sum = 0;
    for (int c = 0; c < C; ++c)
        for (int r = 0; r < R; ++r)
            for (int s = 0; s < R; ++s) {
                bool inside = unsigned(i + r) < H && unsigned(j + s) < W;
                float pixel = inside ? x[((size_t(n) * C + c) * H + i + r) * W + j + s] : 0;
                sum += pixel * w[((k * C + c) * R + r) * R + s];
            }
    y[(size_t(n) * K + k) * H * W + pixel] = sum;
}
