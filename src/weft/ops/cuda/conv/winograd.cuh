// Transforms of Winograd's algorithm F(4, TAPS): those of polynomials at the points 0, infinity, and pairs of a number and its
// negative. The pairs 3/4 and 3/2 for 3 taps, and 1/2, 1 and 7/4 for 5, have the smallest rounding errors of those that were tried:
// with 3 taps half of those of the common 1 and 2.
#pragma once

// A pair of points has the number i < PAIRS, and the places 2 i + 1 and 2 i + 2 of a transform. Its place 0 is the point 0, the
// last one infinity. All numbers are constants once loops are
// unrolled; recursive functions would not be.
template <int TAPS>
struct Points {
    static constexpr int PAIRS = (TAPS + 1) / 2, SIZE = TAPS + 3;
    static_assert(TAPS == 3 || TAPS == 5, "the pairs are chosen for these");

    static constexpr __device__ float at(int i) {
        if (TAPS == 3) return i == 0 ? 0.75f : 1.5f;
        return i == 0 ? 0.5f : i == 1 ? 1.0f : 1.75f;
    }
    static constexpr __device__ float square(int i) { return at(i) * at(i); }
    static constexpr __device__ float power(int i, int n) { return n == 0 ? 1 : n == 1 ? square(i) : square(i) * square(i); }
    // The squares of the other pairs; with two pairs both are the same one.
    static constexpr __device__ float lower(int i) { return square(i == 0 ? 1 : 0); }
    static constexpr __device__ float upper(int i) { return square(i == PAIRS - 1 ? PAIRS - 2 : PAIRS - 1); }
    // Coefficient j of the product of (x - square(k)) over all pairs k but i, without that of the highest power, 1.
    static constexpr __device__ float without(int i, int j) {
        if (PAIRS == 2) return -lower(i);
        return j == 0 ? lower(i) * upper(i) : -(lower(i) + upper(i));
    }
    // The same over all pairs.
    static constexpr __device__ float coefficient(int j) {
        float q = square(0), rest = j < PAIRS - 1 ? -q * without(0, j) : -q;
        return j == 0 ? rest : rest + without(0, j - 1);
    }
    // The product without the pair i, at square(i).
    static constexpr __device__ float value(int i) {
        return PAIRS == 2 ? square(i) - lower(i) : (square(i) - lower(i)) * (square(i) - upper(i));
    }
    static constexpr __device__ float factor(int i) { return 1 / (2 * square(i) * value(i)); }
    static constexpr __device__ float zero() { return 1 / coefficient(0); }
};

// Each has one direction of a transform: IN numbers become OUT.
template <int TAPS>
struct Pixels {
    using P = Points<TAPS>;
    static constexpr int IN = P::SIZE, OUT = P::SIZE, PAIRS = P::PAIRS;
    static __device__ void apply(const float* v, float* t) {
        t[0] = v[2 * PAIRS], t[OUT - 1] = v[2 * PAIRS + 1];
#pragma unroll
        for (int j = 0; j < PAIRS; ++j) t[0] += P::coefficient(j) * v[2 * j], t[OUT - 1] += P::coefficient(j) * v[2 * j + 1];
#pragma unroll
        for (int i = 0; i < PAIRS; ++i) {
            float e = v[2 * PAIRS], o = v[2 * PAIRS - 1];
#pragma unroll
            for (int j = 0; j < PAIRS - 1; ++j) e += P::without(i, j) * v[2 * j + 2], o += P::without(i, j) * v[2 * j + 1];
            t[2 * i + 1] = e + P::at(i) * o, t[2 * i + 2] = e - P::at(i) * o;
        }
    }
};
template <int TAPS>
struct Filter {
    using P = Points<TAPS>;
    static constexpr int IN = TAPS, OUT = P::SIZE;
    static __device__ void apply(const float* g, float* t) {
        t[0] = P::zero() * g[0], t[OUT - 1] = g[TAPS - 1];
#pragma unroll
        for (int i = 0; i < P::PAIRS; ++i) {
            float e = 0, o = 0;
#pragma unroll
            for (int j = 0; j < TAPS; j += 2) e += P::power(i, j / 2) * g[j];
#pragma unroll
            for (int j = 1; j < TAPS; j += 2) o += P::power(i, j / 2) * g[j];
            e *= P::factor(i), o *= P::factor(i) * P::at(i);
            t[2 * i + 1] = e + o, t[2 * i + 2] = e - o;
        }
    }
};
template <int TAPS>
struct Results {
    using P = Points<TAPS>;
    static constexpr int IN = P::SIZE, OUT = 4;
    static __device__ void apply(const float* m, float* y) {
        y[0] = m[0], y[1] = 0, y[2] = 0, y[3] = m[IN - 1];
#pragma unroll
        for (int i = 0; i < P::PAIRS; ++i) {
            float s = m[2 * i + 1] + m[2 * i + 2], d = P::at(i) * (m[2 * i + 1] - m[2 * i + 2]);
            y[0] += s, y[1] += d, y[2] += P::square(i) * s, y[3] += P::square(i) * d;
        }
    }
};
// The transposes of Results and Filter, for the gradient of weights.
template <int TAPS>
struct Gradients {
    using P = Points<TAPS>;
    static constexpr int IN = 4, OUT = P::SIZE;
    static __device__ void apply(const float* y, float* t) {
        t[0] = y[0], t[OUT - 1] = y[3];
#pragma unroll
        for (int i = 0; i < P::PAIRS; ++i) {
            float e = y[0] + P::square(i) * y[2], o = P::at(i) * (y[1] + P::square(i) * y[3]);
            t[2 * i + 1] = e + o, t[2 * i + 2] = e - o;
        }
    }
};
template <int TAPS>
struct FilterGradient {
    using P = Points<TAPS>;
    static constexpr int IN = P::SIZE, OUT = TAPS;
    static __device__ void apply(const float* m, float* g) {
#pragma unroll
        for (int j = 0; j < TAPS; ++j) g[j] = j == 0 ? P::zero() * m[0] : j == TAPS - 1 ? m[IN - 1] : 0;
#pragma unroll
        for (int i = 0; i < P::PAIRS; ++i) {
            float s = P::factor(i) * (m[2 * i + 1] + m[2 * i + 2]), d = P::factor(i) * P::at(i) * (m[2 * i + 1] - m[2 * i + 2]);
#pragma unroll
            for (int j = 0; j < TAPS; ++j) g[j] += P::power(i, j / 2) * (j % 2 ? d : s);
        }
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

// The results of a tile of channel c. `from` is [place][channel][tile].
template <int TAPS>
__device__ void results_of(float (&made)[4][4], const float* from, const Tiles& p, int c, int tile) {
    constexpr int SIZE = TAPS + 3;
    float of[SIZE][SIZE];
    from += (long long)c * p.padded + tile;
#pragma unroll
    for (int e = 0; e < SIZE * SIZE; ++e) of[e / SIZE][e % SIZE] = from[e * ((long long)p.channels * p.padded)];
    transform<Results<TAPS>>(of, made);
}
