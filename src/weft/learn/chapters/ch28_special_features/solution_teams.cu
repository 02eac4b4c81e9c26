// Sums of 8 values: each warp is split into four teams, which add by shuffles.
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

__global__ void sums_of(const float* x, float* sums, int m) {
    auto team = cg::tiled_partition<8>(cg::this_thread_block());
    int i = blockIdx.x * blockDim.x + threadIdx.x, group = i / 8;
    float sum = group < m ? x[i] : 0;
    for (int step = team.size() / 2; step > 0; step /= 2) sum += team.shfl_down(sum, step);
    if (group < m && team.thread_rank() == 0) sums[group] = sum;
}
