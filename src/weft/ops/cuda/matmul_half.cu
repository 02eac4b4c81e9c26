// Matrix products of 16-bit elements: C = f(A B + bias), for any strides, batched, cut along K where tiles are few.
#include "gemm_half.cuh"
#include "gemm_panel.cuh"
#include "problem.cuh"

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

// Blocks are numbered by tile, then by part of K, then by product of the batch. With SPLIT, a block stores its sums in
// `parts`, and the last block of a tile adds them in order: results do not depend on which block comes last.
template <class G, int BM, int BN, int ACTIVATION, bool SPLIT, bool EACH = false, class T>
__device__ void half_tile(const T* A, const T* B, const T* bias, T* C, float4* parts, int* counters, const Problem& p) {
    extern __shared__ __align__(128) char bytes[];
    T* memory = reinterpret_cast<T*>(bytes);
    G tile;
    {
        Place at = Place::here<BM, BN>(p);
        if (at.batch >= p.batch) return;
        int k0 = SPLIT ? at.split * p.each : 0, k1 = SPLIT ? min(p.K, k0 + p.each) : p.K;
        tile.run(typename G::A(A + at.batch * p.batch_a, p.lda, at.row, p.M, k0, k1),
                 typename G::B(B + at.batch * p.batch_b, p.ldb, at.column, p.N, k0, k1), memory, k0, k1);
    }
    Place at = Place::here<BM, BN>(p);
    if constexpr (SPLIT) {
        // [tile of the batch][split][place of a thread's four results][thread]
        constexpr int FOURS = G::DOWN * G::ACROSS;
        long long slot = at.batch * p.tiles_m * p.tiles_n + at.tile;
        float4* mine = parts + slot * p.splits * FOURS * G::THREADS + threadIdx.x;
#pragma unroll
        for (int f = 0; f < FOURS; ++f) {
            const float* v = tile.of[f / G::ACROSS][f % G::ACROSS];
            mine[(at.split * FOURS + f) * G::THREADS] = make_float4(v[0], v[1], v[2], v[3]);
        }
        __threadfence();
        __syncthreads();
        bool& last = *reinterpret_cast<bool*>(bytes);
        if (threadIdx.x == 0) {
            last = atomicAdd(counters + slot, 1) == p.splits - 1;
            if (last) counters[slot] = 0;  // for the next launch
        }
        __syncthreads();
        if (!last) return;
        __threadfence();
        __syncthreads();  // all have read it: the results take its place
#pragma unroll
        for (int f = 0; f < FOURS; ++f) {
            float* v = tile.of[f / G::ACROSS][f % G::ACROSS];
            float4 sum = make_float4(0, 0, 0, 0);
            for (int s = 0; s < p.splits; ++s) {
                float4 one = __ldcg(mine + (s * FOURS + f) * G::THREADS);
                sum.x += one.x, sum.y += one.y, sum.z += one.z, sum.w += one.w;
            }
            v[0] = sum.x, v[1] = sum.y, v[2] = sum.z, v[3] = sum.w;
        }
    }
    if (bias) bias += at.batch * p.batch_bias;
    write_tile<ACTIVATION, EACH>(tile, memory, C + at.batch * p.batch_c, bias, p, at.row, at.column);
}

template <class T, int BM, int BN, int BK, int WM, int WN, int STAGES, int RESIDENT, bool ADEEP, int ABYTES, bool BDEEP,
          int BBYTES, int ACTIVATION, bool SPLIT, bool EACH>
__global__ void __launch_bounds__(BM / WM * (BN / WN) * 32, RESIDENT)
    half_tiled(const T* A, const T* B, const T* bias, T* C, float4* parts, int* counters, const Problem p) {
    using G = HalfGemm<T, BM, BN, BK, WM, WN, STAGES, ADEEP, ABYTES, BDEEP, BBYTES>;
    half_tile<G, BM, BN, ACTIVATION, SPLIT, EACH>(A, B, bias, C, parts, counters, p);
}

// The whole K, at most DEPTH, at once.
template <class T, int BM, int BN, int DEPTH, int WM, int WN, int RESIDENT, bool ADEEP, bool BDEEP, int ACTIVATION, bool EACH>
__global__ void __launch_bounds__(BM / WM * (BN / WN) * 32, RESIDENT)
    half_panel(const T* A, const T* B, const T* bias, T* C, const Problem p) {
    using G = HalfPanel<T, BM, BN, DEPTH, WM, WN, ADEEP, BDEEP>;
    half_tile<G, BM, BN, ACTIVATION, false, EACH>(A, B, bias, C, nullptr, nullptr, p);
}

// Copies rows of `columns` elements to rows of `pitch`, a multiple of eight: each thread stores 16 bytes. What is past the end
// of a row is zero. I is an integer type that holds the number of vectors; `last` is the number of elements that may be read.
template <class T, class I>
__global__ void __launch_bounds__(256) padded(const T* from, T* to, I vectors, I rows, int columns, int pitch,
                                              long long stride, long long batch, long long last) {
    I i = blockIdx.x * I(256) + threadIdx.x;
    if (i >= vectors) return;
    I row = i / I(pitch / 8), matrix = row / rows;
    int column = int(i - row * I(pitch / 8)) * 8;
    Loose loose;
    loose.read(from + (long long)matrix * batch + (long long)(row - matrix * rows) * stride + column, min(8, columns - column),
               reinterpret_cast<size_t>(from), reinterpret_cast<size_t>(from + last));
    *reinterpret_cast<uint4*>(to + (long long)i * 8) = loose.joined();
}
