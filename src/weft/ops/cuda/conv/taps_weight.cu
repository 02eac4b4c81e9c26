// The backward pass to the weight on tensor cores, for stride 1, in which the taps of a row share what is copied to shared memory. The
// product is that of tensor_weight.cu, but its depth is the pixels of an image that is S - 1 columns wider (taps.cu): then tap s of
// step k lies in row k + s of shared memory. Steps in the added columns have no gradient.
#include "mma.cuh"
#include "window.cuh"
#include "../problem.cuh"

// The steps of a stage, and eight after it: where dy and the first tap of the row of x are, or -1 for zeros. They are computed once
// for the block, a stage before they are needed.
template <int STEPS, int STAGES>
struct Places {
    struct alignas(16) Position {
        int n, i, j, index;
    };
    longlong2 table[STAGES][STEPS + 8];
    Position at[STEPS + 8], step;  // `step` is STEPS as images, rows and columns: a division would delay a whole stage

    static __device__ Position position(const Conv& p, int width, int index) {
        int row = index / width, n = row / p.target_h;
        return {n, row - n * p.target_h, index - row * width, index};
    }
    // A barrier must follow, before `fill`.
    __device__ void start(const Conv& p, int width, int k0) {
        if (threadIdx.x < STEPS + 8) at[threadIdx.x] = position(p, width, k0 + threadIdx.x);
        if (threadIdx.x == 0) step = position(p, width, STEPS);
    }
    // `end` is that of this block's part of the depth. `down`: rows from a pixel to its first tap.
    __device__ void fill(int stage, const Conv& p, int width, int end, int down) {
        if (threadIdx.x >= STEPS + 8) return;
        auto [n, i, j, index] = at[threadIdx.x];
        int h = i + down, w = j - p.pad_w;
        bool inside = n < p.batch && unsigned(h) < p.source_h && unsigned(w) < p.source_w;
        table[stage][threadIdx.x] = make_longlong2(
            index < end && j < p.target_w ? n * p.target[0] + i * p.target[2] + j * p.target[3] : -1,
            inside ? n * p.source[0] + h * p.source[2] + w * p.source[3] : -1);
        n += step.n, i += step.i, j += step.j;
        if (j >= width) j -= width, ++i;
        if (i >= p.target_h) i -= p.target_h, ++n;
        at[threadIdx.x] = {n, i, j, index + STEPS};
    }
};

// BM channels of dy x S taps of a row and BC channels of x for a block, PIXELS of the depth for a stage; a warp owns WM x WN. Blocks
// are numbered by tile, then by part of the depth (x) and by group (z). Each part is a matrix of its own in `parts`: [group][channel
// of dy][tap][channel of x]. ROUND: the tensors are float that has not been rounded to tf32.
template <class T, int S, int BM, int BC, int PIXELS, int WM, int WN, int STAGES, int RESIDENT, bool ROUND>
__global__ void __launch_bounds__(BM / WM * (S * BC / WN) * 32, RESIDENT)
    taps_weight(const T* x, const T* dy, float* parts, const Conv p) {
    constexpr int ACROSS_WARPS = S * BC / WN, THREADS = BM / WM * ACROSS_WARPS * 32, EACH = 16 / sizeof(T), PAD = 8;
    constexpr int A_PITCH = BM + PAD, B_PITCH = BC + PAD, B_STEPS = PIXELS + 8, STAGE = PIXELS * A_PITCH + B_STEPS * B_PITCH;
    constexpr int A_ROWS = THREADS / (BM / EACH), B_ROWS = THREADS / (BC / EACH), DEEP = 32 / sizeof(T);
    constexpr int A_COPIES = PIXELS / A_ROWS, B_COPIES = (B_STEPS + B_ROWS - 1) / B_ROWS, PARTS = PIXELS / DEEP;
    constexpr int DOWN = WM / 16, ACROSS = WN / 8;
    static_assert(PIXELS % A_ROWS == 0 && THREADS >= B_STEPS && S * BC % WN == 0 && BC % 16 == 0 && WN % 16 == 0,
                  "whole rounds of copies");
    using Table = Places<PIXELS, STAGES>;
    extern __shared__ __align__(128) float memory[];
    __shared__ Table steps;
    T* tile = reinterpret_cast<T*>(memory);
    int tiles = p.tiles_m * p.tiles_n, split = blockIdx.x / tiles, group = blockIdx.z;
    int2 at = in_bands(blockIdx.x % tiles, p.tiles_m, p.tiles_n);
    int blocks = (p.source_c + BC - 1) / BC, r = at.y / blocks, m0 = at.x * BM, c0 = (at.y - r * blocks) * BC;
    int width = p.target_w + S - 1, depth = p.batch * p.target_h * width, down = r * p.dil_h - p.pad_h;
    int k0 = min(depth, split * p.each), k1 = min(depth, k0 + p.each);
    steps.start(p, width, k0);
    __syncthreads();
    for (int s = 0; s < STAGES; ++s) steps.fill(s, p, width, k1, down);
    __syncthreads();

    // What this thread copies: a vector of channels of dy, and one of x, of some pixels.
    int a_vector = threadIdx.x % (BM / EACH), a_row = threadIdx.x / (BM / EACH);
    int b_vector = threadIdx.x % (BC / EACH), b_row = threadIdx.x / (BC / EACH);
    bool a_there = m0 + a_vector * EACH < p.target_c, b_there = c0 + b_vector * EACH < p.source_c;
    dy += group * p.target_group + m0 + a_vector * EACH, x += group * p.source_c + c0 + b_vector * EACH;
    int into = 0;
    // One of PARTS parts of a stage: copies between products do not hold them up.
    auto fetch = [&](int part) {
        T* to = tile + into * STAGE;
#pragma unroll
        for (int i = 0; i < A_COPIES; ++i) {
            if (i * PARTS / A_COPIES != part) continue;
            long long from = steps.table[into][a_row + i * A_ROWS].x;
            bool inside = a_there && from >= 0;
            copy16(shared_address(to + (a_row + i * A_ROWS) * A_PITCH + a_vector * EACH), inside ? dy + from : dy, inside);
        }
        to += PIXELS * A_PITCH;
#pragma unroll
        for (int i = 0; i < B_COPIES; ++i) {
            int row = b_row + i * B_ROWS;
            if (i * PARTS / B_COPIES != part || (B_STEPS % B_ROWS && row >= B_STEPS)) continue;
            long long from = steps.table[into][row].y;
            bool inside = b_there && from >= 0;
            copy16(shared_address(to + row * B_PITCH + b_vector * EACH), inside ? x + from : x, inside);
        }
        if (part < PARTS - 1) return;
        asm volatile("cp.async.commit_group;");
        into = into + 1 == STAGES ? 0 : into + 1;
    };

    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, wm = warp / ACROSS_WARPS * WM, wn = warp % ACROSS_WARPS * WN, now = 0;
    float of[DOWN][ACROSS][4] = {};
    unsigned a[2][DOWN][4], b[2][ACROSS / 2][4];
    auto load = [&](int to, const T* stage, int k) {
        load_channels<T, A_PITCH, DOWN>(a[to], stage + k * DEEP * A_PITCH + wm, false);
#pragma unroll
        for (int i = 0; i < ACROSS / 2; ++i) {
            int column = wn + i * 16, s = column / BC;  // 16 columns are of one tap
            const T* pixels = stage + PIXELS * A_PITCH + (k * DEEP + s) * B_PITCH + column - s * BC;
            load_channels<T, B_PITCH, 1>(b[to] + i, pixels, true);
        }
        if constexpr (ROUND) {
#pragma unroll
            for (int e = 0; e < DOWN * 4; ++e) a[to][e / 4][e % 4] = as_tf32(a[to][e / 4][e % 4]);
#pragma unroll
            for (int e = 0; e < ACROSS * 2; ++e) b[to][e / 4][e % 4] = as_tf32(b[to][e / 4][e % 4]);
        }
    };
    for (int s = 0; s < STAGES - 1; ++s)
#pragma unroll
        for (int part = 0; part < PARTS; ++part) fetch(part);
#pragma unroll 1
    for (int k = k0; k < k1; k += PIXELS) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
        __syncthreads();
        const T* stage = tile + now * STAGE;
        load(0, stage, 0);
#pragma unroll
        for (int j = 0; j < PARTS; ++j) {
            if (j + 1 < PARTS) load((j + 1) % 2, stage, j + 1);
            fetch(j);
            if (j == PARTS - 1) steps.fill(into, p, width, k1, down);
#pragma unroll
            for (int i = 0; i < DOWN; ++i)
#pragma unroll
                for (int n = 0; n < ACROSS; ++n) multiply<T>(of[i][n], a[j % 2][i], b[j % 2][n / 2] + n % 2 * 2);
        }
        now = now + 1 == STAGES ? 0 : now + 1;
    }
    asm volatile("cp.async.wait_all;");
    int columns = p.R * S * p.source_c;
    parts += ((long long)split * p.groups + group) * p.target_c * columns + r * S * p.source_c;
#pragma unroll
    for (int i = 0; i < DOWN; ++i)
#pragma unroll
        for (int n = 0; n < ACROSS; ++n)
#pragma unroll
            for (int e = 0; e < 4; e += 2) {
                int m = m0 + wm + i * 16 + lane / 4 + e / 2 * 8, column = wn + n * 8 + lane % 4 * 2, s = column / BC;
                int c = c0 + column - s * BC;
                if (m < p.target_c && c < p.source_c)
                    *reinterpret_cast<float2*>(parts + (long long)m * columns + s * p.source_c + c) =
                        make_float2(of[i][n][e], of[i][n][e + 1]);
            }
}
