// Products of 16-bit tiles in shared memory on tensor cores; copies of their rows from global
// memory, and stores of results.
#pragma once
#include <weft/async.cuh>
#include <weft/block.cuh>
#include <weft/convert.cuh>
#include <weft/mma.cuh>

using namespace weft;

// Constants as arguments.
template <int N>
struct Count {
    static constexpr int value = N;
};
template <bool B>
struct Is {
    static constexpr bool value = B;
};

constexpr float LOG2E = 1.44269504f, LN2 = 0.69314718f;

// Elements of a row in shared memory. The 16 additional bytes put the 8 rows of an 8 x 8 matrix
// into different banks.
__device__ constexpr int pitch(int head) { return head + 8; }

// Copies ROWS rows from row `first` on, 16 bytes at a time: rows are aligned and end with whole
// vectors, see pad.cu. Rows from `rows` on and vectors from `depth` on become zeros. `at` gives the
// address of a row.
template <int ROWS, int HEAD, int THREADS, class T, class At>
__device__ void fetch(T* shared, int first, int rows, int depth, At at) {
    constexpr int ACROSS = HEAD / 8;
#pragma unroll
    for (int i = 0; i < (ROWS * ACROSS + THREADS - 1) / THREADS; ++i) {
        int n = i * THREADS + threadIdx.x, r = n / ACROSS, c = n % ACROSS * 8;
        if (ROWS * ACROSS % THREADS && n >= ROWS * ACROSS) break;
        bool inside = first + r < rows && c < depth;
        const T* from = at(inside ? first + r : 0) + (inside ? c : 0);
        copy_async<16>(shared_address(shared + r * pitch(HEAD) + c), from, inside);
    }
}

// The same for rows that are `stride` apart. A thread stays in its column, so that its addresses
// are one sum apart.
template <int ROWS, int HEAD, int THREADS, class T>
__device__ void fetch(T* shared, int first, int rows, int depth, const T* base, long long stride) {
    constexpr int ACROSS = HEAD / 8, DOWN = THREADS / ACROSS;
    if constexpr (THREADS % ACROSS == 0 && ROWS % DOWN == 0) {
        int r = threadIdx.x / ACROSS, c = threadIdx.x % ACROSS * 8,
            left = c < depth ? rows - first - r : 0;
        const T* from = base + (first + r) * stride + c;
        unsigned to = shared_address(shared + r * pitch(HEAD) + c);
#pragma unroll
        for (int i = 0; i < ROWS; i += DOWN, from += DOWN * stride)
            copy_async<16>(to + 2 * i * pitch(HEAD), from,
                           i < left);  // an address outside is not read
    } else {
        fetch<ROWS, HEAD, THREADS>(shared, first, rows, depth,
                                   [&](int r) { return base + r * stride; });
    }
}

// Where a lane reads in a tile, in bytes: 16 x 16 of the left operand [m][k] or of a right one that
// lies as [k][n] (transposed), and 16 x 16 of a right operand that lies as [n][k].
__device__ inline unsigned left_place(int pitch) { return 2 * a_row(pitch); }
__device__ inline unsigned right_place(int pitch) { return 2 * b_row(pitch); }

// c[M][N] += a b' with a in shared memory as [m][k] and b as [n][k]; M and N in tiles of 16 and 8,
// K in steps of 16.
template <class T, int M, int N, int K>
__device__ void product_nt(float (&c)[M][N][4], unsigned a, int pitch_a, unsigned b, int pitch_b) {
#pragma unroll
    for (int k = 0; k < K; ++k) {
        unsigned left[M][4];
#pragma unroll
        for (int m = 0; m < M; ++m) load_matrices_x4(left[m], a + 2 * (m * 16 * pitch_a + k * 16));
#pragma unroll
        for (int n = 0; n < N; n += 2) {
            unsigned right[4];
            load_matrices_x4(right, b + 2 * (n * 8 * pitch_b + k * 16));
#pragma unroll
            for (int m = 0; m < M; ++m) {
                mma<T>(c[m][n], left[m], right);
                mma<T>(c[m][n + 1], left[m], right + 2);
            }
        }
    }
}

// c[M][N] += p b with p in registers, the accumulator of an earlier product, and b in shared memory
// as [k][n].
template <class T, int M, int N, int K>
__device__ void product_nn(float (&c)[M][N][4], const float (&p)[M][2 * K][4], unsigned b,
                           int pitch_b) {
#pragma unroll
    for (int k = 0; k < K; ++k) {
        unsigned left[M][4];
#pragma unroll
        for (int m = 0; m < M; ++m) c_to_a<T>(left[m], p[m][2 * k], p[m][2 * k + 1]);
#pragma unroll
        for (int n = 0; n < N; n += 2) {
            unsigned right[4];
            load_matrices_x4<true>(right, b + 2 * (k * 16 * pitch_b + n * 8));
#pragma unroll
            for (int m = 0; m < M; ++m) {
                mma<T>(c[m][n], left[m], right);
                mma<T>(c[m][n + 1], left[m], right + 2);
            }
        }
    }
}

// Results of a warp as floats, to rows of PITCH, by default of 8 WIDTH.
template <int PITCH = 0, int M, int WIDTH>
__device__ void store_partial(float* to, const float (&o)[M][WIDTH][4], int first, int rows) {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 2 * M; ++i) {
        int r = first + i * 8 + lane / 4;
        if (r >= rows) continue;
        float* row = to + r * static_cast<long long>(PITCH ? PITCH : WIDTH * 8) + lane % 4 * 2;
#pragma unroll
        for (int n = 0; n < WIDTH; ++n) {
            const float* x = o[i / 2][n] + i % 2 * 2;
            *reinterpret_cast<float2*>(row + n * 8) = make_float2(x[0], x[1]);
        }
    }
}

// Results of a warp through its rows of shared memory, so that stores are 16 bytes wide if rows are
// whole vectors.
template <int M, int WIDTH, class T, class At>
__device__ void store_rows(T* shared, const float (&o)[M][WIDTH][4], int first, int rows, int width,
                           At at) {
    constexpr int PITCH = pitch(WIDTH * 8);
    int lane = threadIdx.x % 32;
    __syncwarp();
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
        for (int n = 0; n < WIDTH; ++n)
#pragma unroll
            for (int half = 0; half < 2; ++half)
                *reinterpret_cast<unsigned*>(shared + (m * 16 + half * 8 + lane / 4) * PITCH +
                                             n * 8 + lane % 4 * 2) =
                    pack<T>(o[m][n][2 * half], o[m][n][2 * half + 1]);
    __syncwarp();
    auto copy = [&](auto vector) {
        constexpr int V = decltype(vector)::value, ACROSS = WIDTH * 8 / V;
        for (int i = lane; i < M * 16 * ACROSS; i += 32) {
            int r = i / ACROSS, c = i % ACROSS * V;
            if (first + r < rows && c < width)
                store(at(first + r) + c, load<V>(shared + r * PITCH + c));
        }
    };
    if (width % 8 == 0) copy(Count<8>());
    else copy(Count<1>());
}
