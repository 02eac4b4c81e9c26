// Calls every function of weft/grid.cuh.
#include <weft/grid.cuh>

using namespace weft;

// y[block] = the sum over all blocks of the group of x[block], `turns` times one after the other.
__global__ void totals(const int* x, int* y, int* found, int* counters, int blocks, int turns) {
    int group = blockIdx.x / blocks, total = 0;
    for (int turn = 0; turn < turns; ++turn) {
        int* own = found + turn * gridDim.x;
        if (threadIdx.x == 0) own[blockIdx.x] = x[blockIdx.x] * (turn + 1);
        int* counter = counters + group * turns + turn;
        int ticket = meet_blocks(counter, blocks);
        for (int block = group * blocks; block < (group + 1) * blocks; ++block)
            total += __ldcg(own + block);
        leave_blocks(counter, blocks, ticket);
    }
    y[blockIdx.x * blockDim.x + threadIdx.x] = total;
}

// y[block, turn] = the sum over all blocks of x[block] times the turn, from 1 on.
__global__ void turns(const int* x, int* y, int* found, int* counter, int turns) {
    Meetings meetings(counter, gridDim.x);
    for (int turn = 0; turn < turns; ++turn) {
        int* own = found + turn * gridDim.x;
        if (threadIdx.x == 0) {
            own[blockIdx.x] = x[blockIdx.x] * (turn + 1);
            meetings.meet();
        }
        __syncthreads();
        if (threadIdx.x > 0) continue;
        int total = 0;
        for (int block = 0; block < gridDim.x; ++block) total += __ldcg(own + block);
        y[blockIdx.x * turns + turn] = total;
    }
    if (threadIdx.x == 0) meetings.leave();
}
