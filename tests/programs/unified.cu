// Vector add with unified memory: the host writes, the device adds, the host reads.
#include "check.h"

__managed__ int launches = 1;

__global__ void add(const float *x, float *y, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] += x[i];
    if (blockIdx.x == 0 && threadIdx.x == 0) launches++;
}

int main() {
    const int n = 1 << 16;
    float *x, *y;
    CALL(cudaMallocManaged(&x, n * sizeof(float)));
    CALL(cudaMallocManaged(&y, n * sizeof(float)));
    for (int i = 0; i < n; i++) x[i] = 1.0f, y[i] = 2.0f;
    cudaMemLocation device = {cudaMemLocationTypeDevice, 0};
    CALL(cudaMemAdvise(x, n * sizeof(float), cudaMemAdviseSetReadMostly, device));
    CALL(cudaMemPrefetchAsync(x, n * sizeof(float), device, 0, nullptr));
    add<<<32, 256>>>(x, y, n);
    CALL(cudaGetLastError());
    CALL(cudaDeviceSynchronize());
    float worst = 0;
    for (int i = 0; i < n; i++) worst = fmaxf(worst, fabsf(y[i] - 3.0f));
    cudaPointerAttributes about;
    CALL(cudaPointerGetAttributes(&about, y + 5));
    HOLDS(about.type == cudaMemoryTypeManaged && about.devicePointer == y + 5 &&
          about.hostPointer == y + 5);
    launches += 10;
    int copy = 0;
    CALL(cudaMemcpyFromSymbol(&copy, launches, sizeof copy));
    printf("worst difference %g, launches %d %d\n", worst, launches, copy);
    CALL(cudaFree(x));
    CALL(cudaFree(y));
}
