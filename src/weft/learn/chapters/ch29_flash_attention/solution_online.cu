// The softmax of each row and its log-sum-exp; a block reads a row twice (Milakov and Gimelshein).
struct Partial {
    float most, sum;
};

__device__ Partial merged(Partial a, Partial b) {
    float most = fmaxf(a.most, b.most);
    // Without elements, most is -infinity, and its difference to itself is NaN.
    return {most, (a.most == -INFINITY ? 0 : a.sum * expf(a.most - most)) +
                      (b.most == -INFINITY ? 0 : b.sum * expf(b.most - most))};
}

__global__ void softmax(const float* x, float* y, float* lse, int n) {
    __shared__ Partial warps[4];
    x += blockIdx.x * n;
    y += blockIdx.x * n;
    int t = threadIdx.x;
    Partial mine = {-INFINITY, 0};
    for (int i = t; i < n; i += 128) mine = merged(mine, {x[i], 1});
    for (int bit = 16; bit > 0; bit /= 2)
        mine = merged(mine,
                      {__shfl_xor_sync(~0u, mine.most, bit), __shfl_xor_sync(~0u, mine.sum, bit)});
    if (t % 32 == 0) warps[t / 32] = mine;
    __syncthreads();
    mine = merged(merged(warps[0], warps[1]), merged(warps[2], warps[3]));
    if (t == 0) lse[blockIdx.x] = mine.most + logf(mine.sum);
    for (int i = t; i < n; i += 128) y[i] = expf(x[i] - mine.most) / mine.sum;
}
