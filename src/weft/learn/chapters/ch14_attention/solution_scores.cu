// out = softmax(q k) v for one query per head.
// A warp computes a head; a lane holds one of 32 columns.
__global__ void attention(const float* q, const float* k, const float* v, float* out, int s) {
    int head = blockIdx.x, lane = threadIdx.x;
    float query = q[head * 32 + lane], most = -INFINITY, total = 0, result = 0;
    for (int j = 0; j < s; j++) {
        float score = query * k[(head * s + j) * 32 + lane];
        for (int bit = 16; bit > 0; bit /= 2) score += __shfl_xor_sync(0xffffffff, score, bit);
        float larger = fmaxf(most, score), scale = expf(most - larger), p = expf(score - larger);
        total = total * scale + p;
        result = result * scale + p * v[(head * s + j) * 32 + lane];
        most = larger;
    }
    out[head * 32 + lane] = result / total;
}
