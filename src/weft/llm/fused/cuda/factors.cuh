// The products of a warp: its chunks of pieces, 16 rows, by the columns of the tokens.
#pragma once
#include "problem.cuh"

// What both kinds of products share: how a warp reads weights and tokens.
template <class C>
struct Fragments {
    static constexpr int EACH = CHUNKS / WARPS;
    Vector<unsigned, 4> low[EACH], high[EACH];
    // The tokens, which are columns. Lanes of others have zeros.
    unsigned x[EACH][C::VECTORS][C::BLOCKS][4] = {};

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
        for (int i = 0; i < EACH * C::VECTORS * C::BLOCKS; ++i) {
            int vector = i / C::BLOCKS, block = i % C::BLOCKS;
            unsigned (&to)[4] = x[vector / C::VECTORS][vector % C::VECTORS][block];
            unsigned there = block * 32 + lane < 4 * C::COLUMNS;
            asm volatile(
                "{ .reg .pred p; setp.ne.u32 p, %5, 0;"
                " @p ld.shared.v4.u32 {%0, %1, %2, %3}, [%4]; }"
                : "+r"(to[0]), "+r"(to[1]), "+r"(to[2]), "+r"(to[3])
                : "r"(shared_address(inputs + vector * 4 * C::COLUMNS + block * 32)), "r"(there)
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
    float sums[C::BLOCKS][2][4] = {};
    float totals[C::BLOCKS][4] = {};
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
#pragma unroll
                    for (int block = 0; block < C::BLOCKS; ++block)
                        mma<T>(sums[block][i / 2], of, &f.x[n][v][block][i]);
                }
            }
        if constexpr (!C::GROUPED) return;
        // The chunks of a warp are a group.
        static_assert(!C::GROUPED || C::GROUPS == WARPS, "a group of each warp");
#pragma unroll
        for (int i = 0; i < 4 * C::BLOCKS; ++i) {
            float (&of)[2][4] = sums[i / 4];
            float scale = Fragments<C>::template scales<1>(piece, c_row(i % 4))[0];
            totals[i / 4][i % 4] += scale * (of[0][i % 4] + of[1][i % 4]);
            of[0][i % 4] = of[1][i % 4] = 0;
        }
    }
    __device__ float total(int i) const {
        if constexpr (C::GROUPED) return totals[i / 4][i % 4];
        return sums[i / 4][0][i % 4] + sums[i / 4][1][i % 4];
    }
};

// The bits of a float to which integers below 2^22 may be added: 1.5 * 2^23.
constexpr int FLOAT_BITS = 0x4b400000;
constexpr float FLOAT_VALUE = 12582912;

// Integers of four and eight bits by tokens of PLANES bytes, a column each: sums are exact, and
// weights of eight bits need no instruction of their own.
template <class C>
struct IntegerProducts {
    Fragments<C> fragments;
    int sums[C::BLOCKS][4] = {};
    float totals[C::BLOCKS][4] = {};

    __device__ explicit IntegerProducts(unsigned) {}
    // Adds the products of a chunk.
    __device__ void add_chunk(int (&to)[C::BLOCKS][4], int n) {
        const Fragments<C>& f = fragments;
#pragma unroll
        for (int i = 0; i < 4; i += C::BITS / 4) {
            unsigned a[4];
            if constexpr (C::BITS == 8)
                a[0] = f.low[n][i], a[1] = f.high[n][i], a[2] = f.low[n][i + 1],
                a[3] = f.high[n][i + 1];
            else {
                // Bytes of the first, third, ... weight of eight, then of the others.
                constexpr unsigned FOUR = 0x0f0f0f0f;
                a[0] = f.low[n][i] & FOUR, a[1] = f.high[n][i] & FOUR;
                a[2] = f.low[n][i] >> 4 & FOUR, a[3] = f.high[n][i] >> 4 & FOUR;
            }
            constexpr int OF_VECTOR = C::BITS / 4 == 2 ? 4 : 2;  // words of a vector of x
            int vector = C::BITS == 8 ? 0 : i / OF_VECTOR, word = C::BITS == 8 ? i : i % 2 * 2;
#pragma unroll
            for (int block = 0; block < C::BLOCKS; ++block)
                mma_int8(to[block], a, &f.x[n][vector][block][word]);
        }
    }
    // Adds the products of a piece; `offsets` are what each chunk of it has too much, negative.
    __device__ void add(const unsigned char* piece, const Vector<unsigned, 4>* inputs,
                        const int* offsets) {
        constexpr int EACH = Fragments<C>::EACH, GROUPS = C::GROUPED ? C::GROUPS / WARPS : 1;
        fragments.read(piece, inputs);
#pragma unroll
        for (int group = 0; group < GROUPS; ++group) {
            int found[C::BLOCKS][4];
#pragma unroll
            for (int i = 0; i < 4 * C::BLOCKS; ++i) {
                int& to = found[i / 4][i % 4];
                to = C::GROUPED ? FLOAT_BITS : sums[i / 4][i % 4];
                int column = min(i / 4 * 8 + c_column(i % 4), C::COLUMNS - 1);
                if constexpr (C::BITS == 4)
#pragma unroll
                    for (int n = group * EACH / GROUPS; n < (group + 1) * EACH / GROUPS; ++n)
                        to += offsets[(warp_index() * EACH + n) * C::COLUMNS + column];
            }
#pragma unroll
            for (int n = group * EACH / GROUPS; n < (group + 1) * EACH / GROUPS; ++n)
                add_chunk(found, n);
#pragma unroll
            for (int i = 0; i < 4 * C::BLOCKS; ++i) {
                int of = found[i / 4][i % 4];
                if constexpr (C::GROUPED) {
                    auto scale = Fragments<C>::template scales<GROUPS>(piece, c_row(i % 4));
                    totals[i / 4][i % 4] += scale[group] * (__int_as_float(of) - FLOAT_VALUE);
                } else sums[i / 4][i % 4] = of;
            }
        }
    }
    __device__ float total(int i) const {
        return C::GROUPED ? totals[i / 4][i % 4] : float(sums[i / 4][i % 4]);
    }
};
