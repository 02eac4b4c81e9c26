// Convolution of 3 x 3 taps with stride 1 by Winograd's algorithm F(4 x 4, 3 x 3): 36 products for 16 results instead of 144. A
// tile of 6 x 6 pixels and a filter become 36 numbers each; these are multiplied place by place, summed over the channels (36
// matrix products, matmul.cu) and become a tile of 4 x 4 results. The transforms are those of polynomials at the points 0, 3/4,
// -3/4, 3/2, -3/2 and infinity: their rounding errors are half as large as with the common 0, 1, -1, 2, -2.

constexpr float A = 0.75f, B = 1.5f, AA = A * A, BB = B * B;                  // exact in binary
constexpr float F0 = 1 / (AA * BB), FA = 1 / (2 * AA * (AA - BB)), FB = 1 / (2 * BB * (BB - AA));

// Each has one direction of a transform: IN numbers become OUT.
struct Pixels {
    static constexpr int IN = 6, OUT = 6;
    static __device__ void apply(const float* v, float* t) {
        float e = v[4] - BB * v[2], o = A * (v[3] - BB * v[1]);
        t[1] = e + o, t[2] = e - o;
        e = v[4] - AA * v[2], o = B * (v[3] - AA * v[1]);
        t[3] = e + o, t[4] = e - o;
        t[0] = v[4] - (AA + BB) * v[2] + AA * BB * v[0], t[5] = v[5] - (AA + BB) * v[3] + AA * BB * v[1];
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
        y[0] = m[0] + s + u, y[1] = A * d + B * e, y[2] = AA * s + BB * u, y[3] = AA * A * d + BB * B * e + m[5];
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
        float s = FA * (m[1] + m[2]), d = FA * (m[1] - m[2]), u = FB * (m[3] + m[4]), e = FB * (m[3] - m[4]);
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

// Images as tiles of 4 x 4 results: tile (i, j) begins at row 4 i - pad_h and column 4 j - pad_w. `padded` is the number of tiles
// of the batch, rounded up to whole vectors. `wide`: rows of tiles are 16-byte vectors.
struct Tiles {
    int channels, h, w, pad_h, pad_w, tiles_h, tiles_w, count, padded, wide;
    long long batch, channel, row, column;
};

// One thread per tile and channel. `to` is [place][channel][tile]. Channels are blocks along y.
template <class L>
__global__ void __launch_bounds__(128) from_tiles(const float* x, float* to, const Tiles p) {
    int tile = blockIdx.x * 128 + threadIdx.x;
    if (tile >= p.padded) return;
    for (int c = blockIdx.y; c < p.channels; c += gridDim.y) {
        float of[L::IN][L::IN], made[L::OUT][L::OUT];
        int row = tile / p.tiles_w, j = tile - row * p.tiles_w, n = row / p.tiles_h, i = row - n * p.tiles_h;
        int h = i * 4 - p.pad_h, w = j * 4 - p.pad_w;
        const float* from = x + n * p.batch + c * p.channel + h * p.row + w * p.column;
#pragma unroll
        for (int r = 0; r < L::IN; ++r)
#pragma unroll
            for (int s = 0; s < L::IN; ++s) {
                bool inside = tile < p.count && unsigned(h + r) < p.h && unsigned(w + s) < p.w;
                of[r][s] = inside ? from[r * p.row + s * p.column] : 0;
            }
        transform<L>(of, made);
        float* out = to + (long long)c * p.padded + tile;
#pragma unroll
        for (int e = 0; e < 36; ++e) out[e * ((long long)p.channels * p.padded)] = made[e / 6][e % 6];
    }
}

// One thread per tile and channel: `from` is [place][channel][tile].
__global__ void __launch_bounds__(128) to_tiles(const float* from, const float* bias, float* y, const Tiles p) {
    int tile = blockIdx.x * 128 + threadIdx.x;
    if (tile >= p.count) return;
    for (int c = blockIdx.y; c < p.channels; c += gridDim.y) {
        float of[6][6], made[4][4];
        const float* in = from + (long long)c * p.padded + tile;
#pragma unroll
        for (int e = 0; e < 36; ++e) of[e / 6][e % 6] = in[e * ((long long)p.channels * p.padded)];
        transform<Results>(of, made);
        int row = tile / p.tiles_w, j = tile - row * p.tiles_w, n = row / p.tiles_h, i = row - n * p.tiles_h;
        float add = bias ? bias[c] : 0;
        float* to = y + n * p.batch + c * p.channel + i * 4 * p.row + j * 4 * p.column;
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            if (i * 4 + r >= p.h) break;
            if (p.wide)
                *reinterpret_cast<float4*>(to + r * p.row) =
                    make_float4(made[r][0] + add, made[r][1] + add, made[r][2] + add, made[r][3] + add);
            else
#pragma unroll
                for (int s = 0; s < 4; ++s)
                    if (j * 4 + s < p.w) to[r * p.row + s * p.column] = made[r][s] + add;
        }
    }
}

// Weights [K][C][3][3] become [place][C][K]; with BACK, turned by half a circle, [place][K][C]. One thread per filter and channel.
template <bool BACK>
__global__ void __launch_bounds__(128) from_filters(const float* weight, float* to, int K, int C) {
    long long index = blockIdx.x * 128ll + threadIdx.x, size = (long long)K * C;
    if (index >= size) return;
    int k = int(BACK ? index / C : index % K), c = int(BACK ? index % C : index / K);
    const float* from = weight + ((long long)k * C + c) * 9;
    float of[3][3], made[6][6];
#pragma unroll
    for (int e = 0; e < 9; ++e) of[e / 3][e % 3] = from[BACK ? 8 - e : e];
    transform<Filter>(of, made);
#pragma unroll
    for (int e = 0; e < 36; ++e) to[e * size + index] = made[e / 6][e % 6];
}

// The gradient of weights: [place][K][C] becomes [K][C][3][3]. One thread per filter and channel.
__global__ void __launch_bounds__(128) to_filters(const float* from, float* gradient, int K, int C) {
    long long index = blockIdx.x * 128ll + threadIdx.x, size = (long long)K * C;
    if (index >= size) return;
    float of[6][6], made[3][3];
#pragma unroll
    for (int e = 0; e < 36; ++e) of[e / 6][e % 6] = from[e * size + index];
    transform<FilterGradient>(of, made);
#pragma unroll
    for (int e = 0; e < 9; ++e) gradient[index * 9 + e] = made[e / 3][e % 3];
}
