// A box of a matrix by TMA: the map is made by the driver API, whose function the program asks for.
#include <cstdio>
#include <cstring>
#include <cuda.h>
#include <cuda_runtime.h>

#include "check.h"

__global__ void doubled(const __grid_constant__ CUtensorMap from, const __grid_constant__ CUtensorMap to,
                        int x, int y) {
    __shared__ alignas(128) float tile[8][16];
    __shared__ unsigned long long full;
    unsigned bar = __cvta_generic_to_shared(&full), near = __cvta_generic_to_shared(tile), done = 0;
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared.b64 [%0], 1; fence.mbarrier_init.release.cluster;" ::"r"(bar));
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 512;" ::"r"(bar));
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                     " [%0], [%1, {%2, %3}], [%4];" ::"r"(near), "l"(&from), "r"(x), "r"(y), "r"(bar) : "memory");
    }
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(bar) : "memory");
    for (int i = threadIdx.x; i < 128; i += blockDim.x) tile[i / 16][i % 16] *= 2;
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0)
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
                     "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
                     ::"l"(&to), "r"(x), "r"(y), "r"(near) : "memory");
}

int main() {
    constexpr cuuint64_t COLUMNS = 20, ROWS = 10, PITCH = 96;
    void *entry = nullptr;
    cudaDriverEntryPointQueryResult found;
    CALL(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found));
    auto encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(entry);
    float host[ROWS][PITCH / 4];
    for (auto &row : host)
        for (float &v : row) v = float(&v - &host[0][0]);
    void *device;
    CALL(cudaMalloc(&device, sizeof host));
    CALL(cudaMemcpy(device, host, sizeof host, cudaMemcpyHostToDevice));
    cuuint64_t dims[] = {COLUMNS, ROWS}, strides[] = {PITCH};
    cuuint32_t box[] = {16, 8}, steps[] = {1, 1};
    CUtensorMap map, wrong;
    CUresult made = encode(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, device, dims, strides, box, steps,
                           CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                           CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    box[0] = 3;
    CUresult refused = encode(&wrong, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, device, dims, strides, box, steps,
                              CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                              CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    printf("made %d, refused %d\n", made, refused);
    doubled<<<1, 64>>>(map, map, 8, 4);  // the corner: columns 8 to 19, rows 4 to 9
    CALL(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
    for (int row : {3, 4, 9}) printf("%g %g %g %g\n", host[row][7], host[row][8], host[row][19], host[row][20]);
    CUtensorMap moved = map;
    CUresult replaced = cuTensorMapReplaceAddress(&moved, static_cast<char *>(device) + 2 * PITCH);
    printf("replaced %d, %td\n", replaced, *reinterpret_cast<char **>(&moved) - static_cast<char *>(device));
}
