// Constant memory and device variables: copies by symbol, their addresses and sizes.
#include "check.h"

struct Filter {
    float taps[5];
    int count;
};
__constant__ Filter filter;
__device__ int counter = 7;
__device__ float table[4] = {1, 2, 3, 4};
static __constant__ short small[3];

template <class T>
__global__ void apply(const T *x, T *y, int n) {
    extern __shared__ char memory[];
    T *tile = reinterpret_cast<T *>(memory);
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = i < n ? x[i] : T(0);
    __syncthreads();
    T sum = 0;
    for (int k = 0; k < filter.count; k++)
        if (threadIdx.x >= k) sum += tile[threadIdx.x - k] * filter.taps[k];
    if (i < n) y[i] = sum * table[3] + small[2];
    if (i == 0) atomicAdd(&counter, 1);
}

int main() {
    const Filter host = {{1, 2, 3}, 3};
    const short numbers[3] = {0, 0, 100};
    CALL(cudaMemcpyToSymbol(filter, &host, sizeof host));
    CALL(cudaMemcpyToSymbol(small, numbers + 2, sizeof(short), 2 * sizeof(short)));
    size_t size;
    CALL(cudaGetSymbolSize(&size, table));
    HOLDS(size == 4 * sizeof(float));
    float *address;
    CALL(cudaGetSymbolAddress((void **)&address, table));
    float ten = 10;
    CALL(cudaMemcpy(address + 3, &ten, sizeof ten, cudaMemcpyHostToDevice));
    float x[8] = {1, 1, 1, 1, 1, 1, 1, 1}, y[8], *dx, *dy;
    CALL(cudaMalloc(&dx, sizeof x));
    CALL(cudaMalloc(&dy, sizeof y));
    CALL(cudaMemcpy(dx, x, sizeof x, cudaMemcpyHostToDevice));
    apply<float><<<2, 4, 4 * sizeof(float)>>>(dx, dy, 8);
    CALL(cudaDeviceSynchronize());
    CALL(cudaMemcpy(y, dy, sizeof y, cudaMemcpyDefault));
    for (float v : y) printf("%g ", v);
    int count;
    CALL(cudaMemcpyFromSymbol(&count, counter, sizeof count));
    printf("counter %d\n", count);
    GIVES(cudaMemcpyFromSymbol(&count, counter, sizeof count, 2), cudaErrorInvalidValue);
    int nothing;
    GIVES(cudaGetSymbolSize(&size, nothing), cudaErrorInvalidSymbol);
}
