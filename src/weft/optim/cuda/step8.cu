// A step of Adam with states of 8 bits. A warp has a block of 256 elements that share a scale: 8
// for each lane.
#include <weft/convert.cuh>
#include <weft/warp.cuh>

#include "counts.cuh"
#include "dynamic.cuh"
#include "rules.cuh"
#include "table.cuh"

using namespace weft;

enum { EACH = 8 };

template <class T>
__device__ void read(T* to, const T* from, long long rest, bool whole) {
    if (whole && rest >= EACH) {
        *reinterpret_cast<Vector<T, EACH>*>(to) = load<EACH>(from);
    } else {
        for (int k = 0; k < EACH; k++) to[k] = k < rest ? from[k] : T(0.0f);
    }
}

template <class T>
__device__ void write(T* to, const T* from, long long rest, bool whole) {
    if (whole && rest >= EACH) {
        store(to, *reinterpret_cast<const Vector<T, EACH>*>(from));
    } else {
        for (int k = 0; k < EACH; k++)
            if (k < rest) to[k] = from[k];
    }
}

__device__ inline float largest(float x) {
    return warp_reduce(x, [](float a, float b) { return fmaxf(a, b); });
}

// The lists: parameters, gradients, codes of mean and variance, with MASTER the parameters in
// single precision, the scales of mean and variance, and step counts. Arguments as those of adam()
// in step.cu.
template <class P, bool MASTER, bool DECOUPLED, int THREADS, int CHUNK>
__global__ void __launch_bounds__(THREADS)
    adam8(const long long* words, int tensors, int lists, int* counter, float lr,
          const float* lr_at, double log_beta1, double log_beta2, float beta2, float rest1,
          float rest2, float eps, float decay, float sign, const float* factor,
          const float* divisor, const float* skip) {
    if (*skip != 0.0f) return;
    __shared__ WithSign means;
    __shared__ WithoutSign variances;
    means.begin(threadIdx.x), variances.begin(threadIdx.x);
    __syncthreads();
    Table table{words, tensors, lists};
    Chunk chunk(table, blockIdx.x, CHUNK);
    int t = chunk.tensor, lane = threadIdx.x % 32;
    Adam<DECOUPLED, false, true> rule(lr * *lr_at, *table.at<float>(lists - 1, t) + 1.0f, log_beta1,
                                      log_beta2, beta2, rest1, rest2, eps, decay);
    float grad_factor = sign * *factor / *divisor;
    P* p = table.at<P>(0, t);
    const P* g = table.at<P>(1, t);
    auto *mean = table.at<unsigned char>(2, t), *variance = table.at<unsigned char>(3, t);
    float* master = MASTER ? table.at<float>(4, t) : nullptr;
    auto *mean_scale = table.at<float>(4 + MASTER, t),
         *variance_scale = table.at<float>(5 + MASTER, t);
    size_t bits = reinterpret_cast<size_t>(p) | reinterpret_cast<size_t>(g) |
                  reinterpret_cast<size_t>(mean) | reinterpret_cast<size_t>(variance) |
                  reinterpret_cast<size_t>(master);
    bool whole = bits % 16 == 0;
    long long end = chunk.begin + chunk.count;
    for (long long first = chunk.begin + threadIdx.x / 32 * 256; first < end;
         first += THREADS * EACH) {
        long long i = first + lane * EACH, rest = end - i;
        alignas(16) P values[EACH], grads[EACH];
        alignas(16) float exact[EACH];
        alignas(8) unsigned char m[EACH], v[EACH];
        read(values, p + i, rest, whole), read(grads, g + i, rest, whole);
        read(m, mean + i, rest, whole), read(v, variance + i, rest, whole);
        if (MASTER) read(exact, master + i, rest, whole);
        float scale_m = mean_scale[first / 256], scale_v = variance_scale[first / 256], most_m = 0,
              most_v = 0;
        float new_m[EACH], new_v[EACH];
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            float state[2] = {means.decode(m[k]) * scale_m, variances.decode(v[k]) * scale_v};
            if (!MASTER) exact[k] = to<float>(values[k]);
            rule(exact[k], grad_factor * to<float>(grads[k]), state);
            values[k] = to<P>(exact[k]);
            new_m[k] = state[0], new_v[k] = state[1];
            most_m = fmaxf(most_m, fabsf(state[0])), most_v = fmaxf(most_v, state[1]);
        }
        scale_m = largest(most_m), scale_v = largest(most_v);
        float per_m = scale_m > 0 ? 1 / scale_m : 0, per_v = scale_v > 0 ? 1 / scale_v : 0;
#pragma unroll
        for (int k = 0; k < EACH; k++)
            m[k] = means.encode(new_m[k] * per_m), v[k] = variances.encode(new_v[k] * per_v);
        write(p + i, values, rest, whole);
        if (MASTER) write(master + i, exact, rest, whole);
        write(mean + i, m, rest, whole), write(variance + i, v, rest, whole);
        if (lane == 0) mean_scale[first / 256] = scale_m, variance_scale[first / 256] = scale_v;
    }
    count_step(table, counter);
}
