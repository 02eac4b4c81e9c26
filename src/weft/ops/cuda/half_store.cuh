// Stores a tile of 16-bit results from the registers of tensor-core products: bias, activation, rows that begin anywhere.
#pragma once
#include "problem.cuh"
#include "vector.cuh"

// Stores a warp's part of a tile in shared memory, with bias and activation. EACH: rows differ in their bias. Else one for a
// column is read once; -0 changes no number. Instructions that are executed once for a tile wait for their fetch, so they are few.
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

// A warp turns its part of the tile in shared memory, so that lanes store neighbours: 16 bytes each.
template <int ACTIVATION, bool EACH, class G, class T>
__device__ void write_tile(const G& tile, T* memory, T* C, const T* bias, const Problem& p, int r0, int c0) {
    constexpr int WM = G::DOWN * 16, WN = G::ACROSS * 8, PITCH = WN + 8;  // 16 bytes more: rows start in other banks
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
    // Rows begin anywhere: aligned vectors of 16 bytes are put together from two of the tile, and the elements before the first
    // and after the last of them are stored one by one, up to 7 at either end.
    constexpr int VECTORS = WN / 8 + 1;
    int columns = min(WN, p.N - c0), rows = min(WM, p.M - r0);
    T* to_tile = C + r0 * p.row_c + c0;
    auto lead_of = [&](const T* to_row) { return int(reinterpret_cast<size_t>(to_row) / 2 % 8); };
#pragma unroll 2
    for (int n = lane; n < WM * VECTORS; n += 32) {
        int row = n / VECTORS, k = n % VECTORS * 8;
        T* to_row = to_tile + row * p.row_c;
        int lead = lead_of(to_row), first = k - lead;
        if (row >= rows || first < 0 || first + 8 > columns) continue;
        const uint4* both = reinterpret_cast<const uint4*>(mine + row * PITCH + (lead ? k - 8 : k));
        *reinterpret_cast<uint4*>(to_row + first) = lead ? funnel(both[0], both[1], 16 - 2 * lead) : both[0];
    }
#pragma unroll 4
    for (int n = lane; n < WM * 16; n += 32) {
        int row = n / 16, j = n % 16;
        T* to_row = to_tile + row * p.row_c;
        int head = min((8 - lead_of(to_row)) % 8, columns), tail = head + (columns - head) / 8 * 8;
        int column = j < 8 ? j : tail + j - 8;
        if (row < rows && column < (j < 8 ? head : columns)) to_row[column] = mine[row * PITCH + column];
    }
}
