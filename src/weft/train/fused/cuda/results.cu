// The gradient of the second convolution's results, as planes: batch norm's, of which only the largest of four has an own part.
#include "net.cuh"

constexpr int THREADS = 256, CHUNKS = PITCH / 4;
__device__ int volumes[2] = {MAPS, RESULTS};  // numbers to allocate for an image

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

// [count][SECOND][MID] and [count][SECOND][WINDOWS] -> [count][RESULTS], times `scale`
template <bool EXACT>
__global__ void __launch_bounds__(THREADS)
    results(const float* __restrict__ raw, const float* __restrict__ map_gradient, const Norm* __restrict__ norms,
            const float* __restrict__ gain, const float* __restrict__ sums_of_norm, int parts, float* __restrict__ gradient, int count, float scale) {
    __shared__ Slope slope[SECOND];
    slopes(norms, gain, sums_of_norm, parts, count, slope);
    __syncthreads();
    for (int n = blockIdx.x; n < count; n += gridDim.x) {
        const float *own = map_gradient + (long long)n * FLAT, *all = raw + (long long)n * SECOND * MID;
        float* planes = gradient + (long long)n * RESULTS;
        // A thread writes four columns of two rows: two windows, the first of a row without its left neighbour.
#pragma unroll 2
        for (int i = blockIdx.y * THREADS + threadIdx.x; i < SECOND * QUARTER * CHUNKS; i += gridDim.y * THREADS) {
            int c = i / (QUARTER * CHUNKS), row = i / CHUNKS % QUARTER, chunk = i % CHUNKS;
            Slope at = slope[c];
            float g[2][4];
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                int column = 2 * chunk - 1 + j;  // of the windows
                bool exists = column >= 0 && column < QUARTER;
                const float* from = all + c * MID + row * 2 * HALF + column * 2;
                float2 up = {0, 0}, down = {0, 0};
                float dz = 0;
                if (exists) {
                    up = *reinterpret_cast<const float2*>(from), down = *reinterpret_cast<const float2*>(from + HALF);
                    dz = own[c * WINDOWS + row * QUARTER + column];
                }
                float y[4] = {up.x, up.y, down.x, down.y};
                Pooled pooled(fmaf(y[0], at.scale, at.shift), fmaf(y[1], at.scale, at.shift), fmaf(y[2], at.scale, at.shift),
                              fmaf(y[3], at.scale, at.shift));
#pragma unroll
                for (int k = 0; k < 4; ++k) {
                    float value = operand<EXACT>(scale * fmaf(at.own, pooled.place == k ? dz : 0.0f, fmaf(at.slope, y[k], at.rest)));
                    g[k / 2][2 * j + k % 2] = exists ? value : 0.0f;
                }
            }
            float* to = planes + plane_at(c) + (2 * row + 1) * PITCH + 4 * chunk - 1;
            *reinterpret_cast<float4*>(to) = {g[0][0], g[0][1], g[0][2], g[0][3]};
            *reinterpret_cast<float4*>(to + PITCH) = {g[1][0], g[1][1], g[1][2], g[1][3]};
        }
    }
}
