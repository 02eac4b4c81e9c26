// Adds up the gradients that blocks left, and updates all parameters by stochastic gradient descent with momentum; or writes the
// gradients, for an optimiser that comes after.
#include "net.cuh"

constexpr int THREADS = 256, SHARES = 4, ELEMENTS = THREADS / SHARES;

// A parameter, and its momentum or, where the update comes later, its gradient.
struct Parameter {
    float *value, *state;
};
// In the order of PyTorch's layers: weight, gain and bias of both blocks, then weight and bias of both linear layers.
struct Parameters {
    Parameter p[10];
};
constexpr int SIZES[10] = {FIRST * TAPS, FIRST, FIRST, SECOND * DEPTH, SECOND, SECOND, HIDDEN * FLAT, HIDDEN, CLASSES * HIDDEN, CLASSES};

struct Update {
    float rate, momentum;
    bool apply;
    __device__ inline void operator()(const Parameter& p, int i, float gradient) const {
        if (!apply) {
            p.state[i] = gradient;
            return;
        }
        float state = fmaf(momentum, p.state[i], gradient);
        p.state[i] = state;
        p.value[i] -= rate * state;
    }
};

// The first convolution and its batch norm. With G[c][t], the sum of dz x[p + t], and D[c], the sum of dz, the gradient is
// gain * inverse * (G[t] - D / n * sum of x[p + t] - along / n * sum of normalised y x[p + t]).
__device__ void first_block(const Parameters& all, const float* __restrict__ parts, int count, const double* __restrict__ moments,
                            const Norm* __restrict__ norms, const Update& update) {
    constexpr int SUMS = FIRST * (TAPS + 1);
    __shared__ double sums[SUMS], some[SHARES][SUMS];
    __shared__ float weight[FIRST * TAPS], scales[FIRST];
    __shared__ double along[FIRST];
    for (int i = threadIdx.x; i < SHARES * SUMS; i += THREADS) {
        double sum = 0;
#pragma unroll 16
        for (int p = i / SUMS; p < count; p += SHARES) sum += parts[p * SUMS + i % SUMS];
        some[i / SUMS][i % SUMS] = sum;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < SUMS; i += THREADS) {
        double sum = 0;
#pragma unroll
        for (int s = 0; s < SHARES; ++s) sum += some[s][i];
        sums[i] = sum;
    }
    for (int i = threadIdx.x; i < FIRST * TAPS; i += THREADS) weight[i] = all.p[0].value[i];
    __syncthreads();
    for (int c = threadIdx.x; c < FIRST; c += THREADS) {
        const double* own = sums + c * (TAPS + 1);
        double x = -norms[c].mean * own[TAPS];
#pragma unroll
        for (int t = 0; t < TAPS; ++t) x += weight[c * TAPS + t] * own[t];
        along[c] = x * norms[c].inverse;
        scales[c] = all.p[1].value[c] * norms[c].inverse;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < FIRST * (TAPS + 2); i += THREADS) {
        int c = i / (TAPS + 2), t = i % (TAPS + 2);
        if (t == TAPS) update(all.p[1], c, (float)along[c]);
        else if (t > TAPS) update(all.p[2], c, (float)sums[c * (TAPS + 1) + TAPS]);
        else {
            // The moments are means: of x[p + t] x[p + s], and of x[p + t].
            double mean = moments[t * (TAPS + 1) + TAPS], y = -norms[c].mean * mean;
#pragma unroll
            for (int s = 0; s < TAPS; ++s) y += weight[c * TAPS + s] * moments[t * (TAPS + 1) + s];
            const double* own = sums + c * (TAPS + 1);
            update(all.p[0], c * TAPS + t, (float)(scales[c] * (own[t] - own[TAPS] * mean - along[c] * y * norms[c].inverse)));
        }
    }
}

__device__ void second_weight(const Parameter& p, const float* __restrict__ parts, int count, int block, const Update& update) {
    __shared__ float some[SHARES][ELEMENTS];
    int share = threadIdx.x / ELEMENTS, i = block * ELEMENTS + threadIdx.x % ELEMENTS;
    float sum = 0;
#pragma unroll 8
    for (int part = share; part < count; part += SHARES) sum += parts[(long long)part * SECOND * DEPTH + i];
    some[share][threadIdx.x % ELEMENTS] = sum;
    __syncthreads();
    if (share) return;
#pragma unroll
    for (int s = 1; s < SHARES; ++s) sum += some[s][threadIdx.x];
    int out = i / DEPTH, tap = i % DEPTH / FIRST, in = i % FIRST;
    update(p, (out * FIRST + in) * TAPS + tap, sum);
}

__device__ void hidden_weight(const Parameter& p, const float* __restrict__ parts, int count, int block, const Update& update) {
    constexpr int SIZE = HIDDEN * FLAT / 4;
    int i = block * THREADS + threadIdx.x;
    if (i >= SIZE) return;
    float4 sum = reinterpret_cast<const float4*>(parts)[i];
#pragma unroll 4
    for (int part = 1; part < count; ++part) {
        float4 x = reinterpret_cast<const float4*>(parts)[(long long)part * SIZE + i];
        sum.x += x.x, sum.y += x.y, sum.z += x.z, sum.w += x.w;
    }
    if (!update.apply) {
        reinterpret_cast<float4*>(p.state)[i] = sum;
        return;
    }
    float4 state = reinterpret_cast<float4*>(p.state)[i], value = reinterpret_cast<float4*>(p.value)[i];
    state = {fmaf(update.momentum, state.x, sum.x), fmaf(update.momentum, state.y, sum.y), fmaf(update.momentum, state.z, sum.z),
             fmaf(update.momentum, state.w, sum.w)};
    reinterpret_cast<float4*>(p.state)[i] = state;
    reinterpret_cast<float4*>(p.value)[i] = {value.x - update.rate * state.x, value.y - update.rate * state.y,
                                             value.z - update.rate * state.z, value.w - update.rate * state.w};
}

// The rest is complete already.
__device__ void small(const Parameters& all, const float* __restrict__ sums_of_norm, int parts, const float* __restrict__ gradients,
                      int block, const Update& update) {
    int i = block * THREADS + threadIdx.x;
    if (i < SECOND) {
        double total = 0, along = 0;
        for (int p = 0; p < parts; ++p) total += sums_of_norm[(p * SECOND + i) * 2], along += sums_of_norm[(p * SECOND + i) * 2 + 1];
        update(all.p[4], i, (float)along);
        update(all.p[5], i, (float)total);
        return;
    }
    i -= SECOND;
    if (i < HIDDEN) update(all.p[7], i, gradients[i]);
    else if (i < (CLASSES + 1) * HIDDEN) update(all.p[8], i - HIDDEN, gradients[i]);
    else if (i < (CLASSES + 1) * HIDDEN + CLASSES) update(all.p[9], i - (CLASSES + 1) * HIDDEN, gradients[i]);
}

constexpr int SMALL = (SECOND + (CLASSES + 1) * HIDDEN + CLASSES + THREADS - 1) / THREADS, WEIGHT = SECOND * DEPTH / ELEMENTS;
static_assert(SECOND * DEPTH % ELEMENTS == 0, "whole blocks");

extern "C" __global__ void __launch_bounds__(THREADS)
    update(float* first_weight, float* first_gain, float* first_bias, float* second_weight_, float* second_gain, float* second_bias,
           float* hidden_weight_, float* hidden_bias, float* last_weight, float* last_bias, float* states, const float* __restrict__ first_parts, int firsts, const double* __restrict__ moments,
           const Norm* __restrict__ norms, const float* __restrict__ second_parts, int seconds, const float* __restrict__ hidden_parts,
           int hiddens, const float* __restrict__ sums_of_norm, const float* __restrict__ gradients,
           const float* __restrict__ rate, float momentum, int apply) {
    float* const values[10] = {first_weight, first_gain, first_bias, second_weight_, second_gain, second_bias, hidden_weight_, hidden_bias,
                               last_weight, last_bias};
    Parameters all;
#pragma unroll
    for (int i = 0; i < 10; ++i) {
        all.p[i] = {values[i], states};
        states += SIZES[i];
    }
    // The longest work first.
    Update how = {apply ? *rate : 0.0f, momentum, apply != 0};
    int block = blockIdx.x;
    if (block == 0) first_block(all, first_parts, firsts, moments, norms, how);
    else if ((block -= 1) < WEIGHT) second_weight(all.p[3], second_parts, seconds, block, how);
    else if ((block -= WEIGHT) < SMALL) small(all, sums_of_norm, hiddens, gradients, block, how);
    else hidden_weight(all.p[6], hidden_parts, hiddens, block - SMALL, how);
}
