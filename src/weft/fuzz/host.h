// The host's side: CUDA's intrinsics by their documentation, and whole blocks thread by thread.
#include <math.h>
#include <string.h>
#define FN static inline
#define FUNCTION static
#define NOINLINE static __attribute__((noinline))
#define ON_DEVICE 0
#define LANE (THREAD & 31)

static inline unsigned __float_as_uint(float a) {
    unsigned b;
    memcpy(&b, &a, 4);
    return b;
}
static inline float __uint_as_float(unsigned a) {
    float b;
    memcpy(&b, &a, 4);
    return b;
}
static inline long long __double_as_longlong(double a) {
    long long b;
    memcpy(&b, &a, 8);
    return b;
}
static inline double __longlong_as_double(long long a) {
    double b;
    memcpy(&b, &a, 8);
    return b;
}

#include "both.h"

// ---- floats: a NaN gives way to a number, and -0 is below +0
template <class T> FN T fmin_of(T a, T b) {
    if (a != a) return b;
    if (b != b) return a;
    return a == b ? (signbit(a) ? a : b) : a < b ? a : b;
}
template <class T> FN T fmax_of(T a, T b) {
    if (a != a) return b;
    if (b != b) return a;
    return a == b ? (signbit(a) ? b : a) : a > b ? a : b;
}

// ---- bits
FN i32 __popcll(u64 a) {
    i32 n = 0;
    for (; a; a &= a - 1) n++;
    return n;
}
FN i32 __popc(u32 a) { return __popcll(a); }
FN i32 __clzll(i64 a) {
    i32 n = 0;
    while (n < 64 && !((u64)a >> (63 - n) & 1)) n++;
    return n;
}
FN i32 __clz(i32 a) { return __clzll((u32)a) - 32; }
FN i32 __ffsll(i64 a) {
    i32 n = 0;
    while (n < 64 && !((u64)a >> n & 1)) n++;
    return a ? n + 1 : 0;
}
FN i32 __ffs(i32 a) { return __ffsll((u32)a); }
FN u64 __brevll(u64 a) {
    u64 b = 0;
    for (int i = 0; i < 64; i++) b |= (a >> i & 1) << (63 - i);
    return b;
}
FN u32 __brev(u32 a) { return (u32)(__brevll(a) >> 32); }
FN u32 __byte_perm(u32 a, u32 b, u32 s) {
    u64 all = (u64)b << 32 | a;
    u32 d = 0;
    for (int i = 0; i < 4; i++) d |= (u32)(all >> 8 * (s >> 4 * i & 7) & 255) << 8 * i;
    return d;
}
FN u32 __funnelshift_l(u32 low, u32 high, u32 n) {
    return (u32)(((u64)high << 32 | low) << (n & 31) >> 32);
}
FN u32 __funnelshift_r(u32 low, u32 high, u32 n) {
    return (u32)(((u64)high << 32 | low) >> (n & 31));
}
FN u32 __funnelshift_lc(u32 low, u32 high, u32 n) {
    return n >= 32 ? low : __funnelshift_l(low, high, n);
}
FN u32 __funnelshift_rc(u32 low, u32 high, u32 n) {
    return n >= 32 ? high : __funnelshift_r(low, high, n);
}

// ---- products and sums
FN u32 __umulhi(u32 a, u32 b) { return (u32)((u64)a * b >> 32); }
FN i32 __mulhi(i32 a, i32 b) { return (i32)((i64)a * b >> 32); }
FN u64 __umul64hi(u64 a, u64 b) { return (u64)((unsigned __int128)a * b >> 64); }
FN i64 __mul64hi(i64 a, i64 b) { return (i64)((__int128)a * b >> 64); }
FN i64 low_24(i32 a) { return (i32)((u32)a << 8) >> 8; }
FN i32 __mul24(i32 a, i32 b) { return (i32)(low_24(a) * low_24(b)); }
FN u32 __umul24(u32 a, u32 b) { return (u32)((u64)(a & 0xffffff) * (b & 0xffffff)); }
FN u32 __sad(i32 a, i32 b, u32 c) { return c + (u32)(a < b ? b - a : a - b); }
FN u32 __usad(u32 a, u32 b, u32 c) { return c + (a < b ? b - a : a - b); }
FN i32 __hadd(i32 a, i32 b) { return (i32)(((i64)a + b) >> 1); }
FN i32 __rhadd(i32 a, i32 b) { return (i32)(((i64)a + b + 1) >> 1); }
FN u32 __uhadd(u32 a, u32 b) { return (u32)(((u64)a + b) >> 1); }
FN u32 __urhadd(u32 a, u32 b) { return (u32)(((u64)a + b + 1) >> 1); }
FN i32 __dp4a(i32 a, i32 b, i32 c) {
    for (int i = 0; i < 32; i += 8) c += (i8)(a >> i) * (i8)(b >> i);
    return c;
}
FN u32 __dp4a(u32 a, u32 b, u32 c) {
    for (int i = 0; i < 32; i += 8) c += (u32)(u8)(a >> i) * (u8)(b >> i);
    return c;
}
FN i32 __dp2a_lo(i32 a, i32 b, i32 c) { return c + (i16)a * (i8)b + (a >> 16) * (i8)(b >> 8); }

// ---- SIMD in a word
template <class T, class F> FN u32 in_parts(u32 a, u32 b, F f) {
    u32 d = 0;
    const int bits = 8 * sizeof(T);
    for (int i = 0; i < 32; i += bits)
        d |= (u32)((u64)f((T)(a >> i), (T)(b >> i)) & ((1ull << bits) - 1)) << i;
    return d;
}
FN u32 __vadd4(u32 a, u32 b) {
    return in_parts<u8>(a, b, [](u8 x, u8 y) { return x + y; });
}
FN u32 __vsub2(u32 a, u32 b) {
    return in_parts<u16>(a, b, [](u16 x, u16 y) { return x - y; });
}
FN u32 __vmaxs4(u32 a, u32 b) {
    return in_parts<i8>(a, b, [](i8 x, i8 y) { return x > y ? x : y; });
}
FN u32 __vminu2(u32 a, u32 b) {
    return in_parts<u16>(a, b, [](u16 x, u16 y) { return x < y ? x : y; });
}
FN u32 __vabsdiffu4(u32 a, u32 b) {
    return in_parts<u8>(a, b, [](u8 x, u8 y) { return x < y ? y - x : x - y; });
}
FN u32 __vcmpgts2(u32 a, u32 b) {
    return in_parts<i16>(a, b, [](i16 x, i16 y) { return x > y ? -1 : 0; });
}
FN u32 __vcmpeq4(u32 a, u32 b) {
    return in_parts<u8>(a, b, [](u8 x, u8 y) { return x == y ? -1 : 0; });
}

// ---- the lanes of a warp: what thread `t` of `threads` gets, from `x` of all threads
FN u32 lanes_of(u32 t, u32 threads) {
    return threads - (t & ~31u) < 32 ? threads - (t & ~31u) : 32;
}
template <class T> FN T shfl_idx(const T* x, u32 t, u32 threads, u32 k, u32 width) {
    u32 lane = (t & 31 & ~(width - 1)) + (k & (width - 1));
    return x[(t & ~31u) + (width == 32 ? k % lanes_of(t, threads) : lane)];
}
template <class T> FN T shfl_up(const T* x, u32 t, u32 k, u32 width) {
    return (t & (width - 1)) < (k & 31) ? x[t] : x[t - (k & 31)];
}
template <class T> FN T shfl_down(const T* x, u32 t, u32 k, u32 width) {
    return (t & (width - 1)) + (k & 31) >= width ? x[t] : x[t + (k & 31)];
}
template <class T> FN T shfl_xor(const T* x, u32 t, u32 k, u32 width) {
    return x[t ^ (k & (width - 1))];
}
template <class T> FN T first_of(const T* x, const u32* in, u32 t, u32 threads) {
    u32 from = t & ~31u;
    while (!in[from]) from++;
    return x[from];
}
template <class T> FN u32 ballot_of(const T* x, const u32* in, u32 t, u32 threads) {
    u32 bits = 0;
    for (u32 i = 0; i < lanes_of(t, threads); i++)
        bits |= (u32)(in[(t & ~31u) + i] && x[(t & ~31u) + i] != 0) << i;
    return bits;
}
template <class T> FN u32 match_of(const T* x, const u32* in, u32 t, u32 threads) {
    u32 bits = 0;
    for (u32 i = 0; i < lanes_of(t, threads); i++)
        bits |= (u32)(in[(t & ~31u) + i] && x[(t & ~31u) + i] == x[t]) << i;
    return bits;
}
template <class T, class F> FN T reduce_of(const T* x, const u32* in, u32 t, u32 threads, F f) {
    T all = x[t];
    for (u32 i = 0; i < lanes_of(t, threads); i++) {
        u32 other = (t & ~31u) + i;
        if (other != t && in[other]) all = f(all, x[other]);
    }
    return all;
}
