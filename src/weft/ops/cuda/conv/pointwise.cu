// Convolution with one tap, stride 1 and no padding on tensor cores, from images as they are: contiguous, with pixels in whole vectors
// of COPY bytes, 16 or 8. It is a matrix product of weights [target channel][source channel] and images [source channel][pixel].
#include "tensor.cuh"

// BM target channels x BN pixels for a block, BYTES of source channels for a stage; a warp owns WM x WN. BACK: the weights
// are [source channel][target channel]. Blocks are numbered by tile, then by part of the depth.
template <class T, int BM, int BN, int BYTES, int WM, int WN, int STAGES, int RESIDENT, int COPY, bool BACK,
          bool SPLIT>
__global__ void __launch_bounds__(BM / WM * (BN / WN) * 32, RESIDENT)
    pointwise(const T* x, const T* weight, const T* bias, T* y, float* parts, int* counters, const Conv p) {
    constexpr int THREADS = BM / WM * (BN / WN) * 32, EACH = 16 / sizeof(T), DEEP = BYTES / sizeof(T), SLICE = 32 / sizeof(T);
    constexpr int A_PITCH = BACK ? BM + 8 : DEEP, B_PITCH = BN + 8, A_SIZE = BACK ? DEEP * A_PITCH : BM * DEEP;
    constexpr int STAGE = A_SIZE + DEEP * B_PITCH, DOWN = WM / 16, ACROSS = WN / 8;
    constexpr int PARTS = BYTES / 32, NEAR = COPY / sizeof(T);  // copies between products do not hold them up
    constexpr int A_VECTORS = BACK ? BM / EACH : DEEP / EACH, A_ROWS = THREADS / A_VECTORS, B_ROWS = THREADS / (BN / NEAR);
    static_assert((BACK ? DEEP : BM) % A_ROWS == 0 && DEEP % B_ROWS == 0, "whole rounds of copies");
    extern __shared__ __align__(128) float memory[];
    T* tile = reinterpret_cast<T*>(memory);
    int tiles = p.tiles_m * p.tiles_n, split = blockIdx.x / tiles, number = blockIdx.x % tiles;
    int2 at = in_bands(number, p.tiles_m, p.tiles_n);
    int m0 = at.x * BM, n0 = at.y * BN, image = p.target_h * p.target_w, pixels = p.batch * image;
    int first = SPLIT ? min(p.source_c, split * p.each) : 0, last = SPLIT ? min(p.source_c, first + p.each) : p.source_c;
    int a_vector = threadIdx.x % A_VECTORS, a_row = threadIdx.x / A_VECTORS;
    int b_vector = threadIdx.x % (BN / NEAR), b_row = threadIdx.x / (BN / NEAR);
    int pixel = n0 + b_vector * NEAR, n = pixel / image;
    bool b_there = pixel < pixels;
    x += b_there ? n * p.source[0] + (pixel - n * image) : 0;
    int into = 0;
    auto fetch = [&](int k, int part) {
        T* to = tile + into * STAGE;
        if constexpr (BACK) {
#pragma unroll
            for (int i = 0; i < DEEP / A_ROWS; ++i) {
                if (i * PARTS / (DEEP / A_ROWS) != part) continue;
                int row = a_row + i * A_ROWS, m = m0 + a_vector * EACH;
                copy16(shared_address(to + row * A_PITCH + a_vector * EACH), weight + (long long)(k + row) * p.weight_source + m,
                       k + row < last && m < p.target_c);
            }
        } else {
#pragma unroll
            for (int i = 0; i < BM / A_ROWS; ++i) {
                if (i * PARTS / (BM / A_ROWS) != part) continue;
                int row = a_row + i * A_ROWS, c = k + a_vector * EACH;
                copy16(shared_address(to) + place<BYTES>(row, a_vector), weight + (long long)(m0 + row) * p.weight_target + c,
                       m0 + row < p.target_c && c < last);
            }
        }
        to += A_SIZE;
#pragma unroll
        for (int i = 0; i < DEEP / B_ROWS; ++i) {
            if (i * PARTS / (DEEP / B_ROWS) != part) continue;
            int row = b_row + i * B_ROWS;
            copy<COPY>(shared_address(to + row * B_PITCH + b_vector * NEAR), x + (k + row) * p.source[1], b_there && k + row < last);
        }
        if (part < PARTS - 1) return;
        asm volatile("cp.async.commit_group;");
        into = into + 1 == STAGES ? 0 : into + 1;
    };
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, wm = warp / (BN / WN) * WM, wn = warp % (BN / WN) * WN, now = 0;
    float of[DOWN][ACROSS][4] = {};
    unsigned a[2][DOWN][4], b[2][ACROSS / 2][4];
    auto load = [&](int to, const T* stage, int k) {
        if constexpr (BACK) load_channels<T, A_PITCH, DOWN>(a[to], stage + k * SLICE * A_PITCH + wm, false);
        else
#pragma unroll
            for (int i = 0; i < DOWN; ++i)
                load_matrices(a[to][i], shared_address(stage) + place<BYTES>(wm + i * 16 + lane % 16, k * 2 + lane / 16));
        load_channels<T, B_PITCH, ACROSS / 2>(b[to], stage + A_SIZE + k * SLICE * B_PITCH + wn, true);
        if constexpr (sizeof(T) == 4) {
#pragma unroll
            for (int e = 0; e < DOWN * 4; ++e) a[to][e / 4][e % 4] = as_tf32(a[to][e / 4][e % 4]);
#pragma unroll
            for (int e = 0; e < ACROSS * 2; ++e) b[to][e / 4][e % 4] = as_tf32(b[to][e / 4][e % 4]);
        }
    };
    for (int s = 0; s < STAGES - 1; ++s)
#pragma unroll
        for (int part = 0; part < PARTS; ++part) fetch(first + s * DEEP, part);
#pragma unroll 1
    for (int k = first; k < last; k += DEEP) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
        __syncthreads();
        const T* stage = tile + now * STAGE;
        load(0, stage, 0);
#pragma unroll
        for (int j = 0; j < PARTS; ++j) {
            if (j + 1 < PARTS) load((j + 1) % 2, stage, j + 1);
            fetch(k + (STAGES - 1) * DEEP, j);
#pragma unroll
            for (int i = 0; i < DOWN; ++i)
#pragma unroll
                for (int c = 0; c < ACROSS; ++c) multiply<T>(of[i][c], a[j % 2][i], b[j % 2][c / 2] + c % 2 * 2);
        }
        now = now + 1 == STAGES ? 0 : now + 1;
    }
    asm volatile("cp.async.wait_all;");
    if constexpr (SPLIT) {
        if (!join_parts<THREADS>(reinterpret_cast<float(&)[DOWN * ACROSS * 4]>(of), parts, counters, number, split, p.splits)) return;
    }
    __syncthreads();
    // A warp turns 16 channels at a time in shared memory, so that lanes store vectors of pixels.
    constexpr int PITCH = WN + 8;
    long long* offsets = reinterpret_cast<long long*>(memory);  // of the vectors of pixels in the target, or -1
    for (int v = threadIdx.x; v < BN / NEAR; v += THREADS) {
        int to_pixel = n0 + v * NEAR, to_n = to_pixel / image;
        offsets[v] = to_pixel < pixels ? to_n * p.target[0] + (to_pixel - to_n * image) : -1;
    }
    __syncthreads();
    T* mine = reinterpret_cast<T*>(memory + 2 * BN) + warp * 16 * PITCH;
#pragma unroll
    for (int i = 0; i < DOWN; ++i) {
        __syncwarp();
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            int row = lane / 4 + e * 8, m = m0 + wm + i * 16 + row;
            float add = bias && m < p.target_c ? to<float>(bias[m]) : 0;
#pragma unroll
            for (int c = 0; c < ACROSS; ++c) {
                Vector<T, 2> pair = {{to<T>(of[i][c][e * 2] + add), to<T>(of[i][c][e * 2 + 1] + add)}};
                store(mine + row * PITCH + c * 8 + lane % 4 * 2, pair);
            }
        }
        __syncwarp();
#pragma unroll
        for (int e = lane; e < 16 * WN / NEAR; e += 32) {
            int row = e / (WN / NEAR), column = e % (WN / NEAR) * NEAR, m = m0 + wm + i * 16 + row;
            long long to_vector = offsets[(wn + column) / NEAR];
            if (m < p.target_c && to_vector >= 0) store(y + to_vector + m * p.target[1], ::load<NEAR>(mine + row * PITCH + column));
        }
    }
}

// The gradient of the weights: rows are channels of dy, columns are channels of x, and the depth is all pixels, which are
// contiguous in both. Each part of the depth is a matrix of its own in `parts`; `each` counts steps of BYTES.
template <class T, int BM, int BN, int BYTES, int WM, int WN, int STAGES, int RESIDENT, int COPY>
__global__ void __launch_bounds__(BM / WM * (BN / WN) * 32, RESIDENT)
    pointwise_weight(const T* x, const T* dy, float* parts, const Conv p) {
    constexpr int THREADS = BM / WM * (BN / WN) * 32, EACH = COPY / sizeof(T), DEEP = BYTES / sizeof(T), VECTORS = BYTES / COPY, ROWS = THREADS / VECTORS;
    constexpr int STAGE = (BM + BN) * BYTES, PARTS = BYTES / 32, DOWN = WM / 16, ACROSS = WN / 8;
    static_assert(BM % ROWS == 0 && BN % ROWS == 0, "whole rounds of copies");
    extern __shared__ __align__(128) float memory[];
    int tiles = p.tiles_m * p.tiles_n, split = blockIdx.x / tiles;
    int2 at = in_bands(blockIdx.x % tiles, p.tiles_m, p.tiles_n);
    int m0 = at.x * BM, n0 = at.y * BN, image = p.target_h * p.target_w, per_image = (image + DEEP - 1) / DEEP;
    int steps = p.batch * per_image, first = min(steps, split * p.each), last = min(steps, first + p.each);
    int vector = threadIdx.x % VECTORS, row = threadIdx.x / VECTORS, n = first / per_image, o = first - n * per_image;
    dy += (m0 + row) * p.target[1], x += (n0 + row) * p.source[1];
    unsigned base = shared_address(memory), into = base;
    auto to_row = [&](int r) { return into + place<BYTES>(r, vector * COPY / 16) + vector * COPY % 16; };
    auto fetch = [&](int step, int part) {
        int pixel = o * DEEP + vector * EACH;
        bool there = step < last && pixel < image;
#pragma unroll
        for (int i = 0; i < BM / ROWS; ++i) {
            if (i * PARTS / (BM / ROWS) != part) continue;
            copy<COPY>(to_row(row + i * ROWS), dy + n * p.target[0] + (long long)(i * ROWS) * p.target[1] + pixel,
                   there && m0 + row + i * ROWS < p.target_c);
        }
#pragma unroll
        for (int i = 0; i < BN / ROWS; ++i) {
            if (i * PARTS / (BN / ROWS) != part) continue;
            copy<COPY>(to_row(row + i * ROWS) + BM * BYTES,
                   x + n * p.source[0] + (long long)(i * ROWS) * p.source[1] + pixel, there && n0 + row + i * ROWS < p.source_c);
        }
        if (part < PARTS - 1) return;
        asm volatile("cp.async.commit_group;");
        into = into + STAGE == base + STAGES * STAGE ? base : into + STAGE;
        if (++o == per_image) o = 0, ++n;
    };
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, wm = warp / (BN / WN) * WM, wn = warp % (BN / WN) * WN;
    int a_row = wm + lane % 16, a_vector = lane / 16, b_row = wn + lane % 8 + lane / 16 * 8, b_vector = lane / 8 % 2;
    float of[DOWN][ACROSS][4] = {};
    unsigned a[2][DOWN][4], b[2][ACROSS][2];
    auto load = [&](int to, unsigned stage, int k) {
#pragma unroll
        for (int i = 0; i < DOWN; ++i) load_matrices(a[to][i], stage + place<BYTES>(a_row + i * 16, k * 2 + a_vector));
#pragma unroll
        for (int c = 0; c < ACROSS; c += 2) load_matrices(b[to][c], stage + BM * BYTES + place<BYTES>(b_row + c * 8, k * 2 + b_vector));
        if constexpr (sizeof(T) == 4) {
#pragma unroll
            for (int e = 0; e < DOWN * 4; ++e) a[to][e / 4][e % 4] = as_tf32(a[to][e / 4][e % 4]);
#pragma unroll
            for (int e = 0; e < ACROSS * 2; ++e) b[to][e / 2][e % 2] = as_tf32(b[to][e / 2][e % 2]);
        }
    };
    for (int s = 0; s < STAGES - 1; ++s)
#pragma unroll
        for (int part = 0; part < PARTS; ++part) fetch(first + s, part);
    unsigned stage = base;
#pragma unroll 1
    for (int step = first; step < last; ++step) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
        __syncthreads();
        load(0, stage, 0);
#pragma unroll
        for (int j = 0; j < PARTS; ++j) {
            if (j + 1 < PARTS) load((j + 1) % 2, stage, j + 1);
            fetch(step + STAGES - 1, j);
#pragma unroll
            for (int i = 0; i < DOWN; ++i)
#pragma unroll
                for (int c = 0; c < ACROSS; ++c) multiply<T>(of[i][c], a[j % 2][i], b[j % 2][c]);
        }
        stage = stage + STAGE == base + STAGES * STAGE ? base : stage + STAGE;
    }
    asm volatile("cp.async.wait_all;");
    parts += (long long)split * p.target_c * p.source_c;
#pragma unroll
    for (int i = 0; i < DOWN; ++i)
#pragma unroll
        for (int c = 0; c < ACROSS; ++c)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                int m = m0 + wm + i * 16 + lane / 4 + e / 2 * 8, column = n0 + wn + c * 8 + lane % 4 * 2 + e % 2;
                if (m < p.target_c && column < p.source_c) parts[(long long)m * p.source_c + column] = of[i][c][e];
            }
}
