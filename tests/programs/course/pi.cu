// Pi by throwing darts, with cuRAND's device generators.
#include <cmath>
#include <cstdio>
#include <curand_kernel.h>

__global__ void setup(curandState *states, unsigned long long seed) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    curand_init(seed, i, 0, &states[i]);
}
__global__ void throw_darts(curandState *states, unsigned long long *hits, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    curandState state = states[i];
    unsigned mine = 0;
    for (int k = 0; k < n; k++) {
        float x = curand_uniform(&state), y = curand_uniform(&state);
        mine += x * x + y * y <= 1.0f;
    }
    states[i] = state;
    atomicAdd(hits, (unsigned long long)mine);
}

int main() {
    const int threads = 64 * 8, each = 200;
    curandState *states;
    unsigned long long *hits, host = 0;
    cudaMalloc(&states, threads * sizeof(curandState));
    cudaMalloc(&hits, sizeof host);
    cudaMemcpy(hits, &host, sizeof host, cudaMemcpyHostToDevice);
    setup<<<8, 64>>>(states, 42);
    throw_darts<<<8, 64>>>(states, hits, each);
    cudaMemcpy(&host, hits, sizeof host, cudaMemcpyDeviceToHost);
    double pi = 4.0 * host / threads / each;
    printf("pi is about %.1f\n", pi);
    return fabs(pi - M_PI) > 0.05;
}
