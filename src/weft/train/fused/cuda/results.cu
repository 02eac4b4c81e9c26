// The gradient of the second convolution's results, as planes: batch norm's, of which only the largest of four has an own part.
#include "net.cuh"

constexpr int THREADS = 256;

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

// [count][SECOND][MID] and [count][SECOND][WINDOWS] -> [count][RESULTS]
template <bool EXACT>
__global__ void __launch_bounds__(THREADS)
    results(const float* __restrict__ raw, const float* __restrict__ map_gradient, const Norm* __restrict__ norms,
            const float* __restrict__ gain, const float* __restrict__ sums_of_norm, int parts, float* __restrict__ gradient, int count) {
    __shared__ Slope slope[SECOND];
    slopes(norms, gain, sums_of_norm, parts, count, slope);
    __syncthreads();
    for (int n = blockIdx.x; n < count; n += gridDim.x) {
        const float *own = map_gradient + (long long)n * FLAT, *all = raw + (long long)n * SECOND * MID;
        float* planes = gradient + (long long)n * RESULTS;
#pragma unroll 4
        for (int i = blockIdx.y * THREADS + threadIdx.x; i < FLAT; i += gridDim.y * THREADS) {
            int c = i / WINDOWS, w = i % WINDOWS, row = w / QUARTER * 2, column = w % QUARTER * 2;
            const float* from = all + c * MID + row * HALF + column;
            float2 up = *reinterpret_cast<const float2*>(from), down = *reinterpret_cast<const float2*>(from + HALF);
            float dz = own[i];
            Slope at = slope[c];
            float y[4] = {up.x, up.y, down.x, down.y}, g[4];
            Pooled pooled(fmaf(y[0], at.scale, at.shift), fmaf(y[1], at.scale, at.shift), fmaf(y[2], at.scale, at.shift),
                          fmaf(y[3], at.scale, at.shift));
#pragma unroll
            for (int j = 0; j < 4; ++j)
                g[j] = operand<EXACT>(fmaf(at.own, pooled.place == j ? dz : 0.0f, fmaf(at.slope, y[j], at.rest)));
            float* to = planes + plane_at(c) + (row + 1) * PITCH + column + 1;
            *reinterpret_cast<float2*>(to) = {g[0], g[1]};
            *reinterpret_cast<float2*>(to + PITCH) = {g[2], g[3]};
        }
    }
}
