// Calls every function of weft/warp.cuh.
#include <weft/warp.cuh>

using namespace weft;

struct Pair {
    float value;
    int at;
    short more;
};

__global__ void places(int* y) { y[threadIdx.x] = warp_index() * 100 + lane_index(); }

// [exchange][thread]
__global__ void shuffles(const int* x, int* y) {
    int i = threadIdx.x, n = blockDim.x, v = x[i];
    y[i] = shuffle(v, 5);
    y[n + i] = shuffle_xor(v, 3);
    y[2 * n + i] = shuffle_up(v, 2);
    y[3 * n + i] = shuffle_up<8>(v, 2);
    y[4 * n + i] = shuffle_down(v, 2);
    y[5 * n + i] = shuffle_down<8>(v, 2);
    y[6 * n + i] = shuffle<8>(v, 5);
}

// The same of a struct, whose three members stay together.
__global__ void structs(const int* x, int* y) {
    int i = threadIdx.x, n = blockDim.x;
    Pair v = {float(x[i]), x[i] + 1, short(x[i] + 2)};
    auto checked = [](Pair p) {
        return p.at == int(p.value) + 1 && p.more == p.at + 1 ? p.at - 1 : -1;
    };
    y[i] = checked(shuffle(v, 5));
    y[n + i] = checked(shuffle_xor(v, 3));
    y[2 * n + i] = checked(shuffle_up(v, 2));
    y[3 * n + i] = checked(shuffle_up<8>(v, 2));
    y[4 * n + i] = checked(shuffle_down(v, 2));
    y[5 * n + i] = checked(shuffle_down<8>(v, 2));
    y[6 * n + i] = checked(shuffle<8>(v, 5));
}

// [reduction][thread]
__global__ void reductions(const float* x, float* y, int lanes) {
    int i = threadIdx.x, n = blockDim.x;
    y[i] = warp_sum(x[i]);
    y[n + i] = warp_max(x[i]);
    y[2 * n + i] = warp_min(x[i]);
    y[3 * n + i] = group_reduce<8>(x[i], Plus());
    y[4 * n + i] = group_reduce(x[i], lanes, Plus());
    y[5 * n + i] = strided_reduce<4>(x[i], Maximum());
    y[6 * n + i] = warp_reduce(x[i], [](float a, float b) { return fabsf(a) > fabsf(b) ? a : b; });
    y[7 * n + i] = neighbour_reduce<4>(x[i], Plus());
}

// Running sums of whole warps, running maxima of four lanes, and running sums of every eighth lane.
__global__ void scans(const double* x, double* sums, double* maxima, double* strided) {
    int i = threadIdx.x;
    sums[i] = inclusive_scan(x[i], Plus());
    maxima[i] = inclusive_scan<4>(x[i], Maximum());
    strided[i] = strided_scan<8>(x[i], Plus());
}

// The largest element of a warp and its place: a struct by one reduction.
__global__ void argmax(const float* x, int* y) {
    Pair mine = {x[threadIdx.x], int(threadIdx.x), 0};
    y[threadIdx.x] = warp_reduce(mine, [](Pair a, Pair b) {
                         return a.value > b.value || (a.value == b.value && a.at < b.at) ? a : b;
                     }).at;
}
