// Transforms of one length by a block: Stockham's algorithm, stage by stage through shared memory.
//
// A stage of radix R does N / R butterflies. Butterfly j reads the elements j + r N / R, multiplies
// them by roots of unity, transforms them in registers and writes element r to
// (j / P) P R + j % P + r P, where P is the product of the radices before. The result is in natural
// order. The first stage gets its elements from the caller and the last one leaves them there: both
// are the elements j + r N / R of each butterfly.
#pragma once
#include "butterfly.cuh"

__device__ constexpr int divided_up(int a, int b) { return (a + b - 1) / b; }

// N elements, T threads for each transform, and the radices of the stages.
template <int N_, int T_, int... R>
struct Stages {
    static constexpr int N = N_, T = T_, COUNT = sizeof...(R);
    __device__ static constexpr int radix(int s) {
        const int all[] = {R...};
        return all[s];
    }
    __device__ static constexpr int before(int s) { return s == 0 ? 1 : before(s - 1) * radix(s - 1); }
    // Butterflies of a thread in a stage, and elements that it holds at most.
    __device__ static constexpr int each(int s) { return divided_up(N / radix(s), T); }
    __device__ static constexpr int held() {
        int most = 0;
        for (int s = 0; s < COUNT; s++)
            if (each(s) * radix(s) > most) most = each(s) * radix(s);
        return most;
    }
    static constexpr int HELD = held();
    // Where the roots of a stage begin in the table: root k r of stage s is at [r - 1][k].
    __device__ static constexpr int roots(int s) {
        return s < 2 ? 0 : roots(s - 1) + before(s - 1) * (radix(s - 1) - 1);
    }
    // Blocks of an SM that the registers should allow: a thread needs 32 besides its elements.
    __device__ static constexpr int resident(int threads) {
#ifdef RESIDENT
        int blocks = RESIDENT / threads;
#else
        int blocks = 65536 / (2 * HELD + 32) / threads;
#endif
        return blocks > 0 ? blocks : 1;
    }
};

// C transforms of a block in shared memory. An element is left free after every PAD of them, and
// GAP after every transform, against bank conflicts. APART: one transform after another; else
// element by element of all transforms.
template <int N, int C_, int PAD, bool APART, int GAP>
struct Room {
    static constexpr int C = C_;
    __device__ static constexpr int padded(int i) { return PAD ? i + i / (PAD ? PAD : 1) : i; }
    static constexpr int PITCH = padded(N - 1) + 1 + GAP;
    __device__ static int at(int i, int c) {
        int p = PAD ? i + i / (PAD ? PAD : 1) : i;
        return APART ? c * PITCH + p : p * C + c;
    }
};

// Thread t of transform c. BY_COLUMN: adjacent threads have adjacent transforms.
struct Place {
    int t, c;
};
template <int T, int C, bool BY_COLUMN>
__device__ __forceinline__ Place place() {
    int i = threadIdx.x;
    if constexpr (C == 1) return {i, 0};
    else if constexpr (BY_COLUMN) return {i / C, i % C};
    else return {i % T, i / T};
}

// WARP: all threads of a transform are in one warp.
template <bool WARP>
__device__ __forceinline__ void wait() {
    if constexpr (WARP) __syncwarp();
    else __syncthreads();
}

// Calls f(index in v, element) for each element that a thread has before or after a stage.
template <class S, int STAGE, class F>
__device__ __forceinline__ void elements(int t, F&& f) {
    constexpr int R = S::radix(STAGE), COUNT = S::N / R;
    each<0, S::each(STAGE)>([&](auto b) {
        int j = t + b.value * S::T;
        if (COUNT % S::T == 0 || j < COUNT)
            each<0, R>([&](auto r) { f(b.value * R + r.value, j + r.value * COUNT); });
    });
}

__device__ constexpr int highest(int n) { return n < 2 ? n : 2 * highest(n / 2); }

template <class S, int STAGE>
__device__ __forceinline__ void butterflies(float2* v, int t, const float2* roots) {
    constexpr int R = S::radix(STAGE), P = S::before(STAGE), COUNT = S::N / R;
    each<0, S::each(STAGE)>([&](auto b) {
        float2* mine = v + b.value * R;
        if constexpr (STAGE > 0) {
            int j = t + b.value * S::T;
            if (COUNT % S::T == 0 || j < COUNT) {
                const float2* root = roots + S::roots(STAGE) + j % P;
#ifdef POWERS
                float2 w[R];
                each<1, R>([&](auto r) {
                    constexpr int n = decltype(r)::value, high = highest(n);
                    if constexpr (high == n) w[n] = __ldg(root + (n - 1) * P);
                    else w[n] = w[high] * w[n - high];
                    mine[n] = mine[n] * w[n];
                });
#else
                each<1, R>([&](auto r) {
                    mine[r.value] = mine[r.value] * __ldg(root + (r.value - 1) * P);
                });
#endif
            }
        }
        dft<R>(mine);
    });
}

// The stages from STAGE on. USED: shared memory may still be read from. The place of a thread
// changes at the first exchange where IN and OUT differ.
template <class S, class M, bool IN, bool OUT, bool USED, int STAGE = 0>
__device__ __forceinline__ void stages(float2* v, float2* shared, const float2* roots) {
    constexpr bool WARP = !IN && !OUT && 32 % S::T == 0;
    constexpr int R = S::radix(STAGE), P = S::before(STAGE), COUNT = S::N / R;
    Place from = place<S::T, M::C, IN>();
    butterflies<S, STAGE>(v, from.t, roots);
    if constexpr (STAGE + 1 < S::COUNT) {
        if constexpr (USED) wait<WARP>();
        each<0, S::each(STAGE)>([&](auto b) {
            int j = from.t + b.value * S::T;
            int base = j / P * P * R + j % P;
            if (COUNT % S::T == 0 || j < COUNT)
                each<0, R>([&](auto r) {
                    shared[M::at(base + r.value * P, from.c)] = v[b.value * R + r.value];
                });
        });
        wait<WARP>();
        Place to = place<S::T, M::C, OUT>();
        elements<S, STAGE + 1>(to.t, [&](int e, int i) { v[e] = shared[M::at(i, to.c)]; });
        stages<S, M, OUT, OUT, true, STAGE + 1>(v, shared, roots);
    }
}
