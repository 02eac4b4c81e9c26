// The gradient of the second convolution's results: batch norm's, of which only the largest of four has an own part.
#pragma once
#include "net.cuh"

// gradient = own * dz + rest + slope * y
struct Slope {
    float own, rest, slope, scale, shift;
};

__device__ void slopes(const Norm* __restrict__ norms, const float* __restrict__ gain, const float* __restrict__ sums, int parts,
                       int count, Slope* slope) {
    for (int c = threadIdx.x; c < SECOND; c += blockDim.x) {
        double total = 0, along = 0, n = (double)count * MID;
        for (int p = 0; p < parts; ++p) total += sums[(p * SECOND + c) * 2], along += sums[(p * SECOND + c) * 2 + 1];
        Norm at = norms[c];
        double own = (double)gain[c] * at.inverse, steep = -own * at.inverse * along / n;
        slope[c] = {(float)own, (float)(-own * total / n - steep * at.mean), (float)steep, at.scale, at.shift};
    }
}

// The gradient of the second convolution's results, as planes with a border of zeros.
template <bool EXACT, int STEP>
__device__ void result_gradient(const float* __restrict__ raw, const float* __restrict__ map_gradient, const Slope* slope, float* planes) {
#pragma unroll 4
    for (int i = threadIdx.x; i < FLAT; i += blockDim.x) {
        int c = i / WINDOWS, w = i % WINDOWS, row = w / QUARTER * 2, column = w % QUARTER * 2;
        const float* from = raw + c * MID + row * HALF + column;
        float2 up = *reinterpret_cast<const float2*>(from), down = *reinterpret_cast<const float2*>(from + HALF);
        float dz = map_gradient[i];
        Slope at = slope[c];
        float y[4] = {up.x, up.y, down.x, down.y};
        Pooled pooled(fmaf(y[0], at.scale, at.shift), fmaf(y[1], at.scale, at.shift), fmaf(y[2], at.scale, at.shift),
                      fmaf(y[3], at.scale, at.shift));
        float* to = planes + c * STEP + (row + 1) * PITCH + column + 1;
#pragma unroll
        for (int j = 0; j < 4; ++j)
            to[j / 2 * PITCH + j % 2] =
                operand<EXACT>(fmaf(at.own, pooled.place == j ? dz : 0.0f, fmaf(at.slope, y[j], at.rest)));
    }
}
