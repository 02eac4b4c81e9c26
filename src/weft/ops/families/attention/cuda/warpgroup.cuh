// Hopper's building blocks: tiles in swizzled shared memory, products of warpgroups (wgmma), and
// mbarriers. Without sm_90a, mma.sync computes the same products from the same descriptors, at a
// lower rate.
#pragma once
#include "mma.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define HAS_WARPGROUPS 1
#else
#define HAS_WARPGROUPS 0
#endif

// ---- mbarriers
// -------------------------------------------------------------------------------------------------
using Barrier = unsigned long long;

__device__ inline void create(Barrier* b, int arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(address(b)), "r"(arrivals) : "memory");
}
__device__ inline void arrive(Barrier* b) {
    asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(address(b))
                 : "memory");
}
// Arrives when all earlier asynchronous copies of this thread are complete.
__device__ inline void arrive_with_copies(Barrier* b) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(address(b)) : "memory");
}
// Waits until the phase with this parity is complete. The phase before the first one counts as
// complete.
__device__ inline void wait_for(Barrier* b, int parity) {
#if HAS_WARPGROUPS
#define WEFT_WAIT "mbarrier.try_wait.parity.shared.b64"
#else
#define WEFT_WAIT "mbarrier.test_wait.parity.shared.b64"
#endif
    int done;
    do {
        asm volatile("{ .reg .pred p; " WEFT_WAIT " p, [%1], %2; selp.b32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(address(b)), "r"(parity)
                     : "memory");
    } while (!done);
#undef WEFT_WAIT
}

// ---- order
// -------------------------------------------------------------------------------------------------
// Makes what other threads have copied into shared memory visible to the tensor cores.
__device__ inline void publish() {
#if HAS_WARPGROUPS
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}
__device__ inline void products_begin() {
#if HAS_WARPGROUPS
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
__device__ inline void products_end() {
#if HAS_WARPGROUPS
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
// Waits until at most PENDING groups of products are not complete.
template <int PENDING>
__device__ void products_wait() {
#if HAS_WARPGROUPS
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
#endif
}
// Registers that a product writes are not read before this point.
template <int N>
__device__ void pin(float (&c)[N][4]) {
#pragma unroll
    for (int n = 0; n < N; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) asm volatile("" : "+f"(c[n][i])::"memory");
}

template <int COUNT>
__device__ void fewer_registers() {
#if HAS_WARPGROUPS
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
#endif
}
template <int COUNT>
__device__ void more_registers() {
#if HAS_WARPGROUPS
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
#endif
}

// ---- tiles
// -------------------------------------------------------------------------------------------------
// A tile of ROWS rows lies as slabs of 64 columns, whose rows have 128 bytes. The 16-byte vectors
// of a row are permuted by the row's number, so that neither copies nor products have bank
// conflicts. Slabs begin at multiples of 1,024 bytes.
__device__ constexpr int slab(int rows) { return rows * 128; }
__device__ constexpr int tile_bytes(int rows, int head) { return (head + 63) / 64 * slab(rows); }

// Copies ROWS rows from row `first` on by 128 threads; columns from `depth` on and rows from `rows`
// on become zeros. Four threads copy a row, 64 bytes at a time, so that the addresses of a row are
// one sum apart.
template <int ROWS, int HEAD, class T>
__device__ void fetch_slabs(unsigned shared, const T* base, long long stride, int first, int rows,
                            int depth, int thread) {
    int r = thread / 4, q = thread % 4;
    const T* from = base + (first + r) * stride + q * 8;
    unsigned to = shared + r * 128 + (q ^ r % 8) * 16;
#pragma unroll
    for (int i = 0; i < ROWS; i += 32, from += 32 * stride) {
        if (ROWS % 32 && i + r >= ROWS) break;
        bool inside = first + i + r < rows;
#pragma unroll
        for (int c = 0; c < HEAD; c += 32) {
            if (HEAD % 32 && c + q * 8 >= HEAD) break;
            unsigned place = (to + c / 64 * slab(ROWS) + i * 128) ^ (c % 64 ? 64 : 0);
            copy_async(place, from + c,
                       inside && c + q * 8 < depth);  // an address outside is not read
        }
    }
}

// Descriptors: address, distance of slabs of columns (for `columns`), distance of 8 rows, 128-byte
// swizzle. `rows` is for operands whose rows are summed over their columns, `columns` for a right
// operand whose rows are summed.
__device__ inline unsigned long long rows_at(unsigned shared) {
    return (shared & 0x3ffff) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}
template <int ROWS>
__device__ unsigned long long columns_at(unsigned shared) {
    return (shared & 0x3ffff) >> 4 | static_cast<unsigned long long>(slab(ROWS) >> 4) << 16 |
           64ull << 32 | 1ull << 62;
}

// ---- products
// -------------------------------------------------------------------------------------------------
// multiply(c, a, b, fresh) is a product of 64 rows and 8 N columns over 16 elements: c += a b', or
// c = a b' if fresh, with a and b in shared memory; multiply(c, left, b) is c += a b with a in
// registers, and b's rows in shared memory.
#if HAS_WARPGROUPS
#define WEFT_A8 "%0,%1,%2,%3,%4,%5,%6,%7"
#define WEFT_L0 WEFT_A8 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define WEFT_L1 ",%16,%17,%18,%19,%20,%21,%22,%23"
#define WEFT_L2 ",%24,%25,%26,%27,%28,%29,%30,%31"
#define WEFT_L3 ",%32,%33,%34,%35,%36,%37,%38,%39"
#define WEFT_L4 ",%40,%41,%42,%43,%44,%45,%46,%47"
#define WEFT_L5 ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define WEFT_L6 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"
#define WEFT_L7 ",%80,%81,%82,%83,%84,%85,%86,%87"
#define WEFT_L8 ",%88,%89,%90,%91,%92,%93,%94,%95"
#define WEFT_4(n) "+f"(c[n][0]), "+f"(c[n][1]), "+f"(c[n][2]), "+f"(c[n][3])
#define WEFT_8(n) WEFT_4(n), WEFT_4(n + 1)
#define WEFT_16 WEFT_8(0), WEFT_8(2)
#define WEFT_24 WEFT_16, WEFT_8(4)
#define WEFT_32 WEFT_24, WEFT_8(6)
#define WEFT_40 WEFT_32, WEFT_8(8)
#define WEFT_48 WEFT_40, WEFT_8(10)
#define WEFT_64 WEFT_48, WEFT_8(12), WEFT_8(14)
#define WEFT_80 WEFT_64, WEFT_8(16), WEFT_8(18)
#define WEFT_88 WEFT_80, WEFT_8(20)
#define WEFT_96 WEFT_88, WEFT_8(22)
#define WEFT_ALL(...) __VA_ARGS__
#define WEFT_WGMMA(WIDTH, TYPE, LIST, A, B, P, TRANSPOSED)                              \
    "{ .reg .pred p; setp.ne.b32 p, " P ", 0; wgmma.mma_async.sync.aligned.m64n" #WIDTH \
    "k16.f32." TYPE "." TYPE " {" LIST "}, " A ", " B ", p, 1, 1, " TRANSPOSED "; }"
#define WEFT_SHARED(WIDTH, TYPE, LIST, FLOATS, R0, R1, R2)         \
    asm volatile(WEFT_WGMMA(WIDTH, TYPE, LIST, R0, R1, R2, "0, 0") \
                 : WEFT_ALL FLOATS                                 \
                 : "l"(a), "l"(b), "r"(fresh ? 0 : 1))
#define WEFT_LEFT(WIDTH, TYPE, LIST, FLOATS, R0, R1, R2, R3, R4, R5)                         \
    asm volatile(WEFT_WGMMA(WIDTH, TYPE, LIST, "{" R0 "," R1 "," R2 "," R3 "}", R4, R5, "1") \
                 : WEFT_ALL FLOATS                                                           \
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(b), "n"(1))
#define WEFT_PRODUCTS(WIDTH, TYPE, CLASS, LIST, FLOATS, R0, R1, R2, R3, R4, R5)          \
    __device__ inline void multiply(float (&c)[WIDTH / 8][4], unsigned long long a,      \
                                    unsigned long long b, bool fresh, CLASS) {           \
        WEFT_SHARED(WIDTH, TYPE, LIST, FLOATS, R0, R1, R2);                              \
    }                                                                                    \
    __device__ inline void multiply(float (&c)[WIDTH / 8][4], const unsigned (&left)[4], \
                                    unsigned long long b, CLASS) {                       \
        WEFT_LEFT(WIDTH, TYPE, LIST, FLOATS, R0, R1, R2, R3, R4, R5);                    \
    }
#define WEFT_BOTH(WIDTH, LIST, FLOATS, ...)                        \
    WEFT_PRODUCTS(WIDTH, "f16", __half, LIST, FLOATS, __VA_ARGS__) \
    WEFT_PRODUCTS(WIDTH, "bf16", __nv_bfloat16, LIST, FLOATS, __VA_ARGS__)
#define WEFT_A32 WEFT_L0 WEFT_L1 WEFT_L2
#define WEFT_A48 WEFT_A32 WEFT_L3 WEFT_L4
#define WEFT_A64 WEFT_A48 WEFT_L5
#define WEFT_A80 WEFT_A64 WEFT_L6
WEFT_BOTH(16, WEFT_A8, (WEFT_8(0)), "%8", "%9", "%10", "%11", "%12", "%13")
WEFT_BOTH(32, WEFT_L0, (WEFT_16), "%16", "%17", "%18", "%19", "%20", "%21")
WEFT_BOTH(48, WEFT_L0 WEFT_L1, (WEFT_24), "%24", "%25", "%26", "%27", "%28", "%29")
WEFT_BOTH(64, WEFT_A32, (WEFT_32), "%32", "%33", "%34", "%35", "%36", "%37")
WEFT_BOTH(80, WEFT_A32 WEFT_L3, (WEFT_40), "%40", "%41", "%42", "%43", "%44", "%45")
WEFT_BOTH(96, WEFT_A48, (WEFT_48), "%48", "%49", "%50", "%51", "%52", "%53")
WEFT_BOTH(128, WEFT_A64, (WEFT_64), "%64", "%65", "%66", "%67", "%68", "%69")
WEFT_BOTH(160, WEFT_A80, (WEFT_80), "%80", "%81", "%82", "%83", "%84", "%85")
WEFT_BOTH(176, WEFT_A80 WEFT_L7, (WEFT_88), "%88", "%89", "%90", "%91", "%92", "%93")
WEFT_BOTH(192, WEFT_A80 WEFT_L7 WEFT_L8, (WEFT_96), "%96", "%97", "%98", "%99", "%100", "%101")
#else
// Where element `k` of row or column `n` of an operand is.
__device__ inline unsigned place(unsigned long long operand, int n, int k, bool by_columns) {
    unsigned lead = (operand >> 16 & 0x3fff) << 4, stride = (operand >> 32 & 0x3fff) << 4;
    unsigned at = by_columns ? n % 64 * 2 + n / 64 * lead + k % 8 * 128 + k / 8 * stride
                             : n % 8 * 128 + n / 8 * stride + k * 2;
    at += (operand & 0x3fff) << 4;
    return at ^ (at >> 3 & 0x70);
}
// Elements k and k + 1.
__device__ inline unsigned two(unsigned long long operand, int n, int k, bool by_columns) {
    unsigned short low, high;
    asm volatile("ld.shared.u16 %0, [%1];"
                 : "=h"(low)
                 : "r"(place(operand, n, k, by_columns))
                 : "memory");
    asm volatile("ld.shared.u16 %0, [%1];"
                 : "=h"(high)
                 : "r"(place(operand, n, k + 1, by_columns))
                 : "memory");
    return low | static_cast<unsigned>(high) << 16;
}
// One function for all widths, which keeps the code small; its accumulators are in local memory.
template <class T>
__device__ __noinline__ void multiply_all(float (*c)[4], int count, uint4 words,
                                          unsigned long long b, bool by_columns) {
    unsigned left[4] = {words.x, words.y, words.z, words.w};
    int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
    for (int n = 0; n < count; ++n) {
        int at = n * 8 + g;
        multiply(c[n], left, two(b, at, 2 * q, by_columns), two(b, at, 2 * q + 8, by_columns), T());
    }
}
template <int N, class T>
__device__ void multiply(float (&c)[N][4], unsigned long long a, unsigned long long b, bool fresh,
                         T) {
    int row = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4, q = threadIdx.x % 4;
    if (fresh) memset(c, 0, sizeof c);
    multiply_all<T>(c, N,
                    {two(a, row, 2 * q, false), two(a, row + 8, 2 * q, false),
                     two(a, row, 2 * q + 8, false), two(a, row + 8, 2 * q + 8, false)},
                    b, false);
}
template <int N, class T>
__device__ void multiply(float (&c)[N][4], const unsigned (&left)[4], unsigned long long b, T) {
    multiply_all<T>(c, N, {left[0], left[1], left[2], left[3]}, b, true);
}
#endif
