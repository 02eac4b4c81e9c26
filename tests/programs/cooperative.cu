// A reduction by one cooperative launch: all blocks wait for each other.
#include "check.h"
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <vector>

namespace cg = cooperative_groups;

__global__ void sum(const int *x, int *partial, int *total, int n) {
    auto grid = cg::this_grid();
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    __shared__ int sums[32];
    int mine = 0;
    for (int i = int(grid.thread_rank()); i < n; i += int(grid.size())) mine += x[i];
    mine = cg::reduce(warp, mine, cg::plus<int>());
    if (warp.thread_rank() == 0) sums[warp.meta_group_rank()] = mine;
    block.sync();
    if (block.thread_rank() == 0) {
        int all = 0;
        for (unsigned w = 0; w < warp.meta_group_size(); w++) all += sums[w];
        partial[blockIdx.x] = all;
    }
    grid.sync();
    if (grid.thread_rank() == 0) {
        *total = 0;
        for (unsigned b = 0; b < gridDim.x; b++) *total += partial[b];
    }
}

int main() {
    int n = 100000, threads = 128, per_sm, sms;
    CALL(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
    CALL(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, sum, threads, 0));
    HOLDS(per_sm > 0 && per_sm <= 32);
    std::vector<int> host(n);
    long long expected = 0;
    for (int i = 0; i < n; i++) expected += host[i] = i % 17 - 3;
    int *x, *partial, *total, blocks = 24, result;
    CALL(cudaMalloc(&x, n * sizeof(int)));
    CALL(cudaMalloc(&partial, blocks * sizeof(int)));
    CALL(cudaMalloc(&total, sizeof(int)));
    CALL(cudaMemcpy(x, host.data(), n * sizeof(int), cudaMemcpyHostToDevice));
    void *arguments[] = {&x, &partial, &total, &n};
    CALL(cudaLaunchCooperativeKernel(sum, blocks, threads, arguments, 0, nullptr));
    CALL(cudaMemcpy(&result, total, sizeof result, cudaMemcpyDeviceToHost));
    HOLDS(result == expected);
    GIVES(cudaLaunchCooperativeKernel(sum, per_sm * sms + 1, threads, arguments, 0, nullptr),
          cudaErrorCooperativeLaunchTooLarge);

    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = 1;
    cudaLaunchConfig_t how = {};
    how.gridDim = blocks, how.blockDim = threads, how.attrs = &attribute, how.numAttrs = 1;
    CALL(cudaMemset(total, 0, sizeof(int)));
    CALL(cudaLaunchKernelEx(&how, sum, (const int *)x, partial, total, n));
    CALL(cudaMemcpy(&result, total, sizeof result, cudaMemcpyDeviceToHost));
    printf("%d of %lld\n", result, expected);
}
