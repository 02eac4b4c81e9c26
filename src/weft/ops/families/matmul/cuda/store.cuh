// Stores a tile of 16-bit results from the registers of tensor-core products: bias, activation,
// rows that begin anywhere.
#pragma once
#include <weft/convert.cuh>
#include "problem.cuh"

// Stores a warp's part of a tile in shared memory, with bias and activation. EACH: rows differ in
// their bias. Else one for a column is read once; -0 changes no number. Instructions that are
// executed once for a tile wait for their fetch, so they are few.
template <int ACTIVATION, bool EACH, int PITCH, class G, class T>
__device__ void turn_tile(const G& tile, T* mine, const T* bias, const Problem& p, int r0, int c0) {
    int first = threadIdx.x % 32 / 4, second = threadIdx.x % 4 * 2;
#pragma unroll
    for (int n = 0; n < G::ACROSS; ++n) {
        int c = c0 + n * 8 + second;
        float added[2] = {-0.0f, -0.0f};
#pragma unroll
        for (int j = 0; j < 2; ++j)
            if (!EACH && bias && c + j < p.N) added[j] = to<float>(bias[(c + j) * p.column_bias]);
#pragma unroll
        for (int i = 0; i < G::DOWN; ++i)
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                int row = i * 16 + h * 8 + first;
                Vector<T, 2> pair;
#pragma unroll
                for (int j = 0; j < 2; ++j) {
                    float value = tile.of[i][n][h * 2 + j];
                    if (!EACH) value += added[j];
                    else if (r0 + row < p.M && c + j < p.N)
                        value += to<float>(bias[(r0 + row) * p.row_bias + (c + j) * p.column_bias]);
                    pair[j] = to<T>(activated<ACTIVATION>(value));
                }
                store(mine + row * PITCH + n * 8 + second, pair);
            }
    }
}

// A warp turns its part of the tile in shared memory, so that lanes store neighbours: 16 bytes
// each.
template <int ACTIVATION, bool EACH, class G, class T>
__device__ void write_tile(const G& tile, T* memory, T* C, const T* bias, const Problem& p, int r0,
                           int c0) {
    constexpr int WM = G::DOWN * 16, WN = G::ACROSS * 8,
                  PITCH = WN + 8;  // 16 bytes more: rows start in other banks
    T* mine = memory + threadIdx.x / 32 * WM * PITCH;
    int lane = threadIdx.x % 32;
    r0 += G::first_row(), c0 += G::first_column();
    turn_tile<ACTIVATION, EACH, PITCH>(tile, mine, bias, p, r0, c0);
    __syncwarp();
    if (p.N % 8 == 0) {
        for (int n = lane; n < WM * WN / 8; n += 32) {
            int row = n / (WN / 8), column = n % (WN / 8) * 8;
            if (r0 + row < p.M && c0 + column < p.N)
                store(C + (r0 + row) * p.row_c + c0 + column, load<8>(mine + row * PITCH + column));
        }
        return;
    }
    // Rows begin anywhere: a lane stores words of two elements, at even places of memory, from two
    // words of the tile; the elements before the first and after the last of them are stored alone.
    constexpr int WORDS = WN / 2, APART = WORDS < 32
                                              ? 32 / WORDS
                                              : 1;  // words of a row; rows that are stored at once
    int columns = min(WN, p.N - c0), rows = min(WM, p.M - r0);
    int row = lane / WORDS;
    T* to_row = C + (r0 + row) * p.row_c + c0;
    const unsigned* words = reinterpret_cast<const unsigned*>(mine) + row * (PITCH / 2);
#pragma unroll 4
    for (; row < rows; row += APART, to_row += APART * p.row_c, words += APART * (PITCH / 2)) {
        int odd = reinterpret_cast<size_t>(to_row) / 2 % 2;
#pragma unroll
        for (int w = lane % WORDS; w < WORDS; w += 32) {
            int e = 2 * w + odd;
            unsigned word = __funnelshift_r(words[w], w + 1 < WORDS ? words[w + 1] : 0, odd * 16);
            if (e + 1 < columns) *reinterpret_cast<unsigned*>(to_row + e) = word;
            else if (e < columns)
                *reinterpret_cast<unsigned short*>(to_row + e) = static_cast<unsigned short>(word);
            if (odd && w == 0 && columns > 0)
                to_row[0] = mine[(words - reinterpret_cast<const unsigned*>(mine)) * 2];
        }
    }
}
