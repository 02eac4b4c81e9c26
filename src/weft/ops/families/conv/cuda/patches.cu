// Convolutions whose windows touch but do not overlap: the stride is the size of the filter. Their
// windows are patches, and each pass is a matrix product with a matrix of patches, [n, row of
// patches, column of patches][element of a filter]. These kernels bring images into that order and
// back. A block has some patches beside each other, which pass through shared memory: both the rows
// of an image and those of the matrix are read and written by neighbours.
#include <weft/convert.cuh>
#include <weft/early_launch.cuh>
#include <weft/vector.cuh>

using namespace weft;

STRUCT_PATCHES;  // tma/patches.py declares it

// The patches of a block in shared memory, as lines of the image. Pixels of a line are neighbours.
// LAST: a line has the channels of its pixels, innermost; else each channel has lines of its own.
// FILTERS_LAST: the elements of a filter are [row][column][channel], else [channel][row][column].
template <class T, int C, int R, int S, bool LAST, bool FILTERS_LAST>
struct Band {
    static constexpr int LINES = LAST ? R : C * R, EACH = LAST ? S * C : S, DEPTH = C * R * S;
    static constexpr int VECTOR = 16 / sizeof(T);
    // Elements that are neighbours in a line and in a filter.
    static constexpr int RUN = LAST != FILTERS_LAST           ? 1
                               : VECTOR == 8 && EACH % 8 == 0 ? 8
                               : EACH % 4 == 0                ? 4
                               : EACH % 2 == 0                ? 2
                                                              : 1;
    T* at;
    int pitch;  // elements of a line in shared memory

    // Element `e` of the filter's window in patch `q`.
    __device__ T& element(int q, int e) const {
        int c = FILTERS_LAST ? e % C : e / (R * S), rest = FILTERS_LAST ? e / C : e % (R * S);
        int i = rest / S, j = rest % S;
        int line = LAST ? i : c * R + i, column = LAST ? (q * S + j) * C + c : q * S + j;
        return at[line * pitch + column];
    }
};

// Places of a block: its patches, the first pixel that they read, and the lines from there on.
template <int C, int R, int S, bool LAST>
struct Place {
    int count;
    long long patch, pixel;

    __device__ Place(const Patches& p) {
        int at = blockIdx.x, part = at % p.parts;
        at /= p.parts;
        int row = at % p.P, n = at / p.P, first = part * p.across;
        count = min(p.across, p.Q - first);
        patch = (long long)(n * p.P + row) * p.Q + first;
        pixel =
            n * p.image + (long long)(row * R) * p.row + (long long)(first * S) * (LAST ? C : 1);
    }
    static __device__ long long line(int at, const Patches& p) {
        return LAST ? at * p.row : at / R * p.channel + at % R * p.row;
    }
};

// Makes the matrix. Blocks after those of the images copy filters to rows of `pitch` elements, if
// there are any. WIDE elements of a line are aligned together.
template <class T, int C, int R, int S, bool LAST, bool FILTERS_LAST, int WIDE>
__global__ void __launch_bounds__(256)
    gather_patches(const T* x, const T* weight, T* patches, T* filters, const Patches p) {
    extern __shared__ __align__(16) unsigned char bytes[];
    using Lines = Band<T, C, R, S, LAST, FILTERS_LAST>;
    constexpr int RUN = Lines::RUN, V = Lines::VECTOR;
    start_next_kernel();
    wait_for_kernels();
    int vectors = p.pitch / V;
    if (blockIdx.x >= p.blocks) {
        int k = blockIdx.x - p.blocks;
        for (int v = threadIdx.x; v < vectors; v += 256) {
            Vector<T, V> made;
#pragma unroll
            for (int i = 0; i < V; ++i) {
                int e = v * V + i;
                made[i] = e < Lines::DEPTH ? weight[(long long)k * Lines::DEPTH + e] : T(0.0f);
            }
            store_whole(filters + (long long)k * p.pitch + v * V, made);
        }
        return;
    }
    Place<C, R, S, LAST> place(p);
    Lines lines{reinterpret_cast<T*>(bytes), p.line};
    int each = place.count * Lines::EACH / WIDE;
    for (int i = threadIdx.x; i < Lines::LINES * each; i += 256) {
        int line = i / each, at = (i - line * each) * WIDE;
        store(lines.at + line * p.line + at,
              load<WIDE>(x + place.pixel + place.line(line, p) + at));
    }
    __syncthreads();
    for (int i = threadIdx.x; i < place.count * vectors; i += 256) {
        int q = i / vectors, first = (i - q * vectors) * V;
        Vector<T, V> made;
#pragma unroll
        for (int e = 0; e < V; e += RUN) {
            Vector<T, RUN> run = fill<RUN>(T(0.0f));
            if (first + e < Lines::DEPTH) run = load<RUN>(&lines.element(q, first + e));
#pragma unroll
            for (int i = 0; i < RUN; ++i) made[e + i] = run[i];
        }
        store_whole(patches + (place.patch + q) * p.pitch + first, made);
    }
}

// Brings the matrix of a gradient back into the order of an image.
template <class T, int C, int R, int S, bool LAST, bool FILTERS_LAST, int WIDE>
__global__ void __launch_bounds__(256) scatter_patches(const T* patches, T* x, const Patches p) {
    extern __shared__ __align__(16) unsigned char bytes[];
    using Lines = Band<T, C, R, S, LAST, FILTERS_LAST>;
    constexpr int RUN = Lines::RUN, V = Lines::VECTOR;
    start_next_kernel();
    wait_for_kernels();
    Place<C, R, S, LAST> place(p);
    Lines lines{reinterpret_cast<T*>(bytes), p.line};
    int vectors = p.pitch / V, each = place.count * Lines::EACH / WIDE;
    for (int i = threadIdx.x; i < place.count * vectors; i += 256) {
        int q = i / vectors, first = (i - q * vectors) * V;
        Vector<T, V> from = load<V>(patches + (place.patch + q) * p.pitch + first);
#pragma unroll
        for (int e = 0; e < V; e += RUN) {
            Vector<T, RUN> run;
#pragma unroll
            for (int i = 0; i < RUN; ++i) run[i] = from[e + i];
            if (first + e < Lines::DEPTH) store(&lines.element(q, first + e), run);
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < Lines::LINES * each; i += 256) {
        int line = i / each, at = (i - line * each) * WIDE;
        store_whole(x + place.pixel + place.line(line, p) + at,
                    load<WIDE>(lines.at + line * p.line + at));
    }
}
