// Score tiles in registers: masks, and the online softmax (Milakov and Gimelshein 2018).
#pragma once
#include "problem.cuh"
#include "mma.cuh"
#include "expression.cuh"

__device__ constexpr float NONE = -INFINITY;
constexpr float LARGE = 1 << 20;
// Powers of two by which weights may exceed 1 before sums are scaled again. The largest weight of a
// row is 1, which is exact as a 16-bit number, if it is 0, and less exact the larger it is; scaling
// takes time.
constexpr float SLACK = 0.25f;

// Kinds of mask. All but FREE scale the scores before they take the maximum: UNIFORM is for scales
// that are not positive, and WINDOW for windows without another mask. FREE has no first key.
// EXPRESSION: scores and mask are those of expression.cuh.
enum Mask { FREE, BOOLEAN, ADDED, ADDED_FLOAT, UNIFORM, WINDOW, EXPRESSION };

// What a packed row sees: keys from `first` up to `last`, and a mask.
template <class T, int MASK>
struct Row {
    static constexpr bool READS = MASK == BOOLEAN || MASK == ADDED || MASK == ADDED_FLOAT;
    static constexpr int SIZE = MASK == BOOLEAN ? 1 : MASK == ADDED_FLOAT ? 4 : sizeof(T);
    int first, last;
    const unsigned char* mask;  // at key 0
    long long step;             // bytes between keys
    const Expression* expression;
    int batch, head, query;  // of the expression

    __device__ void set(const Problem& p, const Span& span, const void* base, int batch, int head,
                        int row) {
        set<0>(p, span.keys, span.diagonal, base, batch, head, row);
    }
    // PACK: heads that are rows of the same tile; 0: p.pack.
    template <int PACK>
    __device__ void set(const Problem& p, int keys, int diagonal, const void* base, int batch,
                        int head, int row) {
        int pack = PACK ? PACK : p.pack, at = row / pack;
        first = at + diagonal - p.left, last = min(keys - 1, at + diagonal + p.right);
        if constexpr (READS) {
            long long offset =
                batch * p.mask.batch + at * p.mask.row + (head + row - at * pack) * p.mask.head;
            mask = static_cast<const unsigned char*>(base) + SIZE * offset,
            step = SIZE * p.mask.key;
        }
        if constexpr (MASK == EXPRESSION)
            expression = static_cast<const Expression*>(base), this->batch = batch,
            this->head = head + row - at * pack, query = at;
    }

    // A score as the mask changes it; -infinity for a hidden key. Scaled to powers of two unless
    // the mask is FREE.
    __device__ float masked(float s, int key, float scale) const {
        bool seen = key <= last;
        if constexpr (MASK != FREE) s *= scale, seen = seen && key >= first;
        if constexpr (READS) {
            const unsigned char* at = mask + (seen ? key * step : 0);
            if constexpr (MASK == BOOLEAN) seen = seen && *at;
            if constexpr (MASK == ADDED) s += LOG2E * to<float>(*reinterpret_cast<const T*>(at));
            if constexpr (MASK == ADDED_FLOAT) s += LOG2E * *reinterpret_cast<const float*>(at);
        }
        if constexpr (MASK == EXPRESSION) {
            if (!seen || !expression->mask(batch, head, query, key)) return NONE;
            return LOG2E * expression->score(LN2 * s, batch, head, query, key);
        }
        return seen ? s : NONE;
    }
};

// The rows of a lane: M tiles of 16 rows, and two rows of each tile, 8 apart.
template <class T, int M, int MASK>
struct Rows {
    Row<T, MASK> of[M][2];

    __device__ Rows() {}
    // Packed rows from `first` on; there are `rows`.
    __device__ Rows(const Problem& p, const Span& span, const void* mask, int batch, int head,
                    int first, int rows) {
        set<0>(p, span.keys, span.diagonal, mask, batch, head, first, rows);
    }
    template <int PACK>
    __device__ void set(const Problem& p, int keys, int diagonal, const void* mask, int batch,
                        int head, int first, int rows) {
#pragma unroll
        for (int i = 0; i < 2 * M; ++i) {
            int row = min(first + i * 8 + int(threadIdx.x) % 32 / 4, rows - 1);
            of[i / 2][i % 2].template set<PACK>(p, keys, diagonal, mask, batch, head, row);
        }
    }

    // Masks a tile of scores whose first key is `first`.
    template <int N>
    __device__ void hide(float (&s)[M][N][4], int first, float scale) const {
        int key = first + threadIdx.x % 4 * 2;
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
            for (int n = 0; n < N; ++n)
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    s[m][n][i] = of[m][i / 2].masked(s[m][n][i], key + n * 8 + i % 2, scale);
    }
};

// The larger score. NaN is ignored: its weight is NaN whatever the maximum is.
struct Larger {
    __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// The running maximum and sum of each row. A sum is of this lane's columns until `finish`.
template <int M>
struct Online {
    float most[M][2], sum[M][2];
    bool huge = false;  // the rounding of a maximum times the scale could overflow an exponential

    __device__ Online() {
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
            for (int half = 0; half < 2; ++half) most[m][half] = NONE, sum[m][half] = 0;
    }

    // Takes the maxima of a tile of scores into `most`, where one has grown by more than SLACK;
    // then the results so far must be multiplied by `factor`, as the sums are here.
    template <bool GUARDED, int N>
    __device__ bool raise(const float (&s)[M][N][4], float (&factor)[M][2], float scale) {
        float now[M][2];
        bool grows = false;
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float x = fmaxf(s[m][0][2 * half], s[m][0][2 * half + 1]);
#pragma unroll
                for (int n = 1; n < N; ++n)
                    x = fmaxf(x, fmaxf(s[m][n][2 * half], s[m][n][2 * half + 1]));
                now[m][half] = fmaxf(neighbour_reduce<4>(x, Larger()), most[m][half]);
                grows |= (now[m][half] - most[m][half]) * scale > SLACK;
            }
        if (!__any_sync(~0u, grows)) return false;
        bool large = false;
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                // A row without keys so far has the maximum -infinity, and -infinity - -infinity is
                // NaN.
                float base = GUARDED && now[m][half] == NONE ? 0 : now[m][half];
                factor[m][half] = exp2_approx((most[m][half] - base) * scale);
                most[m][half] = now[m][half], sum[m][half] *= factor[m][half];
                large |= fabsf(base * scale) > LARGE;
            }
        huge = __any_sync(~0u, large);
        return true;
    }

    template <int WIDTH>
    __device__ static void rescale(float (&o)[M][WIDTH][4], const float (&factor)[M][2]) {
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
            for (int n = 0; n < WIDTH; ++n)
#pragma unroll
                for (int i = 0; i < 4; ++i) o[m][n][i] *= factor[m][i / 2];
    }

    // Turns scores into weights relative to `most`, and adds them up.
    template <bool GUARDED, int N>
    __device__ void exponentials(float (&s)[M][N][4], float scale) {
        float base[M][2];
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
            for (int half = 0; half < 2; ++half)
                base[m][half] = GUARDED && most[m][half] == NONE ? 0 : most[m][half] * scale;
        if (huge) {
#pragma unroll
            for (int m = 0; m < M; ++m)
#pragma unroll
                for (int i = 0; i < 4; ++i) {
#pragma unroll
                    for (int n = 0; n < N; ++n) s[m][n][i] -= most[m][i / 2];
                    base[m][i / 2] = 0;
                }
        }
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
            for (int n = 0; n < N; ++n)
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    s[m][n][i] = exp2_approx(fmaf(s[m][n][i], scale, -base[m][i / 2]));
                    sum[m][i / 2] += s[m][n][i];
                }
    }

    // Turns scores into weights; scales the results `o` where maxima have grown.
    template <bool GUARDED, int N, int WIDTH>
    __device__ void weigh(float (&s)[M][N][4], float (&o)[M][WIDTH][4], float scale) {
        float factor[M][2];
        if (raise<GUARDED>(s, factor, scale)) rescale(o, factor);
        exponentials<GUARDED>(s, scale);
    }

    // Divides results by the sums; `most` becomes the logarithm of the sum to base 2, -infinity for
    // a row without keys.
    template <int WIDTH>
    __device__ void finish(float (&o)[M][WIDTH][4], float scale) {
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float total = neighbour_reduce<4>(sum[m][half], Plus()),
                      factor = total == 0 ? 0 : __fdividef(1, total);
                most[m][half] = total == 0 ? NONE : fmaf(most[m][half], scale, log2_approx(total));
#pragma unroll
                for (int n = 0; n < WIDTH; ++n)
                    o[m][n][2 * half] *= factor, o[m][n][2 * half + 1] *= factor;
            }
    }
};
