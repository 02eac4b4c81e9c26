// v2 = 0.9 v + g and w2 = w - 0.1 v2.
__global__ void sgd(const float* w, const float* v, const float* g, float* w2, float* v2, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    w2[i] = w[i] - 0.1f * v[i];
    v2[i] = 0.9f * v[i] + g[i];
}
