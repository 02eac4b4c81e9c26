// A layer of int4 weights for one token on tensor cores. The eight columns of B are eight slices of
// x, and the rows of A the same slices of two rows of the weight: lane i has 32 weights of each of
// them, and their x. Of the results those on the diagonal count. AHEAD steps of 1024 weights of a
// row are under way while one is multiplied.
#pragma once
#include <weft/convert.cuh>
#include <weft/dequantise.cuh>
#include <weft/mma.cuh>

using namespace weft;

// What a lane reads for a step: weights of two rows, and the scales of their groups.
struct Step {
    Vector<unsigned, 4> weights[2];
    float scale[2];
};

template <int AHEAD>
__device__ void gemv_tensor(const __nv_bfloat16* x, const unsigned char* w, const float* s,
                            __nv_bfloat16* y, int N, int G) {
    using T = __nv_bfloat16;
    auto *words = reinterpret_cast<const unsigned*>(w),
         *pairs = reinterpret_cast<const unsigned*>(x);
    int lane = lane_index(), n0 = (blockIdx.x * 8 + warp_index()) * 2;
    if (n0 >= N) return;
    Step steps[AHEAD];
    auto fetch = [&](Step& to_step, int group) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            size_t row = size_t(min(n0 + h, N - 1)) * G + group;
            to_step.weights[h] = fill<4>(0u), to_step.scale[h] = 0;
            if (group >= G) continue;
            to_step.weights[h] = load_once<4>(words + row * 16 + lane % 4 * 4);
            to_step.scale[h] = s[row];
        }
    };
    float total[4] = {};
    auto multiply = [&](const Step& of, int group) {
        float part[4] = {};
#pragma unroll
        for (int u = 0; u < 4; ++u) {
            Vector<unsigned, 4> eight = fill<4>(0u);
            if (group < G) eight = load<4>(pairs + group * 64 + (lane % 4 * 4 + u) * 4);
            unsigned low[4], high[4], b[4];
            dequantise_int4<T>(low, of.weights[0][u], MAGIC<T>);
            dequantise_int4<T>(high, of.weights[1][u], MAGIC<T>);
            arrange<Weights::INT4>(b, &eight[0]);
#pragma unroll
            for (int i = 0; i < 4; i += 2) {
                unsigned a[4] = {low[i], high[i], low[i + 1], high[i + 1]};
                mma<T>(part, a, b + i);
            }
        }
#pragma unroll
        for (int j = 0; j < 4; ++j) total[j] += part[j] * of.scale[j / 2];
    };
    int group = lane / 4;
#pragma unroll
    for (int i = 0; i < AHEAD; ++i) fetch(steps[i], group + i * 8);
    for (int begin = 0; begin < G; begin += 8 * AHEAD)
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            multiply(steps[i], group);
            fetch(steps[i], group + 8 * AHEAD);
            group += 8;
        }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        // Lane 4 r + c has columns 2 c and 2 c + 1 of row r.
        float sum = lane % 4 == lane / 8 ? total[2 * h + lane / 4 % 2] : 0;
        sum = warp_sum(sum);
        if (lane == 0 && n0 + h < N) y[n0 + h] = to<T>(sum);
    }
}
