// rung:   04 filters
// idea:   a thread computes its pixel of 8 filters: one load of a pixel from shared memory serves 8
//         products, and the image is loaded K / 8 times instead of K times. The weights are the
//         same for all threads: a vector load of 4 of them is one broadcast
// expect: bytes read per result < 16
// launch: conv2d<<<(cdiv(W, 16), cdiv(H, 16), N*cdiv(K, 8)), (16, 16),
//         4*((15 + R)*(15 + R) + 3)//16*16 + 32*R*R + 16>>>

__global__ void conv2d(const float* x, const float* w, float* y, int C, int H, int W, int K,
                       int R) {
    extern __shared__ __align__(16) float tile[];
    int side = 15 + R, groups = (K + 7) / 8, n = blockIdx.z / groups, k0 = blockIdx.z % groups * 8;
    int top = blockIdx.y * 16 - R / 2, left = blockIdx.x * 16 - R / 2;
    int self = threadIdx.y * 16 + threadIdx.x;
    float* filters = tile + (side * side + 3) / 4 * 4;  // [tap][filter]
    float sum[8] = {};
    for (int c = 0; c < C; ++c) {
        const float* image = x + (size_t(n) * C + c) * H * W;
        __syncthreads();
        for (int e = self; e < side * side; e += 256) {
            int i = top + e / side, j = left + e % side;
            tile[e] = unsigned(i) < H && unsigned(j) < W ? image[i * W + j] : 0;
        }
        for (int e = self; e < 8 * R * R; e += 256) {
            int k = k0 + e % 8;
            filters[e] = k < K ? w[(k * C + c) * R * R + e / 8] : 0;
        }
        __syncthreads();
        for (int r = 0; r < R; ++r)
            for (int s = 0; s < R; ++s) {
                float pixel = tile[(threadIdx.y + r) * side + threadIdx.x + s];
                const float4* f = reinterpret_cast<const float4*>(filters + (r * R + s) * 8);
                float4 a = f[0], b = f[1];
                sum[0] += pixel * a.x, sum[1] += pixel * a.y;
                sum[2] += pixel * a.z, sum[3] += pixel * a.w;
                sum[4] += pixel * b.x, sum[5] += pixel * b.y;
                sum[6] += pixel * b.z, sum[7] += pixel * b.w;
            }
    }
    int i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
    if (i < H && j < W)
        for (int f = 0; f < 8; ++f)
            if (k0 + f < K) y[((size_t(n) * K + k0 + f) * H + i) * W + j] = sum[f];
}
