// Vectors that stay packed in registers: eight elements of two bytes take four registers. As single
// elements, or as floats that the compiler has converted ahead, they would take eight.
#pragma once
#include "row.cuh"

__device__ inline float opened(unsigned word, int, float) { return __uint_as_float(word); }
__device__ inline float opened(unsigned word, int j, __nv_bfloat16) {
    return __uint_as_float(j % 2 ? word & 0xffff0000u : word << 16);
}
__device__ inline float opened(unsigned word, int j, __half) {
    return __half2float(__ushort_as_half(static_cast<unsigned short>(j % 2 ? word >> 16 : word)));
}
__device__ inline unsigned closed(float a, float, float) { return __float_as_uint(a); }
__device__ inline unsigned closed(float a, float b, __nv_bfloat16) {
    __nv_bfloat162 pair = __floats2bfloat162_rn(a, b);
    return *reinterpret_cast<unsigned*>(&pair);
}
__device__ inline unsigned closed(float a, float b, __half) {
    __half2 pair = __floats2half2_rn(a, b);
    return *reinterpret_cast<unsigned*>(&pair);
}

template <class T>
__device__ unsigned bits(T x) {
    if constexpr (sizeof(T) == 2) return *reinterpret_cast<unsigned short*>(&x);
    else return __float_as_uint(x);
}

template <class T, int V>
struct Packed {
    static constexpr int EACH = 4 / sizeof(T), WORDS = (V + EACH - 1) / EACH;
    unsigned word[WORDS];

    __device__ float operator[](int j) const { return opened(word[j / EACH], j, T()); }

    // f(value, j) for each element; j is known at compile time.
    template <class F>
    __device__ Packed map(F f) const {
        Packed made;
#pragma unroll
        for (int w = 0; w < WORDS; w++) {
            int a = w * EACH, b = a + EACH - 1 < V ? a + EACH - 1 : a;
            float first = f((*this)[a], a);
            made.word[w] = closed(first, b == a ? 0 : f((*this)[b], b), T());
        }
        return made;
    }
    // Makes the compiler open the words anew where they are used next.
    __device__ void forget() {
#pragma unroll
        for (int w = 0; w < WORDS; w++) asm volatile("" : "+r"(word[w]));
    }
};

// A row of n elements as in row.cuh, in packed vectors. EVEN: it begins and ends with a whole
// vector.
template <class T, int V, bool EVEN>
struct PackedRow {
    int lead, n;

    __device__ PackedRow(long long start, int n) : lead(EVEN ? 0 : int(start % V)), n(n) {}

    __device__ int place(int chunk) const { return EVEN ? chunk * V : chunk * V - lead; }
    __device__ bool has(int i) const { return i >= 0 && i < n; }
    __device__ bool whole(int at) const {
        return sizeof(Packed<T, V>) == 16 && (EVEN ? at < n : at >= 0 && at + V <= n);
    }
    // A vector that is not whole.
    __device__ Packed<T, V> rest(const T* row, int at, float outside) const {
        Packed<T, V> v;
#pragma unroll
        for (int w = 0; w < v.WORDS; w++) {
            v.word[w] = 0;
#pragma unroll
            for (int j = 0; j < v.EACH && w * v.EACH + j < V; j++) {
                int i = at + w * v.EACH + j;
                v.word[w] |= bits(!EVEN && has(i) ? row[i] : to<T>(outside)) << (j * 16);
            }
        }
        return v;
    }
    __device__ Packed<T, V> get(const T* row, int chunk, float outside) const {
        int at = place(chunk);
        if (!whole(at)) return rest(row, at, outside);
        Packed<T, V> v;
        *reinterpret_cast<uint4*>(&v) = *reinterpret_cast<const uint4*>(row + at);
        return v;
    }
    __device__ void put(T* row, int chunk, const Packed<T, V>& v) const {
        int at = place(chunk);
        if (whole(at)) {
            store_whole(row + at, *reinterpret_cast<const Vector<T, V>*>(&v));
        } else if constexpr (!EVEN) {
#pragma unroll
            for (int j = 0; j < V; j++)
                if (has(at + j)) row[at + j] = to<T>(v[j]);
        }
    }
    // Starts a copy into shared memory, for this thread alone; cp.async.wait_all completes it.
    __device__ void fetch(Packed<T, V>* to_shared, const T* row, int chunk, float outside) const {
        int at = place(chunk);
        if (whole(at)) {
            unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to_shared));
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(row + at));
        } else {
            *to_shared = rest(row, at, outside);
        }
    }
};
