// Attention of one head by online softmax: a thread a query, keys and values in shared tiles.
// Times the first launch: about 900 instructions of PTX. n a multiple of 64.
// block: 64
constexpr int D = 64, TILE = 64;

extern "C" __global__ void __launch_bounds__(TILE)
attention(const float* __restrict__ Q, const float* __restrict__ K, const float* __restrict__ V,
          float* __restrict__ O, int n, float scale) {
    __shared__ float k[TILE][D], v[TILE][D];
    int row = blockIdx.x * TILE + threadIdx.x;
    float q[D], o[D] = {}, m = -1e30f, l = 0.0f;
    for (int d = 0; d < D; ++d) q[d] = Q[row * D + d] * scale;
    for (int first = 0; first < n; first += TILE) {
        __syncthreads();
        for (int i = threadIdx.x; i < TILE * D; i += TILE) {
            k[i / D][i % D] = K[first * D + i];
            v[i / D][i % D] = V[first * D + i];
        }
        __syncthreads();
        for (int j = 0; j < TILE; ++j) {
            float s = 0.0f;
            for (int d = 0; d < D; ++d) s += q[d] * k[j][d];
            float next = fmaxf(m, s), old = expf(m - next), p = expf(s - next);
            for (int d = 0; d < D; ++d) o[d] = o[d] * old + p * v[j][d];
            l = l * old + p;
            m = next;
        }
    }
    float scale_out = 1.0f / l;
    for (int d = 0; d < D; ++d) O[row * D + d] = o[d] * scale_out;
}
