// Results of the kernels on tensor cores: fragments of a warp, transposed in shared memory so that
// lanes write neighbours.
#pragma once
#include <weft/convert.cuh>
#include "epilogue.cuh"
#include "window.cuh"

using namespace weft;

// Four or eight results that are neighbours in the target and in `from`.
template <class Out, class Epilogue>
__device__ void write_vector(Out* y, const float* from, typename Epilogue::Channel own,
                             const Epilogue& epilogue) {
    constexpr int EACH = 16 / sizeof(Out);
    Vector<Out, EACH> v;
#pragma unroll
    for (int j = 0; j < EACH; j += 4) {
        float4 four = *reinterpret_cast<const float4*>(from + j);
        v[j] = to<Out>(own(four.x)), v[j + 1] = to<Out>(own(four.y));
        v[j + 2] = to<Out>(own(four.z)), v[j + 3] = to<Out>(own(four.w));
    }
    epilogue.write(y, v);
}

// Writes the results of a warp: WM pixels x WN channels, through `memory` of the warp. `offsets`
// has the places of its pixels in the target, or -1. Lanes write neighbours: pixels, or channels
// where these are innermost.
template <int WM, int WN, class Out, class Epilogue>
__device__ void write_pixels(const float (&of)[WM / 16][WN / 8][4], float* memory,
                             const long long* offsets, Out* y, const Epilogue& epilogue,
                             const Conv& p, int channel) {
    constexpr int PITCH = WM + 8, EACH = 16 / sizeof(Out);
    Out* mine = reinterpret_cast<Out*>(memory);
    int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int n = 0; n < WN / 8; ++n) {
        __syncwarp();
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            auto own = epilogue.channel(channel + n * 8 + t * 2 + e, p.target_c);
#pragma unroll
            for (int i = 0; i < WM / 8; ++i)
                mine[(t * 2 + e) * PITCH + i * 8 + g] = to<Out>(own(of[i / 2][n][i % 2 * 2 + e]));
        }
        __syncwarp();
        if (p.wide) {
#pragma unroll
            for (int e = lane; e < 8 * WM / EACH; e += 32) {
                int row = e / (WM / EACH), column = e % (WM / EACH) * EACH,
                    c = channel + n * 8 + row;
                long long at = offsets[column];
                Out* to = y + at + c * p.target[1];
                if (at >= 0 && c < p.target_c)
                    epilogue.write(to, load<EACH>(mine + row * PITCH + column));
            }
        } else {
#pragma unroll
            for (int e = lane; e < 8 * WM; e += 32) {
                int c = channel + n * 8 + e / WM;
                long long at = offsets[e % WM];
                Out* to = y + at + c * p.target[1];
                if (at >= 0 && c < p.target_c)
                    epilogue.write(to, load<1>(mine + e / WM * PITCH + e % WM));
            }
        }
    }
}

// Rows of 32 / sizeof(Out) pixels at a time.
template <int WM, int WN, class Out, class Epilogue>
__device__ void write_channels(const float (&of)[WM / 16][WN / 8][4], float* memory,
                               const long long* offsets, Out* y, const Epilogue& epilogue,
                               const Conv& p, int channel) {
    constexpr int PITCH = WN + 8, EACH = 16 / sizeof(Out), ROWS = 32 / sizeof(Out),
                  HALVES = 16 / ROWS;
    Out* mine = reinterpret_cast<Out*>(memory);
    int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    typename Epilogue::Channel own[WN / 8][2];
#pragma unroll
    for (int n = 0; n < WN / 8; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e)
            own[n][e] = epilogue.channel(channel + n * 8 + t * 2 + e, p.target_c);
#pragma unroll
    for (int i = 0; i < WM / ROWS; ++i) {
        __syncwarp();
#pragma unroll
        for (int n = 0; n < WN / 8; ++n)
#pragma unroll
            for (int e = 0; e < 2 / HALVES; ++e) {
                const float* pair = of[i / HALVES][n] + (i % HALVES + e) * 2;
                Vector<Out, 2> both = {{to<Out>(own[n][0](pair[0])), to<Out>(own[n][1](pair[1]))}};
                store(mine + (g + e * 8) * PITCH + n * 8 + t * 2, both);
            }
        __syncwarp();
        if (p.wide) {
#pragma unroll
            for (int e = lane; e < ROWS * WN / EACH; e += 32) {
                int row = e / (WN / EACH), column = e % (WN / EACH) * EACH;
                long long at = offsets[i * ROWS + row];
                Out* to = y + at + channel + column;
                if (at >= 0 && channel + column < p.target_c)
                    epilogue.write(to, load<EACH>(mine + row * PITCH + column));
            }
        } else {
            for (int e = lane; e < ROWS * WN; e += 32) {
                int c = channel + e % WN;
                long long at = offsets[i * ROWS + e / WN];
                if (at >= 0 && c < p.target_c)
                    epilogue.write(y + at + c, load<1>(mine + e / WN * PITCH + e % WN));
            }
        }
    }
}

// Floats of shared memory that a warp needs to write its results: places of its pixels in the
// target, and rows to transpose them.
template <class T, int WM, int WN>
__device__ constexpr int writing() {
    constexpr int PIXELS = 8 * (WM + 8) * sizeof(T), CHANNELS = 16 * (WN + 8) * 2;
    return (8 * WM + (PIXELS > CHANNELS ? PIXELS : CHANNELS)) / 4;
}
