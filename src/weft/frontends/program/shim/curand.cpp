// cuRAND's host generators: the same distributions from the host's generator, not NVIDIA's own
// sequences.
#include "watch.h"

#include <cmath>
#include <curand.h>
#include <random>

using namespace weft;

namespace {
struct Generator {
    curandRngType_t type;
    unsigned long long seed = 0;
    std::mt19937_64 engine{0};
    cudaStream_t stream = nullptr;
};
Generator *of(curandGenerator_t generator) { return reinterpret_cast<Generator *>(generator); }

template <class T, class Draw>
curandStatus_t fill(curandGenerator_t generator, T *out, size_t count, Draw draw) {
    if (!generator) return CURAND_STATUS_NOT_INITIALIZED;
    if (broken()) return CURAND_STATUS_PREEXISTING_FAILURE;
    if (count == 0) return CURAND_STATUS_SUCCESS;
    wait_for_all();
    auto &engine = of(generator)->engine;
    Running here(of(generator)->stream);
    Box to{reinterpret_cast<char *>(out), 0, 0};
    Copy copy{"curandGenerate", to, {}, {count * sizeof(T), 1, 1}, 0};
    if (hooks) hooks->copied(&copy);
    for (size_t i = 0; i < count; i++) out[i] = T(draw(engine));
    return CURAND_STATUS_SUCCESS;
}

template <class T>
T unit(std::mt19937_64 &engine) {  // in (0, 1]: zero is left out, one is not
    constexpr int bits = std::is_same<T, float>::value ? 24 : 53;
    return T((engine() >> (64 - bits)) + 1) * std::ldexp(T(1), -bits);
}

template <class T>
curandStatus_t normal(curandGenerator_t generator, T *out, size_t count, T mean, T deviation,
                      bool logarithm) {
    if (count % 2) return CURAND_STATUS_LENGTH_NOT_MULTIPLE;
    std::normal_distribution<T> distribution(mean, deviation);
    return fill(generator, out, count, [&](std::mt19937_64 &engine) {
        T value = distribution(engine);
        return logarithm ? std::exp(value) : value;
    });
}
}  // namespace

API curandStatus_t curandCreateGenerator(curandGenerator_t *out, curandRngType_t type) {
    if (type >= CURAND_RNG_QUASI_DEFAULT) {
        say("curandCreateGenerator: quasi-random sequences are not served");
        return CURAND_STATUS_TYPE_ERROR;
    }
    *out = reinterpret_cast<curandGenerator_t>(new Generator{type});
    return CURAND_STATUS_SUCCESS;
}
API curandStatus_t curandCreateGeneratorHost(curandGenerator_t *out, curandRngType_t type) {
    return curandCreateGenerator(out, type);
}
API curandStatus_t curandDestroyGenerator(curandGenerator_t generator) {
    if (!generator) return CURAND_STATUS_NOT_INITIALIZED;
    delete of(generator);
    return CURAND_STATUS_SUCCESS;
}
API curandStatus_t curandSetPseudoRandomGeneratorSeed(curandGenerator_t generator,
                                                      unsigned long long seed) {
    of(generator)->seed = seed;
    of(generator)->engine.seed(seed);
    return CURAND_STATUS_SUCCESS;
}
API curandStatus_t curandSetGeneratorOffset(curandGenerator_t generator,
                                            unsigned long long offset) {
    of(generator)->engine.seed(of(generator)->seed);
    of(generator)->engine.discard(offset);
    return CURAND_STATUS_SUCCESS;
}
API curandStatus_t curandSetGeneratorOrdering(curandGenerator_t, curandOrdering_t) {
    return CURAND_STATUS_SUCCESS;
}
API curandStatus_t curandSetStream(curandGenerator_t generator, cudaStream_t stream) {
    of(generator)->stream = stream;
    return CURAND_STATUS_SUCCESS;
}
API curandStatus_t curandGenerateSeeds(curandGenerator_t) { return CURAND_STATUS_SUCCESS; }
API curandStatus_t curandGetVersion(int *version) {
    *version = CURAND_VERSION;
    return CURAND_STATUS_SUCCESS;
}

API curandStatus_t curandGenerate(curandGenerator_t generator, unsigned *out, size_t count) {
    return fill(generator, out, count,
                [](std::mt19937_64 &engine) { return unsigned(engine() >> 32); });
}
API curandStatus_t curandGenerateLongLong(curandGenerator_t generator, unsigned long long *out,
                                          size_t count) {
    return fill(generator, out, count, [](std::mt19937_64 &engine) { return engine(); });
}
API curandStatus_t curandGenerateUniform(curandGenerator_t generator, float *out, size_t count) {
    return fill(generator, out, count, unit<float>);
}
API curandStatus_t curandGenerateUniformDouble(curandGenerator_t generator, double *out,
                                               size_t count) {
    return fill(generator, out, count, unit<double>);
}
API curandStatus_t curandGenerateNormal(curandGenerator_t generator, float *out, size_t count,
                                        float mean, float deviation) {
    return normal(generator, out, count, mean, deviation, false);
}
API curandStatus_t curandGenerateNormalDouble(curandGenerator_t generator, double *out,
                                              size_t count, double mean, double deviation) {
    return normal(generator, out, count, mean, deviation, false);
}
API curandStatus_t curandGenerateLogNormal(curandGenerator_t generator, float *out, size_t count,
                                           float mean, float deviation) {
    return normal(generator, out, count, mean, deviation, true);
}
API curandStatus_t curandGenerateLogNormalDouble(curandGenerator_t generator, double *out,
                                                 size_t count, double mean, double deviation) {
    return normal(generator, out, count, mean, deviation, true);
}
API curandStatus_t curandGeneratePoisson(curandGenerator_t generator, unsigned *out, size_t count,
                                         double lambda) {
    std::poisson_distribution<unsigned> distribution(lambda);
    return fill(generator, out, count,
                [&](std::mt19937_64 &engine) { return distribution(engine); });
}
