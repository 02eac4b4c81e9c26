// Gradients of softmax and log-softmax. g is the gradient of the result y.
//   softmax:      d = y * (g - sum(g * y))
//   log-softmax:  d = g - exp(y) * sum(g)
#pragma once

template <bool LOG>
__device__ float term(float g, float y) {
    return LOG ? g : g * y;
}
template <bool LOG>
__device__ float gradient(float g, float y, float sum) {
    return LOG ? g - __expf(y) * sum : y * (g - sum);
}
