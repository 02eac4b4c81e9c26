// printf from the device: lines of host and device in their order.
#include "check.h"

__global__ void hello(const char *who) {
    printf("device: block %d of %d, thread %2u, %s, %.3f %lld %#x %c\n", blockIdx.x, gridDim.x,
           threadIdx.x, who, 0.5f * blockIdx.x, 1LL << 40, 255, 'x');
}

int main() {
    char *who;
    CALL(cudaMallocManaged(&who, 8));
    for (int i = 0; i < 5; i++) who[i] = "weft"[i];
    printf("host: before\n");
    hello<<<2, 1>>>(who);
    CALL(cudaDeviceSynchronize());
    printf("host: after\n");
}
