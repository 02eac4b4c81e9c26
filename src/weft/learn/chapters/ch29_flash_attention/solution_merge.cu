// Merges partial results of attention: a mean with the weights exp(lse).
__global__ void merge(const float* part, const float* lse, const int* count, float* out,
                      float* total, int n, int d) {
    int r = blockIdx.x, used = count[r];
    float most = -INFINITY, sum = 0;
    for (int p = 0; p < used; p++) most = fmaxf(most, lse[p * n + r]);
    for (int p = 0; p < used; p++) sum += expf(lse[p * n + r] - most);
    for (int c = threadIdx.x; c < d; c += 64) {
        float mean = 0;
        for (int p = 0; p < used; p++)
            mean += expf(lse[p * n + r] - most) / sum * part[(p * n + r) * d + c];
        out[r * d + c] = mean;
    }
    if (threadIdx.x == 0) total[r] = used ? most + logf(sum) : -INFINITY;
}
