// Causal attention in one pass over tiles of keys and values (Dao et al., FlashAttention).
const int QUERIES = 64, KEYS = 32, WIDTH = 16;

__global__ void attention(const float* q, const float* k, const float* v, float* out, float* lse,
                          int n) {
    __shared__ float keys[KEYS][WIDTH], values[KEYS][WIDTH];
    int first = blockIdx.x * QUERIES, i = first + threadIdx.x;
    size_t head = size_t(blockIdx.y) * n;
    float query[WIDTH], sums[WIDTH] = {}, most = -INFINITY, total = 0;
    if (i < n)
        for (int c = 0; c < WIDTH; c++) query[c] = q[(head + i) * WIDTH + c] / 4;
    for (int tile = 0; tile < min(first + QUERIES, n); tile += KEYS) {
        __syncthreads();
        for (int e = threadIdx.x; e < min(KEYS, n - tile) * WIDTH; e += QUERIES) {
            keys[e / WIDTH][e % WIDTH] = k[(head + tile) * WIDTH + e];
            values[e / WIDTH][e % WIDTH] = v[(head + tile) * WIDTH + e];
        }
        __syncthreads();
        for (int j = 0; j < KEYS && tile + j <= i && i < n; j++) {
            float score = 0;
            for (int c = 0; c < WIDTH; c++) score += query[c] * keys[j][c];
            float larger = fmaxf(most, score), scale = expf(most - larger);
            float p = expf(score - larger);
            total = total * scale + p;
            for (int c = 0; c < WIDTH; c++) sums[c] = sums[c] * scale + p * values[j][c];
            most = larger;
        }
    }
    if (i >= n) return;
    for (int c = 0; c < WIDTH; c++) out[(head + i) * WIDTH + c] = sums[c] / total;
    lse[head + i] = most + logf(total);
}
