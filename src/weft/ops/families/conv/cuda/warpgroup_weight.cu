// The backward pass to the weight of 16-bit elements by warpgroups on Hopper: the matrix product of
// tensor_weight.cu. Its rows are channels of dy, its columns taps and channels of x, and its depth
// is all pixels of dy, 64 at a time.
#include <weft/problem.cuh>
#include "mma.cuh"
#include "window.cuh"
#include "warpgroup.cuh"

using namespace weft;

// The pixels of x that taps read, as a side of the product: as WarpgroupSide with rows of pixels. A
// thread copies one vector, of channels of one tap, for some pixels.
template <class T, int BN, int THREADS>
struct TapSide {
    static constexpr bool TRANSPOSE = true;
    static constexpr int BYTES = BN * 128, ACROSS = BN / 8, DOWN = THREADS / ACROSS,
                         COPIES = 64 / DOWN;
    static_assert(64 % DOWN == 0 && BN % 64 == 0, "whole rounds of copies, whole slabs");

    const T* from;  // of the tap and the channels, from a window's first element on
    long long batch;  // strides of x
    int row, column;  // of this thread's first copy
    int left;  // pixels from there on
    int height, width;  // of x
    int down, across;  // elements from a row and a column of dy to the next, in x
    int dh, dw;  // of the first pixel's window to what is read
    int stride_h, stride_w, rows, columns;  // of dy
    int step_n, step_i, step_j;  // 64 pixels as images, rows and columns
    int n[COPIES], i[COPIES], j[COPIES];

    __device__ TapSide(const T* x, const Conv& p, int start, int size, int first, int last,
                       int thread) {
        row = thread / ACROSS, column = thread % ACROSS * 8;
        int tap = (start + column) / p.source_c, r = tap / p.S, s = tap - r * p.S;
        dh = r * p.dil_h - p.pad_h, dw = s * p.dil_w - p.pad_w;
        from = x + (start + column - tap * p.source_c) + dh * p.source[2] + dw * p.source[3];
        batch = p.source[0], height = start + column < size ? p.source_h : 0, width = p.source_w;
        rows = p.target_h, columns = p.target_w, stride_h = p.stride_h, stride_w = p.stride_w;
        down = int(p.source[2] * stride_h), across = int(p.source[3] * stride_w);
        int image = rows * columns;
        step_n = 64 / image, step_i = 64 % image / columns, step_j = 64 % image % columns;
        left = last - first - row;
#pragma unroll
        for (int c = 0; c < COPIES; ++c) {
            int pixel = first + row + c * DOWN;
            n[c] = pixel / image, pixel -= n[c] * image, i[c] = pixel / columns,
            j[c] = pixel - i[c] * columns;
        }
    }
    __device__ void next(unsigned tile) {
#pragma unroll
        for (int c = 0; c < COPIES; ++c) {
            int r = row + c * DOWN;
            bool inside = c * DOWN < left && unsigned(i[c] * stride_h + dh) < height &&
                          unsigned(j[c] * stride_w + dw) < width;
            copy_async<16>(
                tile + column / 64 * slab_bytes(64) + r * 128 + (column / 8 % 8 ^ r % 8) * 16,
                from + n[c] * batch + i[c] * down + j[c] * across, inside);
            n[c] += step_n, i[c] += step_i, j[c] += step_j;
            if (j[c] >= columns) j[c] -= columns, ++i[c];
            if (i[c] >= rows) i[c] -= rows, ++n[c];
        }
        left -= 64;
    }
    static __device__ unsigned long long operand(unsigned tile, int along, int k) {
        return wgmma_columns<64>(tile + along * 128 + k * 128);
    }
};

// 128 channels of dy x BN taps and channels of x for a block. Blocks are numbered by tile, then by
// part of the depth, of p.each steps (x), and by group (z). Each part is a matrix of its own in
// `parts`: [group][channel of dy][tap][channel of x]. PRODUCER: as in warpgroup.cu.
template <class T, int BN, int STAGES, bool PRODUCER>
__global__ void __launch_bounds__(PRODUCER ? 384 : 256, PRODUCER ? 1 : 2)
    warpgroup_weight(const T* x, const T* dy, float* parts, const Conv p) {
    constexpr int THREADS = PRODUCER ? 128 : 256;
    using G = WarpgroupTile<T, BN, STAGES, WarpgroupSide<T, 128, THREADS, false>,
                            TapSide<T, BN, THREADS>>;
    extern __shared__ __align__(16) unsigned char bytes[];
    unsigned ring = slab_aligned(shared_address(bytes));
    int tiles = p.tiles_m * p.tiles_n, split = blockIdx.x / tiles, columns = p.R * p.S * p.source_c;
    int2 at = tile_in_bands(blockIdx.x - split * tiles, p.tiles_m, p.tiles_n);
    int m0 = at.x * 128, n0 = at.y * BN, pixels = p.batch * p.target_h * p.target_w;
    int first = min(pixels, split * p.each * 64), last = min(pixels, first + p.each * 64),
        steps = (last - first + 63) / 64;
    G tile;
    {
        int thread = PRODUCER ? threadIdx.x % 128 : threadIdx.x;
        long long ld = p.target[3];
        const T* from = dy + blockIdx.z * p.target_group + first * ld;
        auto a = [&] { return typename G::A(from, ld, m0, p.target_c, last - first, thread); };
        auto b = [&] {
            return typename G::B(x + blockIdx.z * p.source_c, p, n0, columns, first, last, thread);
        };
        if (!tile.template multiply<PRODUCER, 104, 200>(a, b, ring, steps)) return;
    }
    parts += ((long long)split * p.groups + blockIdx.z) * p.target_c * columns;
    each_pair(tile.of, [&](int row, int column, float first, float second) {
        int m = m0 + threadIdx.x / 32 * 16 + row, c = n0 + column;
        if (m < p.target_c && c < columns)
            *reinterpret_cast<float2*>(parts + (long long)m * columns + c) =
                make_float2(first, second);
    });
}
