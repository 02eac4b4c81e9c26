// The products of a warp: its chunks of pieces, 16 rows, by the columns of the tokens.
#pragma once
#include "problem.cuh"

// What both kinds of products share: how a warp reads weights and tokens.
template <class C>
struct Fragments {
    static constexpr int EACH = CHUNKS / WARPS;
    Vector<unsigned, 4> low[EACH], high[EACH];
    // The tokens, which are columns. Lanes of others have zeros.
    unsigned x[EACH][C::VECTORS][4] = {};

    // Reads the weights of a row in both chunks. Rows are in the same banks: every other one begins
    // with the second chunk.
    static __device__ void read_row(Vector<unsigned, 4> (&to)[EACH], const unsigned char* row) {
        static_assert(EACH == 2, "a pair of chunks");
        bool is_odd = lane_index() / 4 % 2;
        auto first = load<4>(reinterpret_cast<const unsigned*>(row + 64 * is_odd));
        auto second = load<4>(reinterpret_cast<const unsigned*>(row + 64 - 64 * is_odd));
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            to[0][i] = is_odd ? second[i] : first[i];
            to[1][i] = is_odd ? first[i] : second[i];
        }
    }
    __device__ void read(const unsigned char* piece, const Vector<unsigned, 4>* inputs) {
        int lane = lane_index(), chunk = warp_index() * EACH;
        const unsigned char* mine = piece + lane / 4 * PIECE + chunk * 64 + lane % 4 * 16;
        read_row(low, mine), read_row(high, mine + 8 * PIECE);
        inputs += chunk * C::VECTORS * 4 * C::COLUMNS + lane;
#pragma unroll
        for (int i = 0; i < EACH * C::VECTORS; ++i) {
            unsigned (&to)[4] = x[i / C::VECTORS][i % C::VECTORS];
            asm volatile(
                "{ .reg .pred p; setp.ne.u32 p, %5, 0;"
                " @p ld.shared.v4.u32 {%0, %1, %2, %3}, [%4]; }"
                : "+r"(to[0]), "+r"(to[1]), "+r"(to[2]), "+r"(to[3])
                : "r"(shared_address(inputs + i * 4 * C::COLUMNS)),
                  "r"(unsigned(lane < 4 * C::COLUMNS))
                : "memory");
        }
    }
    // Returns the scales of a row of the piece for the groups of the warp's chunks.
    template <int GROUPS>
    static __device__ Vector<float, GROUPS> scales(const unsigned char* piece, int row) {
        auto* all = reinterpret_cast<const float*>(piece + STAGED);
        return load<GROUPS>(all + row * C::GROUPS + warp_index() * GROUPS);
    }
};

// Weights of 16 bits, or of fp8 that become such.
template <class C>
struct Products {
    using T = typename C::T;
    Fragments<C> fragments;
    float sums[2][4] = {}, totals[4] = {};
    unsigned bits;

    __device__ explicit Products(unsigned bits) : bits(bits) {
        opaque(this->bits);  // else it is loaded again for each chunk
    }
    __device__ void convert(unsigned (&to)[4], const Vector<unsigned, 4>& from, int vector) const {
        if constexpr (C::BITS == 16)
#pragma unroll
            for (int i = 0; i < 4; ++i) to[i] = from[i];
        else Dequantiser<C::F, T>{bits}.convert(to, &from[2 * vector]);
    }
    // Adds the products of a piece.
    __device__ void add(const unsigned char* piece, const Vector<unsigned, 4>* inputs, const int*) {
        Fragments<C>& f = fragments;
        f.read(piece, inputs);
#pragma unroll
        for (int v = 0; v < C::VECTORS; ++v)
#pragma unroll
            for (int n = 0; n < Fragments<C>::EACH; ++n) {
                unsigned a[2][4];
                convert(a[0], f.low[n], v), convert(a[1], f.high[n], v);
#pragma unroll
                for (int i = 0; i < 4; i += 2) {
                    unsigned of[4] = {a[0][i], a[1][i], a[0][i + 1], a[1][i + 1]};
                    mma<T>(sums[i / 2], of, &f.x[n][v][i]);
                }
            }
        if constexpr (C::GROUPED) {
            static_assert(C::GROUPS == WARPS, "the chunks of a warp are a group");
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                float scale = Fragments<C>::template scales<1>(piece, c_row(i))[0];
                totals[i] += scale * (sums[0][i] + sums[1][i]);
                sums[0][i] = sums[1][i] = 0;
            }
        }
    }
    __device__ float total(int i) const { return C::GROUPED ? totals[i] : sums[0][i] + sums[1][i]; }
};

// The bits of a float to which integers below 2^22 may be added: 1.5 * 2^23.
constexpr int FLOAT_BITS = 0x4b400000;
constexpr float FLOAT_VALUE = 12582912;

// Integers of four and eight bits by tokens of PLANES bytes, a column each: sums are exact, and
// weights of eight bits need no instruction of their own.
template <class C>
struct IntegerProducts {
    Fragments<C> fragments;
    int sums[4] = {};
    float totals[4] = {};

    __device__ explicit IntegerProducts(unsigned) {}
    // Adds the products of a chunk.
    __device__ void add_chunk(int (&to)[4], int n) {
        const Vector<unsigned, 4>&low = fragments.low[n], &high = fragments.high[n];
        if constexpr (C::BITS == 8)
#pragma unroll
            for (int i = 0; i < 4; i += 2) {
                unsigned a[4] = {low[i], high[i], low[i + 1], high[i + 1]};
                mma_int8(to, a, &fragments.x[n][0][i]);
            }
        else
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                // Bytes of the first, third, ... weight of eight, then of the others.
                constexpr unsigned FOUR = 0x0f0f0f0f;
                unsigned a[4] = {low[i] & FOUR, high[i] & FOUR, low[i] >> 4 & FOUR,
                                 high[i] >> 4 & FOUR};
                mma_int8(to, a, &fragments.x[n][i / 2][i % 2 * 2]);
            }
    }
    // Adds the products of a piece; `offsets` are what each chunk of it has too much, negative.
    __device__ void add(const unsigned char* piece, const Vector<unsigned, 4>* inputs,
                        const int* offsets) {
        constexpr int EACH = Fragments<C>::EACH, GROUPS = C::GROUPED ? C::GROUPS / WARPS : 1;
        constexpr int CHUNKS_EACH = EACH / GROUPS;
        fragments.read(piece, inputs);
#pragma unroll
        for (int group = 0; group < GROUPS; ++group) {
            int found[4], first = group * CHUNKS_EACH;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                found[i] = C::GROUPED ? FLOAT_BITS : sums[i];
                if constexpr (C::BITS == 4)
#pragma unroll
                    for (int n = first; n < first + CHUNKS_EACH; ++n)
                        found[i] += offsets[(warp_index() * EACH + n) * C::COLUMNS +
                                            min(c_column(i), C::COLUMNS - 1)];
            }
#pragma unroll
            for (int n = first; n < first + CHUNKS_EACH; ++n) add_chunk(found, n);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                if constexpr (C::GROUPED) {
                    auto scale = Fragments<C>::template scales<GROUPS>(piece, c_row(i));
                    totals[i] += scale[group] * (__int_as_float(found[i]) - FLOAT_VALUE);
                } else sums[i] = found[i];
            }
        }
    }
    __device__ float total(int i) const { return C::GROUPED ? totals[i] : float(sums[i]); }
};
