// Tensor cores by warpgroups (wgmma): products of 64 rows, of tiles that lie in shared memory or in
// registers, with sums in single precision. Needs sm_90a; without it mma.sync computes the same
// products from the same tiles, at a lower rate.
//
// A warpgroup is four warps, from a multiple of 128 threads on. T is __half or __nv_bfloat16. All
// threads of a warpgroup call these functions together.
//
//     weft::publish_tiles();   // beside the barrier behind which the tiles are there
//     weft::wgmma_begin();
//     weft::wgmma<T>(c, weft::wgmma_rows(a), weft::wgmma_rows(b), false);  // 16 of K each
//     weft::wgmma_commit();    // products since the last call are a group
//     weft::wgmma_wait<0>();   // until no group of this warpgroup is under way
//     weft::wgmma_results(c);  // now c may be read
#pragma once
#include "mma.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define WEFT_HAS_WGMMA 1
#else
#define WEFT_HAS_WGMMA 0
#endif

namespace weft {

// Returns the number of this thread's warpgroup in the block; the compiler knows that the lanes of
// a warp agree.
__device__ inline int warpgroup_index() { return shuffle(int(threadIdx.x / 128), 0); }

// Gives registers back: COUNT remain for a thread, a multiple of 8. A warpgroup that copies needs
// few.
template <int COUNT>
__device__ inline void fewer_registers() {
#if WEFT_HAS_WGMMA
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
#endif
}

// Takes registers that others have given back: COUNT for a thread, a multiple of 8.
template <int COUNT>
__device__ inline void more_registers() {
#if WEFT_HAS_WGMMA
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
#endif
}

// ---- tiles -------------------------------------------------------------------------------------
// A tile lies as slabs of 64 columns, one after another. A row of a slab has 128 bytes, whose
// vectors of 16 bytes are at swizzle<128>(row, vector). Slabs begin at multiples of 1,024 bytes.

// Returns the bytes of a slab, and of a tile.
__device__ constexpr int slab_bytes(int rows) { return rows * 128; }
__device__ constexpr int tile_bytes(int rows, int columns) {
    return (columns + 63) / 64 * slab_bytes(rows);
}

// Returns the first address from `shared` on where a slab may begin.
__device__ inline unsigned slab_aligned(unsigned shared) { return (shared + 1023) / 1024 * 1024; }

// Returns the descriptor of an operand whose elements along K are neighbours in a row: `shared` is
// the address of its first row, at a multiple of 8 rows and of 16 elements. One more moves a
// descriptor by 16 bytes.
__device__ inline unsigned long long wgmma_rows(unsigned shared) {
    return (shared & 0x3ffff) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

// Returns the descriptor of an operand whose rows follow K, of slabs that begin `leading` bytes
// after each other: `shared` is the address of its first row. Slabs that overlap are the same rows
// from another one on.
__device__ inline unsigned long long wgmma_columns(unsigned shared, int leading) {
    return (shared & 0x3ffff) >> 4 | static_cast<unsigned long long>(leading >> 4) << 16 |
           64ull << 32 | 1ull << 62;
}

// The same for slabs of ROWS rows, a multiple of 8, one after another.
template <int ROWS>
__device__ inline unsigned long long wgmma_columns(unsigned shared) {
    return wgmma_columns(shared, slab_bytes(ROWS));
}

// Moves a descriptor by so many bytes, a multiple of 16. Its address is in the lower word, which an
// addition does not leave.
__device__ inline unsigned long long wgmma_moved(unsigned long long operand, unsigned bytes) {
    unsigned low = static_cast<unsigned>(operand) + bytes / 16;
    return operand >> 32 << 32 | low;
}

// ---- order -------------------------------------------------------------------------------------
// Makes tiles in shared memory visible to the tensor cores: those that write them call it before
// the barrier behind which they are there, or those that multiply after it.
__device__ inline void publish_tiles() {
#if WEFT_HAS_WGMMA
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// Precedes the first product after this warpgroup's registers have been written.
__device__ inline void wgmma_begin() {
#if WEFT_HAS_WGMMA
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}

// Ends a group: all products that this warpgroup has started since the group before.
__device__ inline void wgmma_commit() {
#if WEFT_HAS_WGMMA
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}

// Waits until at most PENDING groups of this warpgroup are under way; the oldest ones end first.
template <int PENDING>
__device__ inline void wgmma_wait() {
#if WEFT_HAS_WGMMA
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
#endif
}

// Keeps the compiler from reading results before this point: after the wait for their group.
template <int N>
__device__ inline void wgmma_results(float (&c)[N][4]) {
#pragma unroll
    for (int n = 0; n < N; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) asm volatile("" : "+f"(c[n][i])::"memory");
}

// ---- products ----------------------------------------------------------------------------------
// True for __half: instructions name their types.
template <class T>
constexpr bool IS_HALF = false;
template <>
constexpr bool IS_HALF<__half> = true;

// wgmma<T, A_COLUMNS, B_COLUMNS>(c, a, b, accumulate) multiplies 64 rows of A and 8 N columns of B
// over 16 elements of K: c += a b, or c = a b without `accumulate`. Descriptors are those of
// wgmma_columns for A_COLUMNS and B_COLUMNS, else of wgmma_rows. The columns are a multiple of 8,
// up to 256. A warp has 16 rows; c[n] is an accumulator of mma<T>.
//
// wgmma_left<T, B_COLUMNS>(c, a, b, accumulate) is the same with A in registers, as fragments of
// mma<T>. Without these arguments it is c += a b with B as wgmma_columns.
#if WEFT_HAS_WGMMA
// The registers of so many accumulators as text, and as operands.
#define WEFT_R1 "%0,%1,%2,%3"
#define WEFT_R2 WEFT_R1 ",%4,%5,%6,%7"
#define WEFT_R3 WEFT_R2 ",%8,%9,%10,%11"
#define WEFT_R4 WEFT_R3 ",%12,%13,%14,%15"
#define WEFT_R5 WEFT_R4 ",%16,%17,%18,%19"
#define WEFT_R6 WEFT_R5 ",%20,%21,%22,%23"
#define WEFT_R7 WEFT_R6 ",%24,%25,%26,%27"
#define WEFT_R8 WEFT_R7 ",%28,%29,%30,%31"
#define WEFT_R9 WEFT_R8 ",%32,%33,%34,%35"
#define WEFT_R10 WEFT_R9 ",%36,%37,%38,%39"
#define WEFT_R11 WEFT_R10 ",%40,%41,%42,%43"
#define WEFT_R12 WEFT_R11 ",%44,%45,%46,%47"
#define WEFT_R13 WEFT_R12 ",%48,%49,%50,%51"
#define WEFT_R14 WEFT_R13 ",%52,%53,%54,%55"
#define WEFT_R15 WEFT_R14 ",%56,%57,%58,%59"
#define WEFT_R16 WEFT_R15 ",%60,%61,%62,%63"
#define WEFT_R17 WEFT_R16 ",%64,%65,%66,%67"
#define WEFT_R18 WEFT_R17 ",%68,%69,%70,%71"
#define WEFT_R19 WEFT_R18 ",%72,%73,%74,%75"
#define WEFT_R20 WEFT_R19 ",%76,%77,%78,%79"
#define WEFT_R21 WEFT_R20 ",%80,%81,%82,%83"
#define WEFT_R22 WEFT_R21 ",%84,%85,%86,%87"
#define WEFT_R23 WEFT_R22 ",%88,%89,%90,%91"
#define WEFT_R24 WEFT_R23 ",%92,%93,%94,%95"
#define WEFT_R25 WEFT_R24 ",%96,%97,%98,%99"
#define WEFT_R26 WEFT_R25 ",%100,%101,%102,%103"
#define WEFT_R27 WEFT_R26 ",%104,%105,%106,%107"
#define WEFT_R28 WEFT_R27 ",%108,%109,%110,%111"
#define WEFT_R29 WEFT_R28 ",%112,%113,%114,%115"
#define WEFT_R30 WEFT_R29 ",%116,%117,%118,%119"
#define WEFT_R31 WEFT_R30 ",%120,%121,%122,%123"
#define WEFT_R32 WEFT_R31 ",%124,%125,%126,%127"
#define WEFT_SUM "+f"  // the constraint of an accumulator; weft/wgmma_int8.cuh has another
#define WEFT_4(n) WEFT_SUM(c[n][0]), WEFT_SUM(c[n][1]), WEFT_SUM(c[n][2]), WEFT_SUM(c[n][3])
#define WEFT_C1 WEFT_4(0)
#define WEFT_C2 WEFT_C1, WEFT_4(1)
#define WEFT_C3 WEFT_C2, WEFT_4(2)
#define WEFT_C4 WEFT_C3, WEFT_4(3)
#define WEFT_C5 WEFT_C4, WEFT_4(4)
#define WEFT_C6 WEFT_C5, WEFT_4(5)
#define WEFT_C7 WEFT_C6, WEFT_4(6)
#define WEFT_C8 WEFT_C7, WEFT_4(7)
#define WEFT_C9 WEFT_C8, WEFT_4(8)
#define WEFT_C10 WEFT_C9, WEFT_4(9)
#define WEFT_C11 WEFT_C10, WEFT_4(10)
#define WEFT_C12 WEFT_C11, WEFT_4(11)
#define WEFT_C13 WEFT_C12, WEFT_4(12)
#define WEFT_C14 WEFT_C13, WEFT_4(13)
#define WEFT_C15 WEFT_C14, WEFT_4(14)
#define WEFT_C16 WEFT_C15, WEFT_4(15)
#define WEFT_C17 WEFT_C16, WEFT_4(16)
#define WEFT_C18 WEFT_C17, WEFT_4(17)
#define WEFT_C19 WEFT_C18, WEFT_4(18)
#define WEFT_C20 WEFT_C19, WEFT_4(19)
#define WEFT_C21 WEFT_C20, WEFT_4(20)
#define WEFT_C22 WEFT_C21, WEFT_4(21)
#define WEFT_C23 WEFT_C22, WEFT_4(22)
#define WEFT_C24 WEFT_C23, WEFT_4(23)
#define WEFT_C25 WEFT_C24, WEFT_4(24)
#define WEFT_C26 WEFT_C25, WEFT_4(25)
#define WEFT_C27 WEFT_C26, WEFT_4(26)
#define WEFT_C28 WEFT_C27, WEFT_4(27)
#define WEFT_C29 WEFT_C28, WEFT_4(28)
#define WEFT_C30 WEFT_C29, WEFT_4(29)
#define WEFT_C31 WEFT_C30, WEFT_4(30)
#define WEFT_C32 WEFT_C31, WEFT_4(31)
#define WEFT_ALL(...) __VA_ARGS__
#define WEFT_TEXT(WIDTH, TYPE, LIST, A, B, P, TRANSPOSED)                               \
    "{ .reg .pred p; setp.ne.b32 p, " P ", 0; wgmma.mma_async.sync.aligned.m64n" #WIDTH \
    "k16.f32." TYPE "." TYPE " {" LIST "}, " A ", " B ", p, 1, 1, " TRANSPOSED "; }"
#define WEFT_SHARED(WIDTH, TYPE, LIST, FLOATS, R0, R1, R2, R3, R4)    \
    asm volatile(WEFT_TEXT(WIDTH, TYPE, LIST, R0, R1, R2, R3 ", " R4) \
                 : WEFT_ALL FLOATS                                    \
                 : "l"(a), "l"(b), "r"(int(accumulate)), "n"(int(A_COLUMNS)), "n"(int(B_COLUMNS)))
#define WEFT_LEFT(WIDTH, TYPE, LIST, FLOATS, R0, R1, R2, R3, R4, R5, TRANSPOSED)                   \
    asm volatile(WEFT_TEXT(WIDTH, TYPE, LIST, "{" R0 "," R1 "," R2 "," R3 "}", R4, R5, TRANSPOSED) \
                 : WEFT_ALL FLOATS                                                                 \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int(accumulate)))
#define WEFT_PRODUCTS(WIDTH, LIST, FLOATS, R0, R1, R2, R3, R4, R5)                             \
    template <class T, bool A_COLUMNS = false, bool B_COLUMNS = false>                         \
    __device__ inline void wgmma(float (&c)[WIDTH / 8][4], unsigned long long a,               \
                                 unsigned long long b, bool accumulate) {                      \
        if constexpr (IS_HALF<T>) WEFT_SHARED(WIDTH, "f16", LIST, FLOATS, R0, R1, R2, R3, R4); \
        else WEFT_SHARED(WIDTH, "bf16", LIST, FLOATS, R0, R1, R2, R3, R4);                     \
    }                                                                                          \
    template <class T, bool B_COLUMNS = true>                                                  \
    __device__ inline void wgmma_left(float (&c)[WIDTH / 8][4], const unsigned (&a)[4],        \
                                      unsigned long long b, bool accumulate = true) {          \
        if constexpr (IS_HALF<T> && B_COLUMNS)                                                 \
            WEFT_LEFT(WIDTH, "f16", LIST, FLOATS, R0, R1, R2, R3, R4, R5, "1");                \
        else if constexpr (IS_HALF<T>)                                                         \
            WEFT_LEFT(WIDTH, "f16", LIST, FLOATS, R0, R1, R2, R3, R4, R5, "0");                \
        else if constexpr (B_COLUMNS)                                                          \
            WEFT_LEFT(WIDTH, "bf16", LIST, FLOATS, R0, R1, R2, R3, R4, R5, "1");               \
        else WEFT_LEFT(WIDTH, "bf16", LIST, FLOATS, R0, R1, R2, R3, R4, R5, "0");              \
    }
// Calls X for each width: the registers of its accumulators as text and as operands, and the names
// of the operands that follow them.
#define WEFT_WIDTHS(X)                                                           \
    X(8, WEFT_R1, (WEFT_C1), "%4", "%5", "%6", "%7", "%8", "%9")                 \
    X(16, WEFT_R2, (WEFT_C2), "%8", "%9", "%10", "%11", "%12", "%13")            \
    X(24, WEFT_R3, (WEFT_C3), "%12", "%13", "%14", "%15", "%16", "%17")          \
    X(32, WEFT_R4, (WEFT_C4), "%16", "%17", "%18", "%19", "%20", "%21")          \
    X(40, WEFT_R5, (WEFT_C5), "%20", "%21", "%22", "%23", "%24", "%25")          \
    X(48, WEFT_R6, (WEFT_C6), "%24", "%25", "%26", "%27", "%28", "%29")          \
    X(56, WEFT_R7, (WEFT_C7), "%28", "%29", "%30", "%31", "%32", "%33")          \
    X(64, WEFT_R8, (WEFT_C8), "%32", "%33", "%34", "%35", "%36", "%37")          \
    X(72, WEFT_R9, (WEFT_C9), "%36", "%37", "%38", "%39", "%40", "%41")          \
    X(80, WEFT_R10, (WEFT_C10), "%40", "%41", "%42", "%43", "%44", "%45")        \
    X(88, WEFT_R11, (WEFT_C11), "%44", "%45", "%46", "%47", "%48", "%49")        \
    X(96, WEFT_R12, (WEFT_C12), "%48", "%49", "%50", "%51", "%52", "%53")        \
    X(104, WEFT_R13, (WEFT_C13), "%52", "%53", "%54", "%55", "%56", "%57")       \
    X(112, WEFT_R14, (WEFT_C14), "%56", "%57", "%58", "%59", "%60", "%61")       \
    X(120, WEFT_R15, (WEFT_C15), "%60", "%61", "%62", "%63", "%64", "%65")       \
    X(128, WEFT_R16, (WEFT_C16), "%64", "%65", "%66", "%67", "%68", "%69")       \
    X(136, WEFT_R17, (WEFT_C17), "%68", "%69", "%70", "%71", "%72", "%73")       \
    X(144, WEFT_R18, (WEFT_C18), "%72", "%73", "%74", "%75", "%76", "%77")       \
    X(152, WEFT_R19, (WEFT_C19), "%76", "%77", "%78", "%79", "%80", "%81")       \
    X(160, WEFT_R20, (WEFT_C20), "%80", "%81", "%82", "%83", "%84", "%85")       \
    X(168, WEFT_R21, (WEFT_C21), "%84", "%85", "%86", "%87", "%88", "%89")       \
    X(176, WEFT_R22, (WEFT_C22), "%88", "%89", "%90", "%91", "%92", "%93")       \
    X(184, WEFT_R23, (WEFT_C23), "%92", "%93", "%94", "%95", "%96", "%97")       \
    X(192, WEFT_R24, (WEFT_C24), "%96", "%97", "%98", "%99", "%100", "%101")     \
    X(200, WEFT_R25, (WEFT_C25), "%100", "%101", "%102", "%103", "%104", "%105") \
    X(208, WEFT_R26, (WEFT_C26), "%104", "%105", "%106", "%107", "%108", "%109") \
    X(216, WEFT_R27, (WEFT_C27), "%108", "%109", "%110", "%111", "%112", "%113") \
    X(224, WEFT_R28, (WEFT_C28), "%112", "%113", "%114", "%115", "%116", "%117") \
    X(232, WEFT_R29, (WEFT_C29), "%116", "%117", "%118", "%119", "%120", "%121") \
    X(240, WEFT_R30, (WEFT_C30), "%120", "%121", "%122", "%123", "%124", "%125") \
    X(248, WEFT_R31, (WEFT_C31), "%124", "%125", "%126", "%127", "%128", "%129") \
    X(256, WEFT_R32, (WEFT_C32), "%128", "%129", "%130", "%131", "%132", "%133")
WEFT_WIDTHS(WEFT_PRODUCTS)
#else
// Returns the address of element `k` of row, or column, `n` of an operand.
__device__ inline unsigned wgmma_place(unsigned long long operand, int n, int k, bool by_columns) {
    unsigned lead = (operand >> 16 & 0x3fff) << 4, stride = (operand >> 32 & 0x3fff) << 4;
    unsigned at = by_columns ? n % 64 * 2 + n / 64 * lead + k % 8 * 128 + k / 8 * stride
                             : n % 8 * 128 + n / 8 * stride + k * 2;
    at += (operand & 0x3fff) << 4;
    return at ^ (at >> 3 & 0x70);
}

// Returns the word of elements k and k + 1.
__device__ inline unsigned wgmma_word(unsigned long long operand, int n, int k, bool by_columns) {
    unsigned short low, high;
    asm volatile("ld.shared.u16 %0, [%1];"
                 : "=h"(low)
                 : "r"(wgmma_place(operand, n, k, by_columns))
                 : "memory");
    asm volatile("ld.shared.u16 %0, [%1];"
                 : "=h"(high)
                 : "r"(wgmma_place(operand, n, k + 1, by_columns))
                 : "memory");
    return low | static_cast<unsigned>(high) << 16;
}

// Adds the product of `count` tiles of 8 columns by mma.sync. One function for all widths keeps the
// code small; its accumulators are in local memory.
template <class T>
__device__ __noinline__ void wgmma_by_warps(float (*c)[4], int count, uint4 words,
                                            unsigned long long b, bool by_columns) {
    unsigned left[4] = {words.x, words.y, words.z, words.w};
    int k = threadIdx.x % 4 * 2;
    for (int n = 0; n < count; ++n) {
        int column = n * 8 + lane_index() / 4;
        unsigned right[2] = {wgmma_word(b, column, k, by_columns),
                             wgmma_word(b, column, k + 8, by_columns)};
        mma<T>(c[n], left, right);
    }
}
template <class T, bool A_COLUMNS = false, bool B_COLUMNS = false, int N>
__device__ inline void wgmma(float (&c)[N][4], unsigned long long a, unsigned long long b,
                             bool accumulate) {
    int row = threadIdx.x % 128 / 32 * 16 + lane_index() / 4, k = threadIdx.x % 4 * 2;
    if (!accumulate) memset(c, 0, sizeof c);
    wgmma_by_warps<T>(
        c, N,
        {wgmma_word(a, row, k, A_COLUMNS), wgmma_word(a, row + 8, k, A_COLUMNS),
         wgmma_word(a, row, k + 8, A_COLUMNS), wgmma_word(a, row + 8, k + 8, A_COLUMNS)},
        b, B_COLUMNS);
}
template <class T, bool B_COLUMNS = true, int N>
__device__ inline void wgmma_left(float (&c)[N][4], const unsigned (&a)[4], unsigned long long b,
                                  bool accumulate = true) {
    if (!accumulate) memset(c, 0, sizeof c);
    wgmma_by_warps<T>(c, N, {a[0], a[1], a[2], a[3]}, b, B_COLUMNS);
}
#endif

}  // namespace weft
