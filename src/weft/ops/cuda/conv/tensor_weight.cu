// The backward pass to the weight on tensor cores, as a matrix product: a row for each channel of dy in a group, a column for
// each tap and channel of x in a group, and a depth of all pixels of dy. Both tensors have the channels innermost, in whole
// 16-byte vectors (pack.cu). In shared memory a row is a pixel, so that fragments are transposed as they are loaded.
#include "mma.cuh"
#include "steps.cuh"
#include "../problem.cuh"

// Blocks are numbered by tile, then by part of the depth (x) and by group (z). Each part is a matrix of its own in `parts`:
// [group][channel of dy][tap][channel of x]. ROUND: the tensors are float that has not been rounded to tf32.
template <class T, int BM, int BN, int PIXELS, int WM, int WN, int STAGES, int RESIDENT, bool ROUND>
__global__ void __launch_bounds__(BM / WM * (BN / WN) * 32, RESIDENT)
    tensor_weight(const T* x, const T* dy, float* parts, const Conv p) {
    constexpr int THREADS = BM / WM * (BN / WN) * 32, EACH = 16 / sizeof(T), PAD = 8;
    constexpr int A_PITCH = BM + PAD, B_PITCH = BN + PAD, STAGE = PIXELS * (A_PITCH + B_PITCH);
    constexpr int A_ROWS = THREADS / (BM / EACH), B_ROWS = THREADS / (BN / EACH), DEEP = 32 / sizeof(T);
    constexpr int DOWN = WM / 16, ACROSS = WN / 8;
    static_assert(PIXELS % A_ROWS == 0 && PIXELS % B_ROWS == 0 && THREADS >= PIXELS, "whole rounds of copies");
    using Table = Steps<PIXELS, STAGES, false>;
    extern __shared__ __align__(128) float memory[];
    __shared__ Table steps;
    T* tile = reinterpret_cast<T*>(memory);
    int tiles = p.tiles_m * p.tiles_n, split = blockIdx.x / tiles, group = blockIdx.z;
    int2 at = in_bands(blockIdx.x % tiles, p.tiles_m, p.tiles_n);
    int m0 = at.x * BM, n0 = at.y * BN, depth = p.batch * p.target_h * p.target_w, columns = p.R * p.S * p.source_c;
    int k0 = min(depth, split * p.each), k1 = min(depth, k0 + p.each);
    steps.start(p, k0);
    __syncthreads();
    for (int s = 0; s < STAGES; ++s) steps.fill(s, p, k1);
    __syncthreads();

    // What this thread copies: a vector of channels of dy, and one of x at a tap, of some pixels.
    int a_vector = threadIdx.x % (BM / EACH), a_row = threadIdx.x / (BM / EACH);
    int b_vector = threadIdx.x % (BN / EACH), b_row = threadIdx.x / (BN / EACH);
    bool a_there = m0 + a_vector * EACH < p.target_c, b_there = n0 + b_vector * EACH < columns;
    int tap = (n0 + b_vector * EACH) / p.source_c, channel = n0 + b_vector * EACH - tap * p.source_c;
    int dh = tap / p.S * p.dil_h, dw = tap % p.S * p.dil_w;
    dy += group * p.target_group + m0 + a_vector * EACH;
    x += group * p.source_c + dh * p.source[2] + dw * p.source[3] + channel;
    int into = 0;
    // One of PARTS parts of a stage: copies between products do not hold them up.
    constexpr int PARTS = PIXELS / DEEP;
    auto fetch = [&](int part) {
        T* to = tile + into * STAGE;
#pragma unroll
        for (int i = 0; i < PIXELS / A_ROWS; ++i) {
            if (i * PARTS / (PIXELS / A_ROWS) != part) continue;
            const Step& s = steps.table[into][a_row + i * A_ROWS];
            copy16(shared_address(to + (a_row + i * A_ROWS) * A_PITCH + a_vector * EACH), dy + s.dy, a_there && s.there);
        }
        to += PIXELS * A_PITCH;
#pragma unroll
        for (int i = 0; i < PIXELS / B_ROWS; ++i) {
            if (i * PARTS / (PIXELS / B_ROWS) != part) continue;
            const Step& s = steps.table[into][b_row + i * B_ROWS];
            bool inside = b_there && unsigned(s.a + dh) < p.source_h && unsigned(s.b + dw) < p.source_w;
            copy16(shared_address(to + (b_row + i * B_ROWS) * B_PITCH + b_vector * EACH), x + s.x, inside);
        }
        if (part < PARTS - 1) return;
        asm volatile("cp.async.commit_group;");
        into = into + 1 == STAGES ? 0 : into + 1;
    };

    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, wm = warp / (BN / WN) * WM, wn = warp % (BN / WN) * WN, now = 0;
    float of[DOWN][ACROSS][4] = {};
    unsigned a[2][DOWN][4], b[2][ACROSS / 2][4];
    auto load = [&](int to, const T* stage, int k) {
        load_channels<T, A_PITCH, DOWN>(a[to], stage + k * DEEP * A_PITCH + wm, false);
        load_channels<T, B_PITCH, ACROSS / 2>(b[to], stage + PIXELS * A_PITCH + k * DEEP * B_PITCH + wn, true);
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
            if (j == PARTS - 1) steps.fill(into, p, k1);
#pragma unroll
            for (int i = 0; i < DOWN; ++i)
#pragma unroll
                for (int n = 0; n < ACROSS; ++n) multiply<T>(of[i][n], a[j % 2][i], b[j % 2][n / 2] + n % 2 * 2);
        }
        now = now + 1 == STAGES ? 0 : now + 1;
    }
    asm volatile("cp.async.wait_all;");
    parts += ((long long)split * p.groups + group) * p.target_c * columns;
#pragma unroll
    for (int i = 0; i < DOWN; ++i)
#pragma unroll
        for (int n = 0; n < ACROSS; ++n)
#pragma unroll
            for (int e = 0; e < 4; e += 2) {
                int m = m0 + wm + i * 16 + lane / 4 + e / 2 * 8, c = n0 + wn + n * 8 + lane % 4 * 2;
                if (m < p.target_c && c < columns)
                    *reinterpret_cast<float2*>(parts + (long long)m * columns + c) = make_float2(of[i][n][e], of[i][n][e + 1]);
            }
}
