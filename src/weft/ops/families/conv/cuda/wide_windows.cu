// Images of few channels for the kernels by boxes, which read 64 channels of a pixel: the columns
// of a window, and some of its rows, become channels.
//
// Images become [n][group of rows][column][row of the group][channel], with padding, so that a
// window's columns, and the rows of a group, are 64 neighbours from its first column on. Windows
// overlap in memory. Filters become [filter][group of rows][column][row of the group][channel].
#include <weft/convert.cuh>
#include <weft/early_launch.cuh>
#include <weft/vector.cuh>

using namespace weft;

STRUCT_WIDEWINDOWS;  // tma/wide_windows.py declares it

// Element `e` of a group of ROWS rows, with PADDED channels: its column, row and channel.
template <int ROWS, int PADDED>
struct Element {
    int column, row, channel;

    __device__ explicit Element(int e)
        : column(e / (ROWS * PADDED)), row(e / PADDED % ROWS), channel(e % PADDED) {}
};

// Blocks along y are groups of rows of the images, then filters, whose groups are blocks along x. A
// thread makes a vector of 16 bytes.
template <class T, int ROWS, int PADDED>
__global__ void __launch_bounds__(256)
    widen(const T* x, const T* weight, T* images, T* filters, const WideWindows p) {
    int first = (blockIdx.x * 256 + threadIdx.x) * 8, line = blockIdx.y;
    Vector<T, 8> made;
    start_next_kernel();
    wait_for_kernels();
    if (line < p.batch * p.groups) {
        if (first >= p.pitch) return;
        int n = line / p.groups, group = line - n * p.groups;
        const T* from = x + n * p.image;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            Element<ROWS, PADDED> e(first + i);
            int h = group * ROWS + e.row - p.pad_h, w = e.column - p.pad_w;
            bool inside = e.channel < p.C && unsigned(h) < p.H && unsigned(w) < p.W;
            made[i] = inside ? from[e.channel * p.channel + h * p.row + w * p.column] : T(0.0f);
        }
        store_whole(images + (long long)line * p.pitch + first, made);
    } else {
        int k = line - p.batch * p.groups, group = first / 64, filter_groups = p.filter_groups;
        if (group >= filter_groups) return;
        const T* from = weight + k * p.filter;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            Element<ROWS, PADDED> e(first % 64 + i);
            int r = group * ROWS + e.row;
            bool inside = e.channel < p.C && r < p.R && e.column < p.S;
            made[i] = inside ? from[e.channel * p.filter_channel + r * p.filter_row +
                                    e.column * p.filter_column]
                             : T(0.0f);
        }
        store_whole(filters + ((long long)k * filter_groups * 64 + first), made);
    }
}

// Adds the parts of a gradient of such filters: [filter][channel][row][column]. A thread has one
// result.
template <class T>
__global__ void __launch_bounds__(256)
    narrow_parts(const float* parts, T* out, int count, const WideWindows p) {
    int at = blockIdx.x * 256 + threadIdx.x, size = p.K * p.filter_groups * 64;
    start_next_kernel();
    wait_for_kernels();
    if (at >= p.K * p.C * p.R * p.S) return;
    int s = at % p.S, r = at / p.S % p.R, c = at / (p.S * p.R) % p.C, k = at / (p.S * p.R * p.C);
    const float* from =
        parts + (k * p.filter_groups + r / p.rows) * 64 + (s * p.rows + r % p.rows) * p.padded + c;
    float sum = 0;
#pragma unroll 8
    for (int i = 0; i < count; ++i) sum += from[(long long)i * size];
    out[at] = to<T>(sum);
}
