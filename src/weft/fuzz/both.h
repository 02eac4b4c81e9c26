// What random programs call on both sides. Every function is defined for all its arguments.
typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;

template <class T> FN T negative_of(T a) { return (T)(0 - (u64)a); }
template <class T> FN T div_of(T a, T b) {
    return b == 0 ? a : (T)-1 < (T)0 && b == (T)-1 ? negative_of(a) : (T)(a / b);
}
template <class T> FN T rem_of(T a, T b) {
    return b == 0 ? a : (T)-1 < (T)0 && b == (T)-1 ? (T)0 : (T)(a % b);
}
template <class T> FN T min_of(T a, T b) { return b < a ? b : a; }
template <class T> FN T max_of(T a, T b) { return a < b ? b : a; }
template <class T> FN T rotate_of(T a, u32 by) {
    const u32 bits = sizeof(T) * 8, n = by & (bits - 1);
    return (T)(((u64)a << n) | ((u64)a >> ((bits - n) & (bits - 1))));
}
FN u8 byte_at(u64 a, u32 i) {
    u8 bytes[8];
    memcpy(bytes, &a, 8);
    return bytes[i & 7];
}
FN u16 half_at(u64 a, u32 i) {
    union {
        u64 whole;
        u16 half[4];
    } both;
    memcpy(&both, &a, 8);
    return both.half[i & 3];
}
FN u64 bytes_of(u8 a, u16 b, u32 c) {
    struct {
        u8 a, unused;
        u16 b;
        u32 c;
    } parts = {a, 0, b, c};
    u64 whole;
    memcpy(&whole, &parts, 8);
    return whole;
}

// A float to an integer: 0 where the value is out of range, which C++ leaves undefined.
template <class T, class F> FN T integer_in(F a, F low, F high) {
    return a > low && a < high ? (T)a : (T)0;
}
template <class T, class F> FN T integer_of(F a) {
    const int bits = sizeof(T) * 8;
    const bool is_signed = (T)-1 < (T)0;
    const F high = (F)(1ull << (bits - 1)) * (is_signed ? 1 : 2);
    if (is_signed && a == -high) return (T)a;
    return integer_in<T, F>(a, is_signed ? -high : (F)-1, high);
}

// The bits of a float. A NaN's payload differs between machines, so it gets one pattern here;
// `raw_bits` is for values that are no NaN.
FN u32 raw_bits(f32 a) { return __float_as_uint(a); }
FN u64 raw_bits(f64 a) { return (u64)__double_as_longlong(a); }
FN u32 bits_of(f32 a) { return a != a ? 0x7fc00000u : __float_as_uint(a); }
FN u64 bits_of(f64 a) { return a != a ? 0x7ff8000000000000ull : (u64)__double_as_longlong(a); }

#define FLOATING(NAME, F32, F64)          \
    FN f32 NAME(f32 a) { return F32(a); } \
    FN f64 NAME(f64 a) { return F64(a); }
FLOATING(sqrt_of, sqrtf, sqrt)
FLOATING(abs_of, fabsf, fabs)
FLOATING(floor_of, floorf, floor)
FLOATING(ceil_of, ceilf, ceil)
FLOATING(trunc_of, truncf, trunc)
FLOATING(rint_of, rintf, rint)
FN f32 fma_of(f32 a, f32 b, f32 c) { return fmaf(a, b, c); }
FN f64 fma_of(f64 a, f64 b, f64 c) { return fma(a, b, c); }
