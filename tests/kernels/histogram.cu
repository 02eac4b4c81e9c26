// Histograms: atomics on global memory, on a shared copy a block, on a shared copy a warp.

__global__ void global_bins(const unsigned char* x, unsigned int* bins, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&bins[x[i]], 1u);
}

__global__ void shared_bins(const unsigned char* x, unsigned int* bins, int n) {
    __shared__ unsigned int local[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) local[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&local[x[i]], 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        if (local[i]) atomicAdd(&bins[i], local[i]);
}

// Lanes with the same value elect one that adds for all of them.
__global__ void warp_bins(const unsigned char* x, unsigned int* bins, int n) {
    __shared__ unsigned int local[8][256];
    unsigned int* mine = local[threadIdx.x / 32];
    for (int i = threadIdx.x; i < 8 * 256; i += blockDim.x) (&local[0][0])[i] = 0;
    __syncthreads();
    int stride = gridDim.x * blockDim.x, lane = threadIdx.x % 32;
    int start = blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = start; i - lane < n; i += stride) {  // all lanes of a warp go on together
        unsigned int inside = __ballot_sync(~0u, i < n);
        if (i < n) {
            unsigned int same = __match_any_sync(inside, x[i]);
            if (lane == __ffs(same) - 1) mine[x[i]] += __popc(same);
        }
        __syncwarp();
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x) {
        unsigned int sum = 0;
        for (int w = 0; w < 8; w++) sum += local[w][i];
        if (sum) atomicAdd(&bins[i], sum);
    }
}

__global__ void ranges(const float* x, unsigned int* bins, int n, int count, float low,
                       float high) {
    extern __shared__ unsigned int counts[];
    for (int i = threadIdx.x; i < count; i += blockDim.x) counts[i] = 0;
    __syncthreads();
    float width = (high - low) / count;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        if (x[i] >= low && x[i] < high) {
            int bin = (int)((x[i] - low) / width);
            atomicAdd_block(&counts[bin < count ? bin : count - 1], 1u);
        }
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += blockDim.x) atomicAdd(&bins[i], counts[i]);
}
