// Convolution with one tap, stride 1 and no padding on tensor cores, from images as they are:
// contiguous, with pixels in whole vectors of COPY bytes, 16 or 8. It is a matrix product of
// weights [target channel][source channel] and images [source channel][pixel].
#include "tensor.cuh"

// BM target channels x BN pixels for a tile, BYTES of source channels for a stage; a warp owns WM x
// WN. BACK: the weights are [source channel][target channel]. Blocks are numbered by tile; with
// STREAM_K a block has p.each steps of all tiles (tensor.cuh).
template <class T, int BM, int BN, int BYTES, int WM, int WN, int STAGES, int RESIDENT, int COPY,
          bool BACK, bool STREAM_K>
__global__ void __launch_bounds__(BM / WM * (BN / WN) * 32, RESIDENT)
    pointwise(const T* x, const T* weight, const T* bias, T* y, float* parts, int* counters,
              const Conv p) {
    constexpr int THREADS = BM / WM * (BN / WN) * 32, EACH = 16 / sizeof(T),
                  DEEP = BYTES / sizeof(T), SLICE = 32 / sizeof(T);
    constexpr int A_PITCH = BACK ? BM + 8 : DEEP, B_PITCH = BN + 8,
                  A_SIZE = BACK ? DEEP * A_PITCH : BM * DEEP;
    constexpr int STAGE = A_SIZE + DEEP * B_PITCH, DOWN = WM / 16, ACROSS = WN / 8,
                  PARTS = BYTES / 32, NEAR = COPY / sizeof(T);
    constexpr int A_VECTORS = BACK ? BM / EACH : DEEP / EACH, A_ROWS = THREADS / A_VECTORS,
                  B_ROWS = THREADS / (BN / NEAR);
    static_assert((BACK ? DEEP : BM) % A_ROWS == 0 && DEEP % B_ROWS == 0, "whole rounds of copies");
    extern __shared__ __align__(128) float memory[];
    T* ring_memory = reinterpret_cast<T*>(memory);
    int image = p.target_h * p.target_w, pixels = p.batch * image,
        steps = (p.source_c + DEEP - 1) / DEEP;
    TileSteps<STREAM_K> work(p.tiles_m * p.tiles_n, steps, p.each);
    auto corner_of = [&](int number) {
        int2 at = tile_in_bands(number, p.tiles_m, p.tiles_n);
        return make_int2(at.x * BM, at.y * BN);
    };

    // What this thread copies: vectors of weights, and of pixels, from the channel `k` of a tile
    // on.
    int a_vector = threadIdx.x % A_VECTORS, a_row = threadIdx.x / A_VECTORS;
    int b_vector = threadIdx.x % (BN / NEAR), b_row = threadIdx.x / (BN / NEAR),
        k = work.from * DEEP, m0;
    bool b_there;
    const T* b_pixel;
    auto enter = [&](int number) {
        int2 at = corner_of(number);
        int pixel = at.y + b_vector * NEAR, n = pixel / image;
        m0 = at.x, b_there = pixel < pixels,
        b_pixel = x + (b_there ? n * p.source[0] + (pixel - n * image) : 0);
    };
    enter(work.tile);
    int copied = work.tile,
        to_copy = work.left;  // the tile of the next copies, and the steps that are left
    auto fetch = [&](int stage, int part) {
        T* to = ring_memory + stage * STAGE;
        int last = to_copy > 0 ? p.source_c : 0;
        if constexpr (BACK) {
#pragma unroll
            for (int i = 0; i < DEEP / A_ROWS; ++i) {
                if (i * PARTS / (DEEP / A_ROWS) != part) continue;
                int row = a_row + i * A_ROWS, m = m0 + a_vector * EACH;
                copy_async<16>(shared_address(to + row * A_PITCH + a_vector * EACH),
                               weight + (long long)(k + row) * p.weight_source + m,
                               k + row < last && m < p.target_c);
            }
        } else {
#pragma unroll
            for (int i = 0; i < BM / A_ROWS; ++i) {
                if (i * PARTS / (BM / A_ROWS) != part) continue;
                int row = a_row + i * A_ROWS, c = k + a_vector * EACH;
                copy_async<16>(shared_address(to) + swizzle<BYTES>(row, a_vector),
                               weight + (long long)(m0 + row) * p.weight_target + c,
                               m0 + row < p.target_c && c < last);
            }
        }
        to += A_SIZE;
#pragma unroll
        for (int i = 0; i < DEEP / B_ROWS; ++i) {
            if (i * PARTS / (DEEP / B_ROWS) != part) continue;
            int row = b_row + i * B_ROWS;
            copy_async<COPY>(shared_address(to + row * B_PITCH + b_vector * NEAR),
                             b_pixel + (k + row) * p.source[1], b_there && k + row < last);
        }
        if (part < PARTS - 1) return;
        --to_copy, k += DEEP;
        if (STREAM_K && k >= p.source_c && to_copy > 0) {
            k = 0;
            enter(++copied);
        }
    };
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, wm = warp / (BN / WN) * WM,
        wn = warp % (BN / WN) * WN;
    [[maybe_unused]] FragmentRows<BYTES, false> a_rows(wm);
    auto load = [&](unsigned (&a)[DOWN][4], unsigned (&b)[ACROSS / 2][4], int stage, int part) {
        const T* here = ring_memory + stage * STAGE;
        if constexpr (BACK)
            load_channels<T, A_PITCH, DOWN>(a, here + part * SLICE * A_PITCH + wm, false);
        else a_rows.load(a, shared_address(here), part);
        load_channels<T, B_PITCH, ACROSS / 2>(b, here + A_SIZE + part * SLICE * B_PITCH + wn, true);
    };
    Ring<T, DOWN, ACROSS, PARTS, STAGES, sizeof(T) == 4, sizeof(T) == 4> ring;
    auto write = [&](const float (&of)[DOWN][ACROSS][4], int tile) {
        // A warp transposes 32 / sizeof(T) channels at a time in shared memory, so that lanes
        // store vectors of pixels.
        constexpr int PITCH = WN + 8, ROWS = 32 / sizeof(T), HALVES = 16 / ROWS;
        float* own = memory + (STREAM_K ? STAGES * STAGE * sizeof(T) / 4 : 0) +
                     warp * (2 * WN / NEAR + 8 * PITCH);
        long long* offsets =
            reinterpret_cast<long long*>(own);  // of the vectors of pixels in the target, or -1
        T* mine = reinterpret_cast<T*>(own + 2 * WN / NEAR);
        int2 at = corner_of(tile);
        __syncwarp();
        for (int v = lane; v < WN / NEAR; v += 32) {
            int pixel = at.y + wn + v * NEAR, n = pixel / image;
            offsets[v] = pixel < pixels ? n * p.target[0] + (pixel - n * image) : -1;
        }
#pragma unroll
        for (int i = 0; i < WM / ROWS; ++i) {
            __syncwarp();
#pragma unroll
            for (int e = 0; e < 2 / HALVES; ++e) {
                int row = lane / 4 + e * 8, m = at.x + wm + i * ROWS + row;
                float add = bias && m < p.target_c ? to<float>(bias[m]) : 0;
#pragma unroll
                for (int c = 0; c < ACROSS; ++c) {
                    const float* two = of[i / HALVES][c] + (i % HALVES + e) * 2;
                    Vector<T, 2> pair = {{to<T>(two[0] + add), to<T>(two[1] + add)}};
                    store(mine + row * PITCH + c * 8 + lane % 4 * 2, pair);
                }
            }
            __syncwarp();
#pragma unroll
            for (int e = lane; e < ROWS * WN / NEAR; e += 32) {
                int row = e / (WN / NEAR), column = e % (WN / NEAR) * NEAR,
                    m = at.x + wm + i * ROWS + row;
                long long to_vector = offsets[column / NEAR];
                if (m < p.target_c && to_vector >= 0)
                    store(y + to_vector + m * p.target[1],
                          ::load<NEAR>(mine + row * PITCH + column));
            }
        }
    };
    work.template run<THREADS>(ring, fetch, load, parts, counters, write);
}

// The gradient of the weights: rows are channels of dy, columns are channels of x, and the depth is
// all pixels, which are contiguous in both. Each part of the depth is a matrix of its own in
// `parts`; `each` counts steps of BYTES.
template <class T, int BM, int BN, int BYTES, int WM, int WN, int STAGES, int RESIDENT, int COPY>
__global__ void __launch_bounds__(BM / WM * (BN / WN) * 32, RESIDENT)
    pointwise_weight(const T* x, const T* dy, float* parts, const Conv p) {
    constexpr int THREADS = BM / WM * (BN / WN) * 32, EACH = COPY / sizeof(T),
                  DEEP = BYTES / sizeof(T), VECTORS = BYTES / COPY, ROWS = THREADS / VECTORS;
    constexpr int STAGE = (BM + BN) * BYTES, PARTS = BYTES / 32, DOWN = WM / 16, ACROSS = WN / 8;
    static_assert(BM % ROWS == 0 && BN % ROWS == 0, "whole rounds of copies");
    extern __shared__ __align__(128) float memory[];
    int tiles = p.tiles_m * p.tiles_n, split = blockIdx.x / tiles;
    int2 at = tile_in_bands(blockIdx.x % tiles, p.tiles_m, p.tiles_n);
    int m0 = at.x * BM, n0 = at.y * BN, image = p.target_h * p.target_w,
        per_image = (image + DEEP - 1) / DEEP;
    int steps = p.batch * per_image, first = min(steps, split * p.each),
        last = min(steps, first + p.each);
    int vector = threadIdx.x % VECTORS, row = threadIdx.x / VECTORS, n = first / per_image,
        o = first - n * per_image;
    dy += (m0 + row) * p.target[1], x += (n0 + row) * p.source[1];
    unsigned base = shared_address(memory);
    int next = first;
    auto fetch = [&](int stage, int part) {
        auto to_row = [&](int r) {
            return base + stage * STAGE + swizzle<BYTES>(r, vector * COPY / 16) +
                   vector * COPY % 16;
        };
        int pixel = o * DEEP + vector * EACH;
        bool there = next < last && pixel < image;
#pragma unroll
        for (int i = 0; i < BM / ROWS; ++i) {
            if (i * PARTS / (BM / ROWS) != part) continue;
            copy_async<COPY>(to_row(row + i * ROWS),
                             dy + n * p.target[0] + (long long)(i * ROWS) * p.target[1] + pixel,
                             there && m0 + row + i * ROWS < p.target_c);
        }
#pragma unroll
        for (int i = 0; i < BN / ROWS; ++i) {
            if (i * PARTS / (BN / ROWS) != part) continue;
            copy_async<COPY>(to_row(row + i * ROWS) + BM * BYTES,
                             x + n * p.source[0] + (long long)(i * ROWS) * p.source[1] + pixel,
                             there && n0 + row + i * ROWS < p.source_c);
        }
        if (part < PARTS - 1) return;
        ++next;
        if (++o == per_image) o = 0, ++n;
    };
    int warp = threadIdx.x / 32, wm = warp / (BN / WN) * WM, wn = warp % (BN / WN) * WN;
    float of[DOWN][ACROSS][4] = {};
    FragmentRows<BYTES, false> a_rows(wm);
    FragmentRows<BYTES, true> b_rows(wn);
    auto load = [&](unsigned (&a)[DOWN][4], unsigned (&b)[ACROSS / 2][4], int stage, int part) {
        unsigned here = base + stage * STAGE;
        a_rows.load(a, here, part);
        b_rows.load(b, here + BM * BYTES, part);
    };
    Ring<T, DOWN, ACROSS, PARTS, STAGES, sizeof(T) == 4, sizeof(T) == 4> ring;
    ring.start(fetch, load);
    ring.run(of, last - first, fetch, load);
    wait_all_copies();
    parts += (long long)split * p.target_c * p.source_c;
    each_pair(of, [&](int row, int column, float first, float second) {
        int m = m0 + wm + row, c = n0 + wn + column;
        float* to = parts + (long long)m * p.source_c + c;
        if (m < p.target_c && c < p.source_c) to[0] = first;
        if (m < p.target_c && c + 1 < p.source_c) to[1] = second;
    });
}
