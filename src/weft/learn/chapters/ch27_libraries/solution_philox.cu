// Philox has no state but a counter: a thread begins anywhere in the sequence.
#include <cstdio>
#include <cstdlib>
#include <curand.h>
#include <curand_kernel.h>
#include <vector>

__global__ void draw(unsigned long long seed, float* d, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    curandStatePhilox4_32_10_t state;
    curand_init(seed, t, 0, &state);
    float4 four = curand_uniform4(&state);
    d[4 * t] = four.x, d[4 * t + 1] = four.y, d[4 * t + 2] = four.z, d[4 * t + 3] = four.w;
}

int main(int count, char** arguments) {
    unsigned long long seed = atoi(arguments[1]);
    int n = atoi(arguments[2]);
    std::vector<float> mine(4 * n), theirs(4 * n);
    float *h, *d;
    cudaMalloc(&h, 4 * n * sizeof(float));
    cudaMalloc(&d, 4 * n * sizeof(float));
    curandGenerator_t generator;
    curandCreateGenerator(&generator, CURAND_RNG_PSEUDO_PHILOX4_32_10);
    curandSetPseudoRandomGeneratorSeed(generator, seed);
    if (curandGenerateUniform(generator, h, 4 * n) != CURAND_STATUS_SUCCESS) return 1;
    draw<<<(n + 127) / 128, 128>>>(seed, d, n);

    cudaMemcpy(theirs.data(), h, 4 * n * sizeof(float), cudaMemcpyDeviceToHost);
    cudaMemcpy(mine.data(), d, 4 * n * sizeof(float), cudaMemcpyDeviceToHost);
    double sum = 0;
    for (int i = 0; i < 4 * n; i++) sum += double(theirs[i]) * mine[i];
    printf("%.9g\n", sum);
    curandDestroyGenerator(generator);
    cudaFree(h), cudaFree(d);
}
