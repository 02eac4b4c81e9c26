// rung:   03 shared tile
// idea:   a block of 16 x 16 pixels loads its window of one channel, with a border of R / 2 pixels,
//         into shared memory once, and uses every pixel of it R * R times. What is left to read are
//         mostly weights
// expect: bytes read per result <= 160
// launch: conv2d<<<(cdiv(W, 16), cdiv(H, 16), N*K), (16, 16), 4*(15 + R)*(15 + R)>>>

__global__ void conv2d(const float* x, const float* w, float* y, int C, int H, int W, int K,
                       int R) {
    extern __shared__ float tile[];
    int side = 15 + R, n = blockIdx.z / K, k = blockIdx.z % K;
    int top = blockIdx.y * 16 - R / 2, left = blockIdx.x * 16 - R / 2;
    float sum = 0;
    for (int c = 0; c < C; ++c) {
        const float* image = x + (size_t(n) * C + c) * H * W;
        __syncthreads();
        for (int e = threadIdx.y * 16 + threadIdx.x; e < side * side; e += 256) {
            int i = top + e / side, j = left + e % side;
            tile[e] = unsigned(i) < H && unsigned(j) < W ? image[i * W + j] : 0;
        }
        __syncthreads();
        const float* filter = w + (k * C + c) * R * R;
        for (int r = 0; r < R; ++r)
            for (int s = 0; s < R; ++s)
                sum += tile[(threadIdx.y + r) * side + threadIdx.x + s] * filter[r * R + s];
    }
    int i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
    if (i < H && j < W) y[((size_t(n) * K + k) * H + i) * W + j] = sum;
}
