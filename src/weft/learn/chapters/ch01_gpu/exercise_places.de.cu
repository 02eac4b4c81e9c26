// Blöcke haben 64 Threads. Jeder Thread schreibt auf, wo er ist, plus seine Zahl in start.
__global__ void places(const int* start, int* block, int* warp, int* lane) {
    int i = blockIdx.x * 64 + threadIdx.x;
    block[i] = start[i] + blockIdx.x;
    warp[i] = start[i];
    lane[i] = start[i] + threadIdx.x;
}
