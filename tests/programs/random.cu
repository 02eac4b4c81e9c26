// cuRAND's host generators: moments of the distributions, seeds that repeat.
#include "check.h"
#include <cmath>
#include <cstring>
#include <curand.h>
#include <vector>

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
    RAND(curandGenerateUniform(generator, x, n));
    HOLDS(!memcmp(first.data(), x, n * sizeof(float)));
    RAND(curandGenerateNormalDouble(generator, y, n, 3.0, 2.0));
    HOLDS(fabs(mean(y, n) - 3) < 0.1);
    RAND(curandGeneratePoisson(generator, counts, n, 4.0));
    HOLDS(fabs(mean(counts, n) - 4) < 0.1);
    HOLDS(curandGenerateNormal(generator, x, 3, 0, 1) == CURAND_STATUS_LENGTH_NOT_MULTIPLE);
    RAND(curandDestroyGenerator(generator));
    printf("random enough\n");
}
