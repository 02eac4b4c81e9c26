// Clusters of blocks: by an attribute of the launch, by the kernel, and refused; their occupancy.
#include "check.h"
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

__global__ void rotate(const int *in, int *out) {
    __shared__ int mine;
    auto cluster = cg::this_cluster();
    if (threadIdx.x == 0) mine = in[blockIdx.x];
    cluster.sync();
    unsigned next = (cluster.block_rank() + 1) % cluster.num_blocks();
    if (threadIdx.x == 0) out[blockIdx.x] = *cluster.map_shared_rank(&mine, next);
    cluster.sync();
}

__global__ void __cluster_dims__(4, 1, 1) fours(int *out) {
    if (threadIdx.x == 0) out[blockIdx.x] = cg::this_cluster().block_rank();
}

int *in, *out, got[48];

cudaLaunchConfig_t shaped(int blocks, cudaLaunchAttribute *attribute, unsigned size) {
    attribute->id = cudaLaunchAttributeClusterDimension;
    attribute->val.clusterDim = {size, 1, 1};
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(blocks), config.blockDim = dim3(64);
    config.attrs = attribute, config.numAttrs = 1;
    return config;
}

int main() {
    const int n = 48;
    int host[n], supported;
    for (int i = 0; i < n; i++) host[i] = 7 * i;
    CALL(cudaDeviceGetAttribute(&supported, cudaDevAttrClusterLaunch, 0));
    HOLDS(supported);
    CALL(cudaMalloc(&in, sizeof host));
    CALL(cudaMalloc(&out, sizeof host));
    CALL(cudaMemcpy(in, host, sizeof host, cudaMemcpyHostToDevice));
    cudaLaunchAttribute attribute[1];
    for (unsigned size : {1u, 2u, 3u, 8u}) {
        auto config = shaped(n, attribute, size);
        CALL(cudaLaunchKernelEx(&config, rotate, (const int *)in, out));
        CALL(cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost));
        for (int i = 0; i < n; i++) HOLDS(got[i] == host[i - i % size + (i + 1) % size]);
    }
    fours<<<8, 32>>>(out);
    CALL(cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 8; i++) HOLDS(got[i] == i % 4);

    auto odd = shaped(n + 1, attribute, 2);
    GIVES(cudaLaunchKernelEx(&odd, rotate, (const int *)in, out), cudaErrorInvalidClusterSize);
    auto none = shaped(n, attribute, 0);
    GIVES(cudaLaunchKernelEx(&none, rotate, (const int *)in, out), cudaErrorInvalidClusterSize);
    auto large = shaped(n, attribute, 16);
    GIVES(cudaLaunchKernelEx(&large, rotate, (const int *)in, out), cudaErrorInvalidClusterSize);
    int size, count;
    CALL(cudaOccupancyMaxPotentialClusterSize(&size, rotate, &large));
    HOLDS(size == 8);
    GIVES(cudaOccupancyMaxActiveClusters(&count, rotate, &large), cudaErrorInvalidClusterSize);
    CALL(cudaFuncSetAttribute(rotate, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    CALL(cudaLaunchKernelEx(&large, rotate, (const int *)in, out));
    CALL(cudaDeviceSynchronize());
    CALL(cudaOccupancyMaxPotentialClusterSize(&size, rotate, &large));
    CALL(cudaOccupancyMaxActiveClusters(&count, rotate, &large));
    HOLDS(size == 16);
    auto twos = shaped(n, attribute, 2);
    auto contradiction = twos;
    GIVES(cudaLaunchKernelEx(&contradiction, fours, out), cudaErrorInvalidClusterSize);
    twos.blockDim = dim3(1024);
    int pairs;
    CALL(cudaOccupancyMaxActiveClusters(&pairs, rotate, &twos));
    cudaFuncAttributes facts;
    CALL(cudaFuncGetAttributes(&facts, fours));
    HOLDS(facts.requiredClusterWidth == 4 && facts.clusterDimMustBeSet);
    printf("%d clusters of 16, %d of 2\n", count, pairs);
}
