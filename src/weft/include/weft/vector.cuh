// Vectors in registers that one instruction loads and stores.
#pragma once

namespace weft {

// N elements, aligned to their size, or to 16 bytes where they are larger.
template <class T, int N>
struct alignas(sizeof(T) * N <= 16 ? sizeof(T) * N : 16) Vector {
    T at[N];
    __device__ T& operator[](int i) { return at[i]; }
    __device__ const T& operator[](int i) const { return at[i]; }
};

// Loads N elements. `p` is aligned as Vector<T, N> is.
template <int N, class T>
__device__ inline Vector<T, N> load(const T* p) {
    return *reinterpret_cast<const Vector<T, N>*>(p);
}

// Loads N elements of 4, 8 or 16 bytes together from global memory. They are read once, so they do
// not enter the L1 cache, where they would take the place of others.
template <int N, class T>
__device__ inline Vector<T, N> load_once(const T* p) {
    Vector<T, N> v;
    unsigned* word = reinterpret_cast<unsigned*>(&v);
    size_t at = __cvta_generic_to_global(p);
    static_assert(sizeof(v) == 4 || sizeof(v) == 8 || sizeof(v) == 16, "4, 8 or 16 bytes");
    if constexpr (sizeof(v) == 16)
        asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
                     : "l"(at)
                     : "memory");
    else if constexpr (sizeof(v) == 8)
        asm volatile("ld.global.L1::no_allocate.v2.u32 {%0, %1}, [%2];"
                     : "=r"(word[0]), "=r"(word[1])
                     : "l"(at)
                     : "memory");
    else
        asm volatile("ld.global.L1::no_allocate.u32 %0, [%1];"
                     : "=r"(word[0])
                     : "l"(at)
                     : "memory");
    return v;
}

// Stores N elements. `p` is aligned as Vector<T, N> is. The compiler may split the store.
template <class T, int N>
__device__ inline void store(T* p, const Vector<T, N>& v) {
    *reinterpret_cast<Vector<T, N>*>(p) = v;
}

// Stores a vector of 4, 8 or 16 bytes to global memory by one instruction, even where its elements
// are computed one by one; other vectors as store().
template <class T, int N>
__device__ inline void store_whole(T* p, const Vector<T, N>& v) {
    constexpr int BYTES = N * sizeof(T);
    const unsigned* word = reinterpret_cast<const unsigned*>(&v);
    size_t at = __cvta_generic_to_global(p);
    if constexpr (BYTES == 16)
        asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(word[0]),
                     "r"(word[1]), "r"(word[2]), "r"(word[3])
                     : "memory");
    else if constexpr (BYTES == 8)
        asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(at), "r"(word[0]), "r"(word[1])
                     : "memory");
    else if constexpr (BYTES == 4)
        asm volatile("st.global.u32 [%0], %1;" ::"l"(at), "r"(word[0]) : "memory");
    else store(p, v);
}

// Returns N copies of x. Elements of two bytes are written as words, which cost half as many moves.
template <int N, class T>
__device__ inline Vector<T, N> fill(T x) {
    Vector<T, N> v;
    if constexpr (sizeof(T) == 2 && N % 2 == 0) {
        unsigned word = *reinterpret_cast<unsigned short*>(&x) * 0x10001u;
#pragma unroll
        for (int i = 0; i < N / 2; ++i) reinterpret_cast<unsigned*>(&v)[i] = word;
    } else {
#pragma unroll
        for (int i = 0; i < N; ++i) v[i] = x;
    }
    return v;
}

// Loads N elements from global memory where `inside`, or returns `otherwise`. Vectors of 4, 8 or 16
// bytes arrive in registers as they are: the compiler would take elements out of them at the load,
// so that the loads after it wait for this one.
template <int N, class T>
__device__ inline Vector<T, N> load_if(bool inside, const T* p, const Vector<T, N>& otherwise) {
    Vector<T, N> v = otherwise;
    unsigned* word = reinterpret_cast<unsigned*>(&v);
    size_t at = __cvta_generic_to_global(p);
#define WEFT_LOAD_IF(VECTOR, WORDS, AT, INSIDE)   \
    "{\n"                                         \
    ".reg .pred inside;\n"                        \
    "setp.ne.u32 inside, " INSIDE                 \
    ", 0;\n"                                      \
    "@inside ld.global" VECTOR " " WORDS ", [" AT \
    "];\n"                                        \
    "}"
    if constexpr (sizeof(v) == 16)
        asm volatile(WEFT_LOAD_IF(".v4.u32", "{%0, %1, %2, %3}", "%4", "%5")
                     : "+r"(word[0]), "+r"(word[1]), "+r"(word[2]), "+r"(word[3])
                     : "l"(at), "r"(unsigned(inside))
                     : "memory");
    else if constexpr (sizeof(v) == 8)
        asm volatile(WEFT_LOAD_IF(".v2.u32", "{%0, %1}", "%2", "%3")
                     : "+r"(word[0]), "+r"(word[1])
                     : "l"(at), "r"(unsigned(inside))
                     : "memory");
    else if constexpr (sizeof(v) == 4)
        asm volatile(WEFT_LOAD_IF(".u32", "%0", "%1", "%2")
                     : "+r"(word[0])
                     : "l"(at), "r"(unsigned(inside))
                     : "memory");
    else if (inside) v = load<N>(p);
#undef WEFT_LOAD_IF
    return v;
}

// Loads N elements from p on, where p is SHIFT elements behind an aligned address: two loads. Both
// aligned vectors must be readable.
template <int N, int SHIFT, class T>
__device__ inline Vector<T, N> load_shifted(const T* p) {
    Vector<T, N> first = load<N>(p - SHIFT), second = load<N>(p - SHIFT + N), v;
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = i + SHIFT < N ? first[i + SHIFT] : second[i + SHIFT - N];
    return v;
}

// Returns the 16 bytes that begin `bytes` (0 to 15) after the first byte of `low`; `high` are the
// 16 bytes that follow `low`.
__device__ inline uint4 funnel_shift(uint4 low, uint4 high, unsigned bytes) {
    unsigned w[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (int i = 0; i < 6; ++i) w[i] = bytes & 8 ? w[i + 2] : w[i];
#pragma unroll
    for (int i = 0; i < 5; ++i) w[i] = bytes & 4 ? w[i + 1] : w[i];
    unsigned bits = bytes % 4 * 8;
    return make_uint4(__funnelshift_r(w[0], w[1], bits), __funnelshift_r(w[1], w[2], bits),
                      __funnelshift_r(w[2], w[3], bits), __funnelshift_r(w[3], w[4], bits));
}

// Hides a value from the optimiser: from here on the compiler takes it for unknown.
__device__ inline void opaque(int& x) { asm volatile("" : "+r"(x)); }
__device__ inline void opaque(unsigned& x) { asm volatile("" : "+r"(x)); }
__device__ inline void opaque(long long& x) { asm volatile("" : "+l"(x)); }
__device__ inline void opaque(float& x) { asm volatile("" : "+f"(x)); }
// The same for each word of a vector of whole words.
template <class T, int N>
__device__ inline void opaque(Vector<T, N>& v) {
    static_assert(sizeof(v) % 4 == 0, "a vector of whole words");
#pragma unroll
    for (int i = 0; i < int(sizeof(v) / 4); ++i) opaque(reinterpret_cast<unsigned*>(&v)[i]);
}

}  // namespace weft
