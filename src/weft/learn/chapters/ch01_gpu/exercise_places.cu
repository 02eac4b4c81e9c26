// Blocks have 64 threads. Every thread writes where it is, plus its number in start.
__global__ void places(const int* start, int* block, int* warp, int* lane) {
    int i = blockIdx.x * 64 + threadIdx.x;
    block[i] = start[i] + blockIdx.x;
    warp[i] = start[i];
    lane[i] = start[i] + threadIdx.x;
}
