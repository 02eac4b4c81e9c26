// reduce: the sum of n floats.
// A thread sums every stride-th element, a warp folds its 32 sums in five shuffles without any
// memory, and one atomic a warp adds up the rest.
// grid: any   block: a multiple of 32

__global__ void reduce(const float* x, float* sum, int n) {
    float mine = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        mine += x[i];
    for (int offset = 16; offset > 0; offset /= 2)
        mine += __shfl_down_sync(0xffffffffu, mine, offset);
    if (threadIdx.x % 32 == 0) atomicAdd(sum, mine);
}
