// Transforms of Winograd's algorithm F(4 x 4, 3 x 3): those of polynomials at the points 0, 43/64,
// -43/64, 3/2, -3/2 and infinity. The transform of results multiplies rounding errors of the
// products; these points have the least largest factor, 22, where the common 0, 1, -1, 2, -2 have
// 94. With 5 taps and 8 points they would be larger than the errors of a direct sum by more
// than ops allow.
#pragma once

constexpr float A = 0.671875f, B = 1.5f, AA = A * A, BB = B * B;  // exact in binary
constexpr float F0 = 1 / (AA * BB), FA = 1 / (2 * AA * (AA - BB)), FB = 1 / (2 * BB * (BB - AA));

// Each has one direction of a transform: IN numbers become OUT.
struct Pixels {
    static constexpr int IN = 6, OUT = 6;
    static __device__ void apply(const float* v, float* t) {
        float e = v[4] - BB * v[2], o = A * (v[3] - BB * v[1]);
        t[1] = e + o, t[2] = e - o;
        e = v[4] - AA * v[2], o = B * (v[3] - AA * v[1]);
        t[3] = e + o, t[4] = e - o;
        t[0] = v[4] - (AA + BB) * v[2] + AA * BB * v[0],
        t[5] = v[5] - (AA + BB) * v[3] + AA * BB * v[1];
    }
};
struct Filter {
    static constexpr int IN = 3, OUT = 6;
    static __device__ void apply(const float* g, float* t) {
        float e = FA * (g[0] + AA * g[2]), o = FA * A * g[1];
        t[1] = e + o, t[2] = e - o;
        e = FB * (g[0] + BB * g[2]), o = FB * B * g[1];
        t[3] = e + o, t[4] = e - o;
        t[0] = F0 * g[0], t[5] = g[2];
    }
};
struct Results {
    static constexpr int IN = 6, OUT = 4;
    static __device__ void apply(const float* m, float* y) {
        float s = m[1] + m[2], d = m[1] - m[2], u = m[3] + m[4], e = m[3] - m[4];
        y[0] = m[0] + s + u, y[1] = A * d + B * e, y[2] = AA * s + BB * u,
        y[3] = AA * A * d + BB * B * e + m[5];
    }
};
// The transposes of Results and Filter, for the gradient of weights.
struct Gradients {
    static constexpr int IN = 4, OUT = 6;
    static __device__ void apply(const float* y, float* t) {
        float e = y[0] + AA * y[2], o = A * y[1] + AA * A * y[3];
        t[1] = e + o, t[2] = e - o;
        e = y[0] + BB * y[2], o = B * y[1] + BB * B * y[3];
        t[3] = e + o, t[4] = e - o;
        t[0] = y[0], t[5] = y[3];
    }
};
struct FilterGradient {
    static constexpr int IN = 6, OUT = 3;
    static __device__ void apply(const float* m, float* g) {
        float s = FA * (m[1] + m[2]), d = FA * (m[1] - m[2]), u = FB * (m[3] + m[4]),
              e = FB * (m[3] - m[4]);
        g[0] = F0 * m[0] + s + u, g[1] = A * d + B * e, g[2] = AA * s + BB * u + m[5];
    }
};

// Both directions: of[IN][IN] becomes to[OUT][OUT].
template <class L>
__device__ void transform(const float (&of)[L::IN][L::IN], float (&to)[L::OUT][L::OUT]) {
    float half[L::IN][L::OUT];
#pragma unroll
    for (int i = 0; i < L::IN; ++i) L::apply(of[i], half[i]);
#pragma unroll
    for (int j = 0; j < L::OUT; ++j) {
        float column[L::IN], done[L::OUT];
#pragma unroll
        for (int i = 0; i < L::IN; ++i) column[i] = half[i][j];
        L::apply(column, done);
#pragma unroll
        for (int i = 0; i < L::OUT; ++i) to[i][j] = done[i];
    }
}

// Images as tiles of 4 x 4 results: conv/winograd.py declares `Tiles`.
STRUCT_TILES;

// The results of a tile of channel c. `from` is [place][part][channel][tile].
__device__ void results_of(float (&made)[4][4], const float* from, const Tiles& p, int c,
                           int tile) {
    float of[6][6];
    from += (long long)c * p.padded + tile;
    long long apart = (long long)p.channels * p.padded;
#pragma unroll
    for (int e = 0; e < 36; ++e) of[e / 6][e % 6] = from[e * p.parts * apart];
    for (int part = 1; part < p.parts; ++part)
#pragma unroll
        for (int e = 0; e < 36; ++e) of[e / 6][e % 6] += from[(e * p.parts + part) * apart];
    transform<Results>(of, made);
}
