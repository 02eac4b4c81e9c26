// The rules by which optimisers change an element: its parameter and its states, in single
// precision.
#pragma once
#include <weft/math.cuh>

// Adam, and AdamW where the decay is decoupled. States: mean, variance, and with AMSGrad the
// largest variance. ROUGH: division and square root are approximate, for states that are rounded
// anyway.
template <bool DECOUPLED, bool LARGEST, bool ROUGH = false>
struct Adam {
    static constexpr int STATES = LARGEST ? 3 : 2;
    float beta2, rest1, rest2, eps;  // rest: 1 - beta, rounded once
    float decay;                     // decoupled: what the parameter is multiplied by
    float step_size, root;  // learning rate / first bias correction; sqrt(second bias correction)
                            // (ROUGH: its inverse)

    // `count`: the steps including this one. In double precision, because 1 - beta^count cancels.
    __device__ Adam(float lr, float count, double log_beta1, double log_beta2, float beta2,
                    float rest1, float rest2, float eps, float decay)
        : beta2(beta2), rest1(rest1), rest2(rest2), eps(eps),
          decay(DECOUPLED ? 1.0 - double(lr) * decay : decay),
          step_size(static_cast<float>(lr / -expm1(count * log_beta1))),
          root(static_cast<float>(ROUGH ? 1 / sqrt(-expm1(count * log_beta2))
                                        : sqrt(-expm1(count * log_beta2)))) {}

    __device__ void operator()(float& p, float g, float* state) const {
        if (DECOUPLED) p *= decay;
        else if (decay != 0.0f) g = fmaf(decay, p, g);  // an infinite parameter times 0 is NaN
        state[0] = fmaf(rest1, g - state[0], state[0]);
        state[1] = fmaf(beta2, state[1], rest2 * g * g);
        float variance = state[1];
        if constexpr (LARGEST)
            variance = state[2] = variance > state[2] || variance != variance ? variance : state[2];
        if constexpr (ROUGH)
            p -= __fdividef(step_size * state[0], fmaf(weft::sqrt_approx(variance), root, eps));
        else p -= step_size * state[0] / (sqrtf(variance) / root + eps);
    }
};

// Gradient descent. State: the momentum, if there is one.
template <bool MOMENTUM, bool NESTEROV>
struct Sgd {
    static constexpr int STATES = MOMENTUM ? 1 : 0;
    float lr, momentum, rest,
        decay;  // rest: 1 - dampening, and 1 with momentum 0 in the first step

    __device__ void operator()(float& p, float g, float* state) const {
        if (decay != 0.0f) g = fmaf(decay, p, g);
        if constexpr (MOMENTUM) {
            state[0] = fmaf(momentum, state[0], rest * g);
            g = NESTEROV ? fmaf(momentum, state[0], g) : state[0];
        }
        p = fmaf(-lr, g, p);
    }
};
