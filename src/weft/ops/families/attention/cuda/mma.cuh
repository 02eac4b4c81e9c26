// Tensor-core building blocks of 16-bit tiles in shared memory: asynchronous copies, ldmatrix and
// mma.sync.
#pragma once
#include "../../../core/cuda/vector.cuh"

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

__device__ inline unsigned address(const void* shared) {
    return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

__device__ inline void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int PENDING>
__device__ void wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// Barrier `id` of two warps. Both come to it at the same place of the code, as CUDA's own tools
// require of a barrier.
__device__ inline void meet(int id) { asm volatile("bar.sync %0, 64;" ::"r"(id) : "memory"); }

// 16 bytes from global to shared memory, or zeros where `inside` is false.
__device__ inline void copy_async(unsigned shared, const void* from, bool inside) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from),
                 "r"(inside ? 16 : 0)
                 : "memory");
}

__device__ inline void copy_float_async(float* shared, const float* from, bool inside) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address(shared)), "l"(from),
                 "r"(inside ? 4 : 0)
                 : "memory");
}

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
        copy_async(address(shared + r * pitch(HEAD) + c), from, inside);
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
        unsigned to = address(shared + r * pitch(HEAD) + c);
#pragma unroll
        for (int i = 0; i < ROWS; i += DOWN, from += DOWN * stride)
            copy_async(to + 2 * i * pitch(HEAD), from, i < left);  // an address outside is not read
    } else {
        fetch<ROWS, HEAD, THREADS>(shared, first, rows, depth,
                                   [&](int r) { return base + r * stride; });
    }
}

// Four 8 x 8 matrices: lanes 0 to 7 give the rows of the first one, and so on.
__device__ inline void matrices(unsigned (&to)[4], unsigned from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
}
__device__ inline void transposed(unsigned (&to)[4], unsigned from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
}

// Where a lane reads in a tile, in bytes: 16 x 16 of the left operand [m][k] or of a right one that
// lies as [k][n] (transposed), and 16 x 16 of a right operand that lies as [n][k].
__device__ inline unsigned left_place(int pitch) {
    int lane = threadIdx.x % 32;
    return 2 * (lane % 16 * pitch + lane / 16 * 8);
}
__device__ inline unsigned right_place(int pitch) {
    int lane = threadIdx.x % 32;
    return 2 * ((lane / 16 * 8 + lane % 8) * pitch + lane / 8 % 2 * 8);
}

__device__ inline void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1,
                                __half) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ inline void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1,
                                __nv_bfloat16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ inline unsigned packed(float low, float high, __half) {
    __half2 v = __floats2half2_rn(low, high);
    return *reinterpret_cast<unsigned*>(&v);
}
__device__ inline unsigned packed(float low, float high, __nv_bfloat16) {
    __nv_bfloat162 v = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<unsigned*>(&v);
}

// An accumulator of 16 rows and 16 columns (two tiles of 8) as the left operand of the next
// product.
template <class T>
__device__ void as_left(unsigned (&to)[4], const float (&low)[4], const float (&high)[4]) {
    to[0] = packed(low[0], low[1], T()), to[1] = packed(low[2], low[3], T());
    to[2] = packed(high[0], high[1], T()), to[3] = packed(high[2], high[3], T());
}

__device__ inline float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// c[M][N] += a b' with a in shared memory as [m][k] and b as [n][k]; M and N in tiles of 16 and 8,
// K in steps of 16.
template <class T, int M, int N, int K>
__device__ void product_nt(float (&c)[M][N][4], unsigned a, int pitch_a, unsigned b, int pitch_b) {
#pragma unroll
    for (int k = 0; k < K; ++k) {
        unsigned left[M][4];
#pragma unroll
        for (int m = 0; m < M; ++m) matrices(left[m], a + 2 * (m * 16 * pitch_a + k * 16));
#pragma unroll
        for (int n = 0; n < N; n += 2) {
            unsigned right[4];
            matrices(right, b + 2 * (n * 8 * pitch_b + k * 16));
#pragma unroll
            for (int m = 0; m < M; ++m) {
                multiply(c[m][n], left[m], right[0], right[1], T());
                multiply(c[m][n + 1], left[m], right[2], right[3], T());
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
        for (int m = 0; m < M; ++m) as_left<T>(left[m], p[m][2 * k], p[m][2 * k + 1]);
#pragma unroll
        for (int n = 0; n < N; n += 2) {
            unsigned right[4];
            transposed(right, b + 2 * (k * 16 * pitch_b + n * 8));
#pragma unroll
            for (int m = 0; m < M; ++m) {
                multiply(c[m][n], left[m], right[0], right[1], T());
                multiply(c[m][n + 1], left[m], right[2], right[3], T());
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
                    packed(o[m][n][2 * half], o[m][n][2 * half + 1], T());
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
