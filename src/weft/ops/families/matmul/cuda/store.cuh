// Stores a tile of 16-bit results from the registers of tensor-core products: bias, activation,
// rows that begin anywhere.
#pragma once
#include <weft/convert.cuh>
#include <weft/mma.cuh>
#include "bias.cuh"
#include "problem.cuh"

// The bias of a lane's columns of a tile. All of it is read at once: loads between stores to shared
// memory would wait for each other. -0 changes no number.
template <int ACROSS>
struct ColumnBias {
    float of[ACROSS][2];

    // Reads one for a column from c0 on; none without a bias, or if EACH element has its own.
    template <bool EACH, class T>
    __device__ void fetch(const T* bias, const Problem& p, int c0) {
#pragma unroll
        for (int n = 0; n < ACROSS; ++n)
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                int c = c0 + n * 8 + threadIdx.x % 4 * 2 + j;
                bool there = !EACH && bias && c < p.N;
                of[n][j] = there ? to<float>(bias[c * p.column_bias]) : -0.0f;
            }
    }
};

// Stores a warp's part of a tile in shared memory, with bias and activation. EACH: rows differ in
// their bias, which is read here. Instructions that are executed once for a tile wait for their
// fetch, so they are few.
template <int ACTIVATION, bool EACH, int PITCH, class G, class T>
__device__ void turn_tile(const G& tile, const ColumnBias<G::ACROSS>& added, T* mine, const T* bias,
                          const Problem& p, int r0, int c0) {
    int first = threadIdx.x % 32 / 4, second = threadIdx.x % 4 * 2;
#pragma unroll
    for (int n = 0; n < G::ACROSS; ++n) {
        int c = c0 + n * 8 + second;
#pragma unroll
        for (int i = 0; i < G::DOWN; ++i)
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                int row = i * 16 + h * 8 + first;
                Vector<T, 2> pair;
#pragma unroll
                for (int j = 0; j < 2; ++j) {
                    float value = tile.of[i][n][h * 2 + j];
                    if (!EACH) value += added.of[n][j];
                    else if (r0 + row < p.M && c + j < p.N)
                        value += to<float>(bias[(r0 + row) * p.row_bias + (c + j) * p.column_bias]);
                    pair[j] = to<T>(activated<ACTIVATION>(value));
                }
                store(mine + row * PITCH + n * 8 + second, pair);
            }
    }
}

// Stores `rows` rows of up to WN elements that begin anywhere, PITCH apart in shared memory: a lane
// stores words of two elements, at even places of memory, from two words of the tile; the elements
// before the first and after the last of them are stored alone. Several words are read before the
// first is stored: the compiler does not move reads past stores.
template <int WN, int PITCH, class T>
__device__ void store_rows_anywhere(const T* mine, T* to, long long pitch, int rows, int columns) {
    constexpr int WORDS = WN / 2, ACROSS = WORDS < 32 ? WORDS : 32, EACH = WORDS / ACROSS,
                  APART = 32 / ACROSS, TOGETHER = 4;  // rows that are stored at once, and read
    static_assert(WORDS % ACROSS == 0, "whole rows of words");
    int lane = threadIdx.x % 32;
    for (int r0 = lane / ACROSS; r0 < rows; r0 += APART * TOGETHER) {
        unsigned words[TOGETHER][EACH];
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i) {
            int row = r0 + i * APART;
            int odd = reinterpret_cast<size_t>(to + row * pitch) / 2 % 2;
            const unsigned* from = reinterpret_cast<const unsigned*>(mine + row * PITCH);
#pragma unroll
            for (int n = 0; n < EACH; ++n) {
                int w = lane % ACROSS + n * ACROSS, e = 2 * w + odd;
                // What lies behind the last column was not written.
                unsigned low = row < rows && e < columns ? from[w] : 0;
                unsigned high = odd && row < rows && e + 1 < columns ? from[w + 1] : 0;
                words[i][n] = __funnelshift_r(low, high, odd * 16);
            }
        }
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i) {
            int row = r0 + i * APART;
            if (row >= rows) break;
            T* to_row = to + row * pitch;
            int odd = reinterpret_cast<size_t>(to_row) / 2 % 2;
#pragma unroll
            for (int n = 0; n < EACH; ++n) {
                int w = lane % ACROSS + n * ACROSS, e = 2 * w + odd;
                unsigned word = words[i][n];
                if (e + 1 < columns) *reinterpret_cast<unsigned*>(to_row + e) = word;
                else if (e < columns)
                    *reinterpret_cast<unsigned short*>(to_row + e) =
                        static_cast<unsigned short>(word);
                if (odd && w == 0 && columns > 0) to_row[0] = mine[row * PITCH];
            }
        }
    }
}

// A warp turns its part of the tile in shared memory, so that lanes store neighbours: 16 bytes
// each.
template <int ACTIVATION, bool EACH, class G, class T>
__device__ void write_tile(const G& tile, const ColumnBias<G::ACROSS>& added, T* memory, T* C,
                           const T* bias, const Problem& p, int r0, int c0) {
    constexpr int WM = G::DOWN * 16, WN = G::ACROSS * 8,
                  PITCH = WN + 8;  // 16 bytes more: rows start in other banks
    T* mine = memory + threadIdx.x / 32 * WM * PITCH;
    int lane = threadIdx.x % 32;
    r0 += G::first_row(), c0 += G::first_column();
    turn_tile<ACTIVATION, EACH, PITCH>(tile, added, mine, bias, p, r0, c0);
    __syncwarp();
    if (p.N % 8 == 0) {
        for (int n = lane; n < WM * WN / 8; n += 32) {
            int row = n / (WN / 8), column = n % (WN / 8) * 8;
            if (r0 + row < p.M && c0 + column < p.N)
                store_whole(C + (r0 + row) * p.row_c + c0 + column,
                            load<8>(mine + row * PITCH + column));
        }
        return;
    }
    store_rows_anywhere<WN, PITCH>(mine, C + r0 * p.row_c + c0, p.row_c, min(WM, p.M - r0),
                                   min(WN, p.N - c0));
}

// Stores results of tensor cores: 16 rows of N times 8 columns for a warp, with bias and
// activation. WIDTH columns at a time take the way through shared memory, so that lanes store
// neighbours. TRANSPOSED: the columns of C are contiguous, not its rows. WHOLE: these begin at
// multiples of 16 bytes.
template <class T, bool TRANSPOSED, bool WHOLE, int ACTIVATION, int ROW_WIDTH>
struct ResultStore {
    static constexpr int WIDTH = TRANSPOSED ? 32 : ROW_WIDTH,
                         // 16 bytes more than a row: eight rows lie in different banks
        PITCH = (TRANSPOSED ? 16 : WIDTH) + 8,
                         ELEMENTS = (TRANSPOSED ? WIDTH : 16) * PITCH;  // of shared memory

    // Stores `of` at row r0 and column c0 of C; `mine` is shared memory of the warp.
    template <int N, class Bias>
    static __device__ void store(const float (&of)[N][4], T* mine, T* C, const Bias& bias,
                                 const Problem& p, int r0, int c0) {
        constexpr int PARTS = N * 8 / WIDTH, REST = N % (WIDTH / 8);
#pragma unroll
        for (int part = 0; part < PARTS; ++part)
            store_part<WIDTH / 8>(of, part * WIDTH / 8, mine, C, bias, p, r0, c0);
        if constexpr (REST) store_part<REST>(of, N - REST, mine, C, bias, p, r0, c0);
    }
    // Stores `COUNT` times 8 columns from of[first] on.
    template <int COUNT, int N, class Bias>
    static __device__ void store_part(const float (&of)[N][4], int first, T* mine, T* C,
                                      const Bias& bias, const Problem& p, int r0, int c0) {
        __syncwarp();  // the part before has been read
#pragma unroll
        for (int n = 0; n < COUNT; n += 2) {
            unsigned words[4] = {};
            round(words, of[first + n], bias, p, r0, c0, (first + n) * 8);
            if (n + 1 < COUNT)
                round(words + 2, of[first + n + 1], bias, p, r0, c0, (first + n + 1) * 8);
            if constexpr (TRANSPOSED) {
                // Matrices are those of 8 rows of C below each other, then those beside them.
                int lane = lane_index(), column = n * 8 + lane % 8 + lane / 16 * 8;
                store_matrices_x4<true>(shared_address(mine + column * PITCH + lane / 8 % 2 * 8),
                                        words);
            } else {
                store_matrices_x4(shared_address(mine + n * 8 + a_row(PITCH)), words);
            }
        }
        __syncwarp();
        write<COUNT * 8>(mine, C, bias, p, r0, c0 + first * 8);
    }
    template <class Bias>
    static __device__ void round(unsigned* words, const float (&of)[4], const Bias& bias,
                                 const Problem& p, int r0, int c0, int offset) {
        float value[4] = {of[0], of[1], of[2], of[3]};
        bias.add(value, p, r0, c0, offset);
#pragma unroll
        for (int half = 0; half < 2; ++half)
            words[half] = pack<T>(short_activated<ACTIVATION>(value[half * 2]),
                                  short_activated<ACTIVATION>(value[half * 2 + 1]));
    }
    // `bias` has the last word on vectors; other rows are stored as they are.
    template <int COLUMNS, class Bias>
    static __device__ void write(const T* mine, T* C, const Bias& bias, const Problem& p, int r0,
                                 int c0) {
        int lane = lane_index();
        if constexpr (TRANSPOSED && WHOLE) {
            T* to = C + r0 + c0 * p.column_c;
#pragma unroll
            for (int n = lane; n < COLUMNS * 2; n += 32) {
                int column = n / 2, row = n % 2 * 8;
                T* at = to + column * p.column_c + row;
                if (c0 + column < p.N && r0 + row < p.M)
                    store_whole(at, bias.stored(at, load<8>(mine + column * PITCH + row)));
            }
        } else if constexpr (TRANSPOSED) {
            store_rows_anywhere<16, PITCH>(mine, C + r0 + c0 * p.column_c, p.column_c,
                                           min(COLUMNS, p.N - c0), min(16, p.M - r0));
        } else if constexpr (WHOLE) {
            constexpr int VECTORS = COLUMNS / 8;
#pragma unroll
            for (int n = lane; n < 16 * VECTORS; n += 32) {
                int row = n / VECTORS, column = n % VECTORS * 8;
                T* at = C + (r0 + row) * p.row_c + c0 + column;
                if (r0 + row < p.M && c0 + column < p.N)
                    store_whole(at, bias.stored(at, load<8>(mine + row * PITCH + column)));
            }
        } else {
            store_rows_anywhere<WIDTH, PITCH>(mine, C + r0 * p.row_c + c0, p.row_c,
                                              min(16, p.M - r0), min(COLUMNS, p.N - c0));
        }
    }
};
