// Gradients of group norm. A row is a group of planes, one plane for each of its channels; with g =
// dy * w of the channel and z = (x - mean) * rstd of the row
//   dx = rstd * (g - mean(g) - z * mean(g * z)), means over the row
//   dw = sum of dy * z, db = sum of dy over the planes of a channel
// All follow from two sums for each plane: partial[0][plane] of dy * z, partial[1][plane] of dy.
#include <weft/block.cuh>
#include <weft/convert.cuh>
#include <weft/early_launch.cuh>

using namespace weft;

// The sums of planes of `inner` vectors, with G threads for each, at most a warp or the whole
// block; `share` planes have the same mean and rstd.
template <class T, int V, int G>
__global__ void __launch_bounds__(256)
    plane_sums(const T* dy, const T* x, const float* mean, const float* rstd, float* partial,
               long long planes, int inner, int share) {
    take_turn();
    long long plane = blockIdx.x * (256ll / G) + threadIdx.x / G;
    bool there = plane < planes;
    float middle = there ? mean[plane / share] : 0, scale = there ? rstd[plane / share] : 0,
          product = 0, sum = 0;
    dy += plane * inner * V, x += plane * inner * V;
#pragma unroll 4
    for (int i = threadIdx.x % G; there && i < inner; i += G) {
        Vector<T, V> g = load<V>(dy + i * (long long)V), v = load<V>(x + i * (long long)V);
#pragma unroll
        for (int j = 0; j < V; j++) {
            product += to<float>(g[j]) * (to<float>(v[j]) - middle);
            sum += to<float>(g[j]);
        }
    }
    product = block_sum<G>(product), sum = block_sum<G>(sum);
    if (there && threadIdx.x % G == 0)
        partial[plane] = product * scale, partial[planes + plane] = sum;
}

// dx: `parts` blocks for each row of `share` planes.
template <class T, class W, int V>
__global__ void __launch_bounds__(256)
    gradient(const T* dy, const T* x, const W* w, const float* mean, const float* rstd,
             const float* partial, T* dx, long long planes, int inner, int share, int groups,
             int parts, int each) {
    take_turn();
    long long row = blockIdx.x / parts, plane = row * share, channel = row % groups * share;
    float product = 0, sum = 0;
    for (int i = threadIdx.x; i < share; i += 256) {
        float one = w ? to<float>(w[channel + i]) : 1;
        product += one * partial[plane + i], sum += one * partial[planes + plane + i];
    }
    float size = float(share) * inner * V;
    product = block_sum<256>(product) / size, sum = block_sum<256>(sum) / size;
    float middle = mean[row], scale = rstd[row];
    int begin = blockIdx.x % parts * each, end = min(share * inner, begin + each);
    dy += plane * inner * V, x += plane * inner * V, dx += plane * inner * V;
#pragma unroll 4
    for (int i = begin + threadIdx.x; i < end; i += 256) {
        Vector<T, V> g = load<V>(dy + i * (long long)V), v = load<V>(x + i * (long long)V);
        float one = w ? to<float>(w[channel + i / inner]) : 1;
#pragma unroll
        for (int j = 0; j < V; j++) {
            float z = (to<float>(v[j]) - middle) * scale;
            g[j] = to<T>(scale * (to<float>(g[j]) * one - sum - z * product));
        }
        store(dx + i * (long long)V, g);
    }
}
