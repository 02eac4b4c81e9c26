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
    __device__ static constexpr int before(int s) {
        return s == 0 ? 1 : before(s - 1) * radix(s - 1);
    }
    // Butterflies of a thread in a stage, and elements that it holds at most.
    __device__ static constexpr int each(int s) { return divided_up(N / radix(s), T); }
    __device__ static constexpr int registers() {
        int most = 0;
        for (int s = 0; s < COUNT; s++)
            if (each(s) * radix(s) > most) most = each(s) * radix(s);
        return most;
    }
    static constexpr int REGS = registers();
    // Elements that have registers at once: a large prime has sums and differences besides.
    __device__ static constexpr int live() {
        int most = REGS;
        for (int s = 0; s < COUNT; s++)
            if (radix(s) > 16 && first_factor(radix(s)) == radix(s) && 2 * radix(s) > most)
                most = 2 * radix(s);
        return most;
    }
    // The start of a stage's roots in the table: root k r of stage s is at [r - 1][k].
    __device__ static constexpr int roots(int s) {
        return s < 2 ? 0 : roots(s - 1) + before(s - 1) * (radix(s - 1) - 1);
    }
    // Blocks of an SM that the registers should allow. A thread needs 40 besides its elements, or
    // 32 at the cost of some instructions: large blocks would else leave an SM half empty.
    __device__ static constexpr int resident(int threads) {
        int blocks = 65536 / (2 * live() + (threads < 256 ? 40 : 32)) / threads;
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
        return APART ? c * PITCH + padded(i) : padded(i) * C + c;
    }

    // From element i to i + d, if no free element between them depends on i: always if d is a
    // multiple of PAD. Then all addresses of a thread are constants apart.
    __device__ static constexpr int step(int d) { return padded(d) * (APART ? 1 : C); }
    __device__ static constexpr bool steps(int d) { return PAD == 0 || d % (PAD ? PAD : 1) == 0; }
    // The same for i = q P R + k with k < P, and d a multiple of P below P R.
    __device__ static constexpr bool steps_within(int P, int R) {
        constexpr int pad = PAD ? PAD : 1;
        return PAD % (P * R) == 0 || P % pad == 0 || (PAD % P == 0 && P * R % pad == 0);
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

// The largest power of two up to n.
__device__ constexpr int highest(int n) { return n < 2 ? n : 2 * highest(n / 2); }

// Multiplies by roots of unity and transforms in registers. Of the roots w^r only those with a
// power of two as r are loaded: a product costs less than a load, and one rounding.
template <class S, int STAGE>
__device__ __forceinline__ void butterflies(float2* v, int t, const float2* roots) {
    constexpr int R = S::radix(STAGE), P = S::before(STAGE), COUNT = S::N / R;
    each<0, S::each(STAGE)>([&](auto b) {
        float2* mine = v + b.value * R;
        if constexpr (STAGE > 0) {
            int j = t + b.value * S::T;
            if (COUNT % S::T == 0 || j < COUNT) {
                const float2* root = roots + S::roots(STAGE) + j % P;
                float2 w[R];
                each<1, R>([&](auto r) {
                    constexpr int n = decltype(r)::value, high = highest(n);
                    if constexpr (high == n) w[n] = __ldg(root + (n - 1) * P);
                    else w[n] = w[high] * w[n - high];
                    mine[n] = mine[n] * w[n];
                });
            }
        }
        dft<R>(mine);
    });
}

// Writes the results of a stage to shared memory.
template <class S, class M, int STAGE>
__device__ __forceinline__ void write(const float2* v, float2* shared, Place at) {
    constexpr int R = S::radix(STAGE), P = S::before(STAGE), T = S::T, COUNT = S::N / R;
    // The place of butterfly t; those of the thread's other butterflies follow at equal distances.
    constexpr bool APART = T % P == 0 && M::steps(T * R);
    int first = M::at(at.t / P * P * R + at.t % P, at.c);
    each<0, S::each(STAGE)>([&](auto b) {
        int j = at.t + b.value * T, base = j / P * P * R + j % P;
        int start = APART ? first + M::step(b.value * T * R) : M::at(base, at.c);
        if (COUNT % T == 0 || j < COUNT)
            each<0, R>([&](auto r) {
                constexpr int d = decltype(r)::value * P;
                int to = M::steps_within(P, R) ? start + M::step(d) : M::at(base + d, at.c);
                shared[to] = v[b.value * R + r.value];
            });
    });
}

// Reads the elements of a stage.
template <class S, class M, int STAGE>
__device__ __forceinline__ void read(float2* v, const float2* shared, Place at) {
    constexpr int R = S::radix(STAGE), COUNT = S::N / R;
    int first = M::at(at.t, at.c);
    each<0, S::each(STAGE)>([&](auto b) {
        if (COUNT % S::T == 0 || at.t + b.value * S::T < COUNT)
            each<0, R>([&](auto r) {
                constexpr int d = decltype(b)::value * S::T + decltype(r)::value * COUNT;
                v[b.value * R + r.value] =
                    shared[M::steps(d) ? first + M::step(d) : M::at(at.t + d, at.c)];
            });
    });
}

// The stages from STAGE on. USED: shared memory may still be read from. The place of a thread
// changes at the first exchange where IN and OUT differ.
template <class S, class M, bool IN, bool OUT, bool USED, int STAGE = 0>
__device__ __forceinline__ void stages(float2* v, float2* shared, const float2* roots) {
    constexpr bool WARP = !IN && !OUT && 32 % S::T == 0;
    Place from = place<S::T, M::C, IN>();
    butterflies<S, STAGE>(v, from.t, roots);
    if constexpr (STAGE + 1 < S::COUNT) {
        if constexpr (USED) wait<WARP>();
        write<S, M, STAGE>(v, shared, from);
        wait<WARP>();
        read<S, M, STAGE + 1>(v, shared, place<S::T, M::C, OUT>());
        stages<S, M, OUT, OUT, true, STAGE + 1>(v, shared, roots);
    }
}
