// cuRAND's host interface. NVIDIA's library also has generators that run on the host and give the
// same numbers; calls are forwarded to these.
#include "../watch.h"
#include "library.h"

#include <curand.h>
#include <dlfcn.h>

using namespace weft;

namespace {
std::string &curand_path() {
    static std::string found;
    return found;
}

// A function of NVIDIA's library, or null.
template <class F>
F *real_curand(const char *name) {
    // Deep binding: the library must not find the functions below in place of its own.
    static void *library = dlopen(curand_path().c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    static std::once_flag once;
    if (!library)
        std::call_once(once, [] {
            say("cuRAND's library was not found: pip install 'weft-gpu[curand]'");
        });
    return library ? reinterpret_cast<F *>(dlsym(library, name)) : nullptr;
}

template <class F, class... A>
curandStatus_t forward_curand(const char *name, A... arguments) {
    auto *function = real_curand<F>(name);
    return function ? function(arguments...) : CURAND_STATUS_NOT_INITIALIZED;
}
#define FORWARD(name, ...) forward_curand<decltype(name)>(#name, __VA_ARGS__)

struct Generator {
    curandGenerator_t real;
    cudaStream_t stream = nullptr;
};
Generator *of(curandGenerator_t generator) { return reinterpret_cast<Generator *>(generator); }

curandStatus_t create(curandGenerator_t *out, curandRngType_t type) {
    curandGenerator_t made;
    if (auto error = FORWARD(curandCreateGeneratorHost, &made, type)) return error;
    *out = reinterpret_cast<curandGenerator_t>(new Generator{made});
    return CURAND_STATUS_SUCCESS;
}

// The host writes the numbers after all work that was submitted.
template <class T, class Draw>
curandStatus_t fill(curandGenerator_t generator, T *out, size_t count, Draw draw) {
    if (!generator) return CURAND_STATUS_NOT_INITIALIZED;
    if (broken()) return CURAND_STATUS_PREEXISTING_FAILURE;
    wait_for_all();
    Running here(of(generator)->stream);
    auto *bytes = reinterpret_cast<char *>(out);
    Copy copy{"curandGenerate", {bytes, 0, 0}, {}, {count * sizeof(T), 1, 1}, 0};
    if (hooks && count) hooks->copied(&copy);
    return draw(of(generator)->real);
}
}  // namespace

API void weft_curand(const char *library) { curand_path() = library; }

API curandStatus_t curandCreateGenerator(curandGenerator_t *out, curandRngType_t type) {
    return create(out, type);
}
API curandStatus_t curandCreateGeneratorHost(curandGenerator_t *out, curandRngType_t type) {
    return create(out, type);
}
API curandStatus_t curandDestroyGenerator(curandGenerator_t generator) {
    if (!generator) return CURAND_STATUS_NOT_INITIALIZED;
    auto status = FORWARD(curandDestroyGenerator, of(generator)->real);
    delete of(generator);
    return status;
}
API curandStatus_t curandSetStream(curandGenerator_t generator, cudaStream_t stream) {
    return set(of(generator)->stream, stream);
}
API curandStatus_t curandGetVersion(int *version) { return set(*version, CURAND_VERSION); }

#define SETTING(name, T)                                             \
    API curandStatus_t name(curandGenerator_t generator, T value) {  \
        if (!generator) return CURAND_STATUS_NOT_INITIALIZED;        \
        return FORWARD(name, of(generator)->real, value);            \
    }
SETTING(curandSetPseudoRandomGeneratorSeed, unsigned long long)
SETTING(curandSetGeneratorOffset, unsigned long long)
SETTING(curandSetGeneratorOrdering, curandOrdering_t)
SETTING(curandSetQuasiRandomGeneratorDimensions, unsigned)
API curandStatus_t curandGenerateSeeds(curandGenerator_t generator) {
    if (!generator) return CURAND_STATUS_NOT_INITIALIZED;
    return FORWARD(curandGenerateSeeds, of(generator)->real);
}

#define NUMBERS(name, T, DECLARED, ...)                                              \
    API curandStatus_t name(curandGenerator_t generator, T *out, size_t count DECLARED) { \
        return fill(generator, out, count, [=](curandGenerator_t real) {             \
            return FORWARD(name, real, out, count __VA_ARGS__);                      \
        });                                                                          \
    }
#define COMMA ,
NUMBERS(curandGenerate, unsigned, )
NUMBERS(curandGenerateLongLong, unsigned long long, )
NUMBERS(curandGenerateUniform, float, )
NUMBERS(curandGenerateUniformDouble, double, )
NUMBERS(curandGenerateNormal, float, COMMA float mean COMMA float deviation, , mean, deviation)
NUMBERS(curandGenerateNormalDouble, double, COMMA double mean COMMA double deviation, , mean,
        deviation)
NUMBERS(curandGenerateLogNormal, float, COMMA float mean COMMA float deviation, , mean, deviation)
NUMBERS(curandGenerateLogNormalDouble, double, COMMA double mean COMMA double deviation, , mean,
        deviation)
NUMBERS(curandGeneratePoisson, unsigned, COMMA double lambda, , lambda)

// ---- tables of quasi-random sequences -----------------------------------------------------------

API curandStatus_t curandGetDirectionVectors32(curandDirectionVectors32_t *out[],
                                               curandDirectionVectorSet_t set) {
    return FORWARD(curandGetDirectionVectors32, out, set);
}
API curandStatus_t curandGetDirectionVectors64(curandDirectionVectors64_t *out[],
                                               curandDirectionVectorSet_t set) {
    return FORWARD(curandGetDirectionVectors64, out, set);
}
API curandStatus_t curandGetScrambleConstants32(unsigned **constants) {
    return FORWARD(curandGetScrambleConstants32, constants);
}
API curandStatus_t curandGetScrambleConstants64(unsigned long long **constants) {
    return FORWARD(curandGetScrambleConstants64, constants);
}
