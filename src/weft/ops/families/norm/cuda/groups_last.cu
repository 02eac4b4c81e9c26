// Group norm, forward, of tensors whose channels are last in memory: [sample][place][channel]
// becomes [sample][channel][place]. A block has K groups of a sample, whose channels are
// neighbours: it transposes them in shared memory, and they stay there.
#include <weft/block.cuh>
#include <weft/early_launch.cuh>

#include "moments.cuh"

using namespace weft;

// Vectors of V elements, all of one group, are read, and of U elements written. A channel has
// `inner` places, and `pitch` elements in shared memory; `tiles` blocks have all channels of a
// sample. A thread reads the same channels of some places, and at most 256 threads those of a
// place.
template <class T, class W, int V, int U, int K>
__global__ void __launch_bounds__(256)
    groups_last(const T* x, const W* w, const W* b, T* y, float* mean, float* rstd, int channels,
                int inner, int share, int pitch, int tiles, float eps) {
    take_turn();
    constexpr int R = 4;  // vectors whose loads are under way together
    extern __shared__ __align__(16) char memory[];
    __shared__ Moments found[256];
    __shared__ float3 of_group[K];  // shift, mean relative to it, scale
    int width = K * share, wide = width / V, deep = 256 / wide, first = blockIdx.x % tiles * width;
    long long sample = blockIdx.x / tiles;
    auto* affine =
        reinterpret_cast<float4*>(memory);  // of each channel: shift, mean, factor and bias
    T* tile = reinterpret_cast<T*>(affine + width);
    x += sample * inner * channels + first, y += (sample * channels + first) * inner;
    int row = threadIdx.x / wide, at = (threadIdx.x - row * wide) * V;
    float shift = shift_of(x + at / share * share, true);
    Moments own;
    for (int place = row < deep ? row : inner; place < inner; place += R * deep) {
        Vector<T, V> v[R];
        int n = 0;
#pragma unroll
        for (int r = 0; r < R; r++)
            if (place + r * deep < inner)
                v[r] = load<V>(x + (place + r * deep) * (long long)channels + at), n++;
        float sum = 0, squares = 0;
#pragma unroll
        for (int r = 0; r < R; r++)
#pragma unroll
            for (int j = 0; j < V; j++)
                if (r < n) {
                    tile[(at + j) * pitch + place + r * deep] = v[r][j];
                    sum += to<float>(v[r][j]) - shift;
                }
        float middle = __fdividef(sum, n * V);
#pragma unroll
        for (int r = 0; r < R; r++)
#pragma unroll
            for (int j = 0; j < V; j++) {
                float d = r < n ? to<float>(v[r][j]) - shift - middle : 0;
                squares += d * d;
            }
        own.add(n * V, middle, squares);
    }
    found[threadIdx.x] = own;
    __syncthreads();
    int group = threadIdx.x / 32, lane = threadIdx.x % 32, each = share / V;
    if (group < K) {  // a warp joins what all threads have of a group
        Moments all;
        for (int i = lane; i < each * deep; i += 32)
            all.add(found[i / each * wide + group * each + i % each]);
        all = block_moments<32>(all);
        float from = shift_of(x + group * share, true),
              scale = rsqrtf(all.squares / all.count + eps);
        if (lane == 0) {
            of_group[group] = make_float3(from, all.mean, scale);
            long long number = sample * (channels / share) + first / share + group;
            if (mean) mean[number] = from + all.mean, rstd[number] = scale;
        }
    }
    __syncthreads();
    for (int c = threadIdx.x; c < width; c += 256) {
        float3 of = of_group[c / share];
        float factor = w ? of.z * to<float>(w[first + c]) : of.z,
              bias = b ? to<float>(b[first + c]) : 0;
        // Rounding the product costs digits only where elements have more of them than shorter
        // types do.
        affine[c] = sizeof(T) < 4 ? make_float4(0, 0, factor, fmaf(-of.y, factor, bias))
                                  : make_float4(of.x, of.y, factor, bias);
    }
    __syncthreads();
    int c = threadIdx.x * U / inner, place = threadIdx.x * U % inner, more = 256 * U / inner,
        step = 256 * U % inner;
    for (int i = threadIdx.x * U; i < width * inner; i += 256 * U) {
        float4 a = affine[c];
        const T* from = tile + c * pitch;
        int left = inner - place;
        Vector<T, U> v;
#pragma unroll
        for (int j = 0; j < U; j++) {
            if (j == left) a = affine[c + 1], from += pitch - inner;
            float value = to<float>(from[place + j]);
            v[j] = to<T>(fmaf(sizeof(T) < 4 ? value : value - a.x - a.y, a.z, a.w));
        }
        store_whole(y + i, v);
        c += more, place += step;
        if (place >= inner) place -= inner, c++;
    }
}
