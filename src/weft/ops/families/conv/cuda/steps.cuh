// The pixels over which the gradient of weights sums, as rows of a table in shared memory.
#pragma once
#include "window.cuh"

// A step along the depth: one pixel of dy and the corner of its window in x.
struct Step {
    long long dy, x;
    int a, b;  // MASKED: a bit for each tap that lies in x; else the row and column of the corner
    int there;
};

// The steps of a stage are computed once for the block, by BK threads, a stage before they are
// needed.
template <int BK, int STAGES, bool MASKED>
struct Steps {
    struct Position {
        int n, i, j;
    };
    Step table[STAGES][BK];
    Position at[BK],
        step;  // `step` is BK as images, rows and columns: a division would delay a whole stage
    int next[BK];

    // A barrier must follow, before `fill`.
    __device__ void start(const Conv& p, int k0) {
        if (threadIdx.x >= BK) return;
        at[threadIdx.x] = position(p, next[threadIdx.x] = k0 + threadIdx.x);
        if (threadIdx.x == 0) step = position(p, BK);
    }
    static __device__ Position position(const Conv& p, int index) {
        int row = index / p.target_w, n = row / p.target_h;
        return {n, row - n * p.target_h, index - row * p.target_w};
    }
    __device__ void fill(int stage, const Conv& p, int end) {
        if (threadIdx.x >= BK) return;
        int index = next[threadIdx.x];
        auto [n, i, j] = at[threadIdx.x];
        int h = i * p.stride_h - p.pad_h, w = j * p.stride_w - p.pad_w;
        Step s;
        s.there = index < end;
        s.dy = n * p.target[0] + i * p.target[2] + j * p.target[3];
        s.x = n * p.source[0] + h * p.source[2] + w * p.source[3];
        if constexpr (MASKED) {
            unsigned columns = 0, all = 0;
            for (int t = 0; t < p.S; ++t)
                columns |= unsigned(unsigned(w + t * p.dil_w) < p.source_w) << t;
            for (int t = 0; t < p.R; ++t)
                if (unsigned(h + t * p.dil_h) < p.source_h) all |= columns << (t * p.S);
            s.a = s.there ? all : 0;
        } else {
            s.a = s.there ? h : -(1 << 30), s.b = w;
        }
        table[stage][threadIdx.x] = s;
        next[threadIdx.x] = index + BK;
        n += step.n, i += step.i, j += step.j;
        if (j >= p.target_w) j -= p.target_w, ++i;
        if (i >= p.target_h) i -= p.target_h, ++n;
        at[threadIdx.x] = {n, i, j};
    }
};
