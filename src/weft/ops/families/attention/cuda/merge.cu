// Merges attention over some keys into attention over others, in place, by the logarithms of the
// sums of their exponentials.
#include <weft/convert.cuh>
#include <weft/early_launch.cuh>

using namespace weft;

STRUCT_MERGED;  // see structs.py

// out and lse are changed; `lanes` threads, which are of one warp, have a row. N elements of a row
// are read at once.
template <class T, int N>
__global__ void __launch_bounds__(256)
    merge(float* out, float* lse, const T* part, const float* part_lse, const Merged m) {
    take_turn();
    long long row = (blockIdx.x * 256ll + threadIdx.x) / m.lanes;
    bool inside = row < m.total;
    float old = 0.0f, more = 0.0f;
    if (inside) {
        long long of[3] = {row / m.rows / m.heads, row / m.rows % m.heads, row % m.rows};
#pragma unroll
        for (int i = 0; i < 3; ++i) {
            out += of[i] * m.out[i];
            lse += of[i] * m.lse[i];
            part += of[i] * m.part[i];
            part_lse += of[i] * m.part_lse[i];
        }
        old = *lse;
        more = *part_lse;
    }
    __syncwarp();  // every lane of a row has read lse before one of them writes it
    // A part without keys has the logarithm -inf, and changes nothing.
    if (!inside || more == -INFINITY) return;
    int lane = threadIdx.x % m.lanes;
    float weight = 1.0f / (1.0f + expf(old - more));
    for (int i = lane * N; i < m.width; i += m.lanes * N) {
        Vector<float, N> sum = load<N>(out + i), added = to_floats(load<N>(part + i));
#pragma unroll
        for (int j = 0; j < N; ++j) sum[j] += weight * (added[j] - sum[j]);
        store(out + i, sum);
    }
    if (lane == 0) *lse = fmaxf(old, more) + log1pf(expf(-fabsf(old - more)));
}
