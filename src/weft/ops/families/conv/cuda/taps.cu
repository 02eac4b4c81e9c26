// Convolution on tensor cores in which the taps of a row share what is copied to shared memory, for
// stride 1: the forward pass, and the backward pass to the data. The product is that of tensor.cuh,
// but its rows are pixels of an image that is S - 1 columns wider: then tap s of row m of a tile
// lies in row m + s of shared memory, for every pixel whose results count. A third of the copies
// remains for 3 x 3 taps; the L2 would limit tensor cores otherwise.
#include "tensor.cuh"

// The pixels of the wider image, in order. `before(m)` of them have results.
struct Wider {
    int width, columns, rows;  // of the wider image; columns and rows of results

    __device__ int before(int m) const {
        int row = m / width;
        return row * columns + min(m - row * width, columns);
    }
};

// Writes the results of a warp to images whose pixels are contiguous, through `memory` of the warp:
// rows of channels, without the pixels that do not count. Whole vectors first; then the pixels
// before and after them, one by one.
template <int WM, int WN, class Out, class Epilogue>
__device__ void write_rows(const float (&of)[WM / 16][WN / 8][4], float* memory, const Wider& wider,
                           int m0, int count, Out* y, const Epilogue& epilogue, const Conv& p,
                           int channel) {
    constexpr int EACH = 16 / sizeof(Out), PITCH = WM + 12, VECTORS = WM / EACH,
                  COPIES = (8 * VECTORS + 31) / 32;
    int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, image = p.target_h * p.target_w;
    int first = wider.before(min(m0, count)), last = wider.before(min(m0 + WM, count)),
        start = first / EACH * EACH;
    // Without whole vectors in the target, all pixels are written one by one.
    int whole = p.wide ? (first + EACH - 1) / EACH * EACH : last,
        end = p.wide ? max(whole, last / EACH * EACH) : last;
    if (whole > last) whole = end = last;
    auto offset = [&](int v) {
        int n = v / image;
        return n * p.target[0] + (v - n * image);
    };
    int place[WM / 8];
#pragma unroll
    for (int i = 0; i < WM / 8; ++i) {
        int m = m0 + i * 8 + g;
        place[i] = m < count && m % wider.width < wider.columns ? wider.before(m) - start : -1;
    }
    long long vectors[COPIES];  // where this lane writes vectors, the same for each eight channels
#pragma unroll
    for (int i = 0; i < COPIES; ++i) {
        int v = whole + (lane + i * 32) % VECTORS * EACH;
        vectors[i] = v < end ? offset(v) : -1;
    }
    constexpr int SINGLES = (WM + 31) / 32;
    int before = whole - first,
        lone[SINGLES];  // the pixels that this lane writes alone, from `start` on
    long long singles[SINGLES];
#pragma unroll
    for (int i = 0; i < SINGLES; ++i) {
        int e = lane + i * 32, v = e < before ? first + e : end + e - before;
        lone[i] = v < last ? v - start : -1, singles[i] = offset(v);
    }
#pragma unroll
    for (int n = 0; n < WN / 8; ++n) {
        __syncwarp();
#pragma unroll
        for (int i = 0; i < WM / 8; ++i)
#pragma unroll
            for (int e = 0; e < 2; ++e)
                if (place[i] >= 0)
                    memory[(t * 2 + e) * PITCH + place[i]] = of[i / 2][n][i % 2 * 2 + e];
        __syncwarp();
#pragma unroll
        for (int i = 0; i < COPIES; ++i) {
            int e = lane + i * 32, row = e / VECTORS, c = channel + n * 8 + row;
            if (vectors[i] >= 0 && e < 8 * VECTORS && c < p.target_c)
                write_vector(y + vectors[i] + c * p.target[1],
                             memory + row * PITCH + whole - start + e % VECTORS * EACH,
                             epilogue.channel(c, p.target_c), epilogue);
        }
#pragma unroll
        for (int i = 0; i < SINGLES; ++i) {
            if (lone[i] < 0) continue;
#pragma unroll
            for (int row = 0; row < 8; ++row) {
                int c = channel + n * 8 + row;
                if (c >= p.target_c) continue;
                float sum = memory[row * PITCH + lone[i]];
                Vector<Out, 1> one = {{to<Out>(epilogue.channel(c, p.target_c)(sum))}};
                epilogue.write(y + singles[i] + c * p.target[1], one);
            }
        }
    }
}

// BM pixels of the wider image x BN channels for a block, BYTES of channels of one row of S taps
// for a stage; a warp owns WM x WN. ROUND: the source is float that has not been rounded to tf32.
// Blocks are numbered by tile, then by part of the depth (x) and by group (z).
template <class T, int S, int BM, int BN, int BYTES, int WM, int WN, int STAGES, bool BACK,
          bool SPLIT, bool ROUND, class Epilogue>
__device__ void taps_block(const T* x, const T* weight, Epilogue epilogue, T* y, float* parts,
                           int* counters, const Conv& p) {
    constexpr int THREADS = BM / WM * (BN / WN) * 32, VECTORS = BYTES / 16, EACH = 16 / sizeof(T),
                  SLICES = BYTES / 32;
    constexpr int ROWS = THREADS / VECTORS, A_ROWS = BM + 8, A_COPIES = (A_ROWS + ROWS - 1) / ROWS,
                  B_COPIES = BN / ROWS;
    constexpr int STAGE = (A_ROWS + S * BN) * BYTES, DOWN = WM / 16, ACROSS = WN / 8,
                  PARTS = S * SLICES;
    static_assert(BN % ROWS == 0 && WN % 16 == 0 && S <= 9 && A_COPIES <= PARTS,
                  "whole rounds of copies");
    extern __shared__ __align__(128) float memory[];
    int tiles = p.tiles_m * p.tiles_n, split = blockIdx.x / tiles, number = blockIdx.x % tiles,
        group = blockIdx.z;
    int2 tile = tile_in_bands(number, p.tiles_m, p.tiles_n);  // rows of this order: channels
    int n0 = tile.x * BN, m0 = tile.y * BM;
    Window window = Window::of<BACK>(p, 0);
    Wider wider = {p.target_w + S - 1, p.target_w, p.target_h};
    int count = p.batch * wider.rows * wider.width;
    x += group * p.source_c, weight += group * p.weight_group;

    // What this thread copies: one vector of some rows of both sides.
    int vector = threadIdx.x % VECTORS, row = threadIdx.x / VECTORS, per_tap = p.source_c / EACH;
    int blocks = (per_tap + VECTORS - 1) / VECTORS, steps = window.h.taps * blocks;
    int first = SPLIT ? min(steps, split * p.each) : 0,
        last = SPLIT ? min(steps, first + p.each) : steps;
    int r = first / blocks, at = (first - r * blocks) * VECTORS + vector;
    int left =
        window.w.base - (BACK ? S - 1 : 0);  // the column of the source that column 0 begins with
    const T* corner[A_COPIES];
    int h[A_COPIES];  // the row of the source that the first tap reads, or one that no image has
#pragma unroll
    for (int i = 0; i < A_COPIES; ++i) {
        int m = m0 + row + i * ROWS, line = m / wider.width, n = line / wider.rows,
            w = m - line * wider.width + left;
        bool inside = m < count && unsigned(w) < p.source_w && row + i * ROWS < A_ROWS;
        int above = line - n * wider.rows + window.h.base;
        h[i] = inside ? above : -(1 << 30);
        corner[i] = inside ? x + n * p.source[0] + above * p.source[2] + w * p.source[3] : x;
    }
    unsigned base = shared_address(memory);
    int next = first;
    // The parts of the weights are the taps of the row.
    auto fetch = [&](int stage, int part) {
        unsigned into = base + stage * STAGE;
        bool there = next < last && at < per_tap;
        int dh = r * window.h.step;
        if (part < A_COPIES &&
            (part + 1 < A_COPIES || A_ROWS % ROWS == 0 || row + part * ROWS < A_ROWS))
            copy_async<16>(into + swizzle<BYTES>(row + part * ROWS, vector),
                           corner[part] + dh * p.source[2] + at * EACH,
                           there && unsigned(h[part] + dh) < p.source_h);
        int s = part / SLICES,
            tap = (window.h.first + r * window.h.skip) * p.S + (BACK ? S - 1 - s : s);
        const T* from =
            weight + (long long)(n0 + row) * p.weight_target + tap * p.source_c + at * EACH;
#pragma unroll
        for (int i = 0; i < B_COPIES; ++i)
            if (i * SLICES / B_COPIES == part % SLICES)
                copy_async<16>(
                    into + (A_ROWS + s * BN) * BYTES + swizzle<BYTES>(row + i * ROWS, vector),
                    from + (long long)i * ROWS * p.weight_target,
                    there && n0 + row + i * ROWS < p.target_c);
        if (part < PARTS - 1) return;
        ++next, at += VECTORS;
        if (at - vector >= blocks * VECTORS) at = vector, ++r;
    };

    int warp = threadIdx.x / 32, wm = warp / (BN / WN) * WM, wn = warp % (BN / WN) * WN;
    float of[DOWN][ACROSS][4] = {};
    FragmentRows<BYTES, false> a_rows(wm);
    FragmentRows<BYTES, true> b_rows(wn);
    auto load = [&](unsigned (&a)[DOWN][4], unsigned (&b)[ACROSS / 2][4], int stage, int part) {
        unsigned here = base + stage * STAGE;
        int s = part / SLICES, k = part % SLICES;
        a_rows.load(a, here, k, s);
        b_rows.load(b, here + (A_ROWS + s * BN) * BYTES, k);
    };
    Ring<T, DOWN, ACROSS, PARTS, STAGES, ROUND, false> ring;
    ring.start(fetch, load);
    ring.run(of, last - first, fetch, load);
    ring.finish();
    if constexpr (SPLIT) {
        long long slot = (long long)group * tiles + number;
        if (!join_parts<THREADS>(reinterpret_cast<float (&)[DOWN * ACROSS * 4]>(of), parts,
                                 counters, slot, split, p.splits))
            return;
    }
    y += (long long)group * p.target_c * p.target[1];
    epilogue = epilogue.from(group * p.target_c);
    constexpr int ROOM = 8 * (WM + 12) > 16 * (WN + 8) ? 8 * (WM + 12) : 16 * (WN + 8);
    float* mine = memory + 2 * BM + warp * ROOM;
    if (p.target[1] != 1) {
        write_rows<WM, WN>(of, mine, wider, m0 + wm, count, y, epilogue, p, n0 + wn);
        return;
    }
    long long* offsets = reinterpret_cast<long long*>(memory);
    for (int c = threadIdx.x; c < BM; c += THREADS) {
        int m = m0 + c, line = m / wider.width, n = line / wider.rows, j = m - line * wider.width;
        offsets[c] = m < count && j < wider.columns
                         ? n * p.target[0] + (line - n * wider.rows) * p.target[2] + j * p.target[3]
                         : -1;
    }
    __syncthreads();
    write_channels<WM, WN>(of, mine, offsets + wm, y, epilogue, p, n0 + wn);
}

template <class T, int S, int BM, int BN, int BYTES, int WM, int WN, int STAGES, int RESIDENT,
          bool BACK, bool SPLIT, bool ROUND>
__global__ void __launch_bounds__(BM / WM * (BN / WN) * 32, RESIDENT)
    taps(const T* x, const T* weight, const T* bias, T* y, float* parts, int* counters,
         const Conv p) {
    taps_block<T, S, BM, BN, BYTES, WM, WN, STAGES, BACK, SPLIT, ROUND>(
        x, weight, BiasEpilogue<T>{bias}, y, parts, counters, p);
}

// The same with a norm, a residual and ReLU.
template <class T, class Statistic, class Parameter, int S, int BM, int BN, int BYTES, int WM,
          int WN, int STAGES, int RESIDENT, bool BACK, bool SPLIT, bool ROUND>
__global__ void __launch_bounds__(BM / WM * (BN / WN) * 32, RESIDENT)
    fused_taps(const T* x, const T* weight, FUSED, T* y, float* parts, int* counters,
               const Conv p) {
    taps_block<T, S, BM, BN, BYTES, WM, WN, STAGES, BACK, SPLIT, ROUND>(x, weight, OF_FUSED(y), y,
                                                                        parts, counters, p);
}
