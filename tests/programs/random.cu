// cuRAND's host generators: moments of the distributions, seeds that repeat.
#include "check.h"
#include <cmath>
#include <cstring>
#include <curand.h>
#include <vector>

#ifndef CURAND_H_
#error "other headers look for NVIDIA's guard"
#endif

#define RAND(call) HOLDS((call) == CURAND_STATUS_SUCCESS)

template <class T>
static double mean(const T *x, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += x[i];
    return sum / n;
}

int main() {
    const int n = 20000;
    float *x;
    double *y;
    unsigned *counts;
    CALL(cudaMallocManaged(&x, n * sizeof(float)));
    CALL(cudaMallocManaged(&y, n * sizeof(double)));
    CALL(cudaMallocManaged(&counts, n * sizeof(unsigned)));
    curandGenerator_t generator;
    RAND(curandCreateGenerator(&generator, CURAND_RNG_PSEUDO_DEFAULT));
    RAND(curandSetPseudoRandomGeneratorSeed(generator, 1234ULL));
    RAND(curandGenerateUniform(generator, x, n));
    for (int i = 0; i < n; i++) HOLDS(x[i] > 0 && x[i] <= 1);
    HOLDS(fabs(mean(x, n) - 0.5) < 0.01);
    std::vector<float> first(x, x + n);
    RAND(curandGenerateUniform(generator, x, n));
    HOLDS(memcmp(first.data(), x, n * sizeof(float)));
    RAND(curandSetPseudoRandomGeneratorSeed(generator, 1234ULL));
    RAND(curandSetGeneratorOffset(generator, 0));
    RAND(curandGenerateUniform(generator, x, n));
    HOLDS(!memcmp(first.data(), x, n * sizeof(float)));
    RAND(curandGenerateNormalDouble(generator, y, n, 3.0, 2.0));
    HOLDS(fabs(mean(y, n) - 3) < 0.1);
    RAND(curandGeneratePoisson(generator, counts, n, 4.0));
    HOLDS(fabs(mean(counts, n) - 4) < 0.1);
    HOLDS(curandGenerateNormal(generator, x, 3, 0, 1) == CURAND_STATUS_LENGTH_NOT_MULTIPLE);
    RAND(curandDestroyGenerator(generator));

    // NVIDIA's own sequences: the same numbers as a generator of the host gives, and as a GPU's.
    const struct {
        curandRngType_t type;
        unsigned first[3];
    } sequences[] = {
        {CURAND_RNG_PSEUDO_XORWOW, {0x253d5e15, 0xd1f7605a, 0x8ce6f6f8}},
        {CURAND_RNG_PSEUDO_MRG32K3A, {0xc96891f0, 0x26f0d612, 0xef269080}},
        {CURAND_RNG_PSEUDO_MTGP32, {0x95130d0d, 0x76af12e1, 0x9d99d21c}},
        {CURAND_RNG_PSEUDO_MT19937, {0x31076b2f, 0x116e000a, 0x265b8088}},
        {CURAND_RNG_PSEUDO_PHILOX4_32_10, {0x2090b348, 0xda7cf0ab, 0x4401906f}},
        {CURAND_RNG_QUASI_SOBOL32, {0, 0x80000000, 0xc0000000}},
    };
    for (auto &sequence : sequences) {
        RAND(curandCreateGenerator(&generator, sequence.type));
        if (sequence.type < CURAND_RNG_QUASI_DEFAULT)
            RAND(curandSetPseudoRandomGeneratorSeed(generator, 1234ULL));
        RAND(curandGenerate(generator, counts, 1000));
        HOLDS(!memcmp(counts, sequence.first, sizeof sequence.first));
        RAND(curandDestroyGenerator(generator));
    }
    curandDirectionVectors32_t *vectors;
    RAND(curandGetDirectionVectors32(&vectors, CURAND_DIRECTION_VECTORS_32_JOEKUO6));
    HOLDS(vectors[0][0] == 0x80000000);
    printf("random enough\n");
}
