// Adds up the gradients that blocks left, and updates all parameters by stochastic gradient descent
// with momentum; or writes the gradients, for an optimiser that comes after.
#include "net.cuh"

constexpr int THREADS = 256, SHARES = 4, ELEMENTS = THREADS / SHARES;

// A parameter, and its momentum or, where the update comes later, its gradient.
struct Parameter {
    float *value, *state;
};
// In the order of PyTorch's layers: weight, gain and bias of both blocks, then weight and bias of
// both linear layers.
struct Parameters {
    Parameter p[10];
};
constexpr int SIZES[10] = {FIRST * TAPS, FIRST,         FIRST,  SECOND * DEPTH,   SECOND,
                           SECOND,       HIDDEN * FLAT, HIDDEN, CLASSES * HIDDEN, CLASSES};

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

// The first convolution and its batch norm, of some channels. With G[c][t], the sum of dz x[p + t],
// and D[c], the sum of dz, the gradient is gain * inverse * (G[t] - D / n * sum of x[p + t] - along
// / n * sum of normalised y x[p + t]).
constexpr int CHANNELS = 4, SUMS = CHANNELS * (TAPS + 1), LANES = THREADS / SUMS;
__device__ void first_block(const Parameters& all, const float* __restrict__ parts, int count,
                            const double* __restrict__ moments, const Norm* __restrict__ norms,
                            int block, const Update& update) {
    __shared__ double sums[SUMS], some[LANES][SUMS];
    __shared__ float weight[CHANNELS * TAPS];
    __shared__ double along[CHANNELS];
    int begin = block * CHANNELS;
    if (threadIdx.x < LANES * SUMS) {
        int at = threadIdx.x % SUMS, lane = threadIdx.x / SUMS;
        double sum = 0;
#pragma unroll 16
        for (int p = lane; p < count; p += LANES)
            sum += parts[(p * FIRST + begin) * (TAPS + 1) + at];
        some[lane][at] = sum;
    }
    if (threadIdx.x < CHANNELS * TAPS)
        weight[threadIdx.x] = all.p[0].value[begin * TAPS + threadIdx.x];
    __syncthreads();
    if (threadIdx.x < SUMS) {
        double sum = 0;
#pragma unroll
        for (int s = 0; s < LANES; ++s) sum += some[s][threadIdx.x];
        sums[threadIdx.x] = sum;
    }
    __syncthreads();
    if (threadIdx.x < CHANNELS) {
        const double* own = sums + threadIdx.x * (TAPS + 1);
        Norm norm = norms[begin + threadIdx.x];
        double x = -norm.mean * own[TAPS];
#pragma unroll
        for (int t = 0; t < TAPS; ++t) x += weight[threadIdx.x * TAPS + t] * own[t];
        along[threadIdx.x] = x * norm.inverse;
    }
    __syncthreads();
    if (threadIdx.x < CHANNELS * TAPS) {
        int c = threadIdx.x / TAPS, t = threadIdx.x % TAPS;
        Norm norm = norms[begin + c];
        // The moments are means: of x[p + t] x[p + s], and of x[p + t].
        double mean = moments[t * (TAPS + 1) + TAPS], y = -norm.mean * mean;
#pragma unroll
        for (int s = 0; s < TAPS; ++s) y += weight[c * TAPS + s] * moments[t * (TAPS + 1) + s];
        const double* own = sums + c * (TAPS + 1);
        double scale = (double)all.p[1].value[begin + c] * norm.inverse;
        update(all.p[0], begin * TAPS + threadIdx.x,
               (float)(scale * (own[t] - own[TAPS] * mean - along[c] * y * norm.inverse)));
    }
    __syncthreads();  // the gain is read above
    if (threadIdx.x < CHANNELS) {
        update(all.p[1], begin + threadIdx.x, (float)along[threadIdx.x]);
        update(all.p[2], begin + threadIdx.x, (float)sums[threadIdx.x * (TAPS + 1) + TAPS]);
    }
}

__device__ void second_weight(const Parameter& p, const float* __restrict__ parts, int count,
                              int block, const Update& update) {
    __shared__ float some[SHARES][ELEMENTS];
    int share = threadIdx.x / ELEMENTS, i = block * ELEMENTS + threadIdx.x % ELEMENTS;
    float sum = 0;
#pragma unroll 16
    for (int part = share; part < count; part += SHARES)
        sum += parts[(long long)part * SECOND * DEPTH + i];
    some[share][threadIdx.x % ELEMENTS] = sum;
    __syncthreads();
    if (share) return;
#pragma unroll
    for (int s = 1; s < SHARES; ++s) sum += some[s][threadIdx.x];
    int out = i / DEPTH, tap = i % DEPTH / FIRST, in = i % FIRST;
    update(p, (out * FIRST + in) * TAPS + tap, sum);
}

__device__ void hidden_weight(const Parameter& p, const float* __restrict__ parts, int count,
                              int block, const Update& update) {
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
    float4 state = reinterpret_cast<float4*>(p.state)[i],
           value = reinterpret_cast<float4*>(p.value)[i];
    state = {fmaf(update.momentum, state.x, sum.x), fmaf(update.momentum, state.y, sum.y),
             fmaf(update.momentum, state.z, sum.z), fmaf(update.momentum, state.w, sum.w)};
    reinterpret_cast<float4*>(p.state)[i] = state;
    reinterpret_cast<float4*>(p.value)[i] = {
        value.x - update.rate * state.x, value.y - update.rate * state.y,
        value.z - update.rate * state.z, value.w - update.rate * state.w};
}

// The rest is complete already.
__device__ void small(const Parameters& all, const float* __restrict__ sums_of_norm, int parts,
                      const float* __restrict__ gradients, int block, const Update& update) {
    int i = block * THREADS + threadIdx.x;
    if (i < SECOND) {
        double2 sum = sums_of_channel(sums_of_norm, parts, i);
        update(all.p[4], i, (float)sum.y);
        update(all.p[5], i, (float)sum.x);
        return;
    }
    i -= SECOND;
    if (i < HIDDEN) update(all.p[7], i, gradients[i]);
    else if (i < (CLASSES + 1) * HIDDEN) update(all.p[8], i - HIDDEN, gradients[i]);
    else if (i < (CLASSES + 1) * HIDDEN + CLASSES)
        update(all.p[9], i - (CLASSES + 1) * HIDDEN, gradients[i]);
}

constexpr int SMALL = (SECOND + (CLASSES + 1) * HIDDEN + CLASSES + THREADS - 1) / THREADS,
              WEIGHT = SECOND * DEPTH / ELEMENTS;
static_assert(SECOND * DEPTH % ELEMENTS == 0, "whole blocks");

extern "C" __global__ void __launch_bounds__(THREADS)
    update(float* first_weight, float* first_gain, float* first_bias, float* second_weight_,
           float* second_gain, float* second_bias, float* hidden_weight_, float* hidden_bias,
           float* last_weight, float* last_bias, float* states,
           const float* __restrict__ first_parts, int firsts, const double* __restrict__ moments,
           const Norm* __restrict__ norms, const float* __restrict__ second_parts, int seconds,
           const float* __restrict__ hidden_parts, int hiddens,
           const float* __restrict__ sums_of_norm, const float* __restrict__ gradients,
           const float* __restrict__ rate, float momentum, int apply) {
    float* const values[10] = {first_weight, first_gain,  first_bias,     second_weight_,
                               second_gain,  second_bias, hidden_weight_, hidden_bias,
                               last_weight,  last_bias};
    Parameters all;
#pragma unroll
    for (int i = 0; i < 10; ++i) {
        all.p[i] = {values[i], states};
        states += SIZES[i];
    }
    // The longest work first.
    Update how = {apply ? *rate : 0.0f, momentum, apply != 0};
    int block = blockIdx.x;
    if (block < FIRST / CHANNELS) first_block(all, first_parts, firsts, moments, norms, block, how);
    else if ((block -= FIRST / CHANNELS) < WEIGHT)
        second_weight(all.p[3], second_parts, seconds, block, how);
    else if ((block -= WEIGHT) < SMALL) small(all, sums_of_norm, hiddens, gradients, block, how);
    else hidden_weight(all.p[6], hidden_parts, hiddens, block - SMALL, how);
}
