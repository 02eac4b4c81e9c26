// Group norm, forward, of tensors whose channels are last in memory: [sample][place][channel] becomes [sample][channel][place].
// A block has K groups of a sample, whose channels are neighbours: it turns them in shared memory, and keeps them there.
#include "../group.cuh"
#include "moments.cuh"

// Vectors of V elements are read, and of U elements written. A channel has `inner` places, and `pitch` elements in shared
// memory; `tiles` blocks have all channels of a sample.
template <class T, class W, int V, int U, int K>
__global__ void __launch_bounds__(256)
    groups_last(const T* x, const W* w, const W* b, T* y, float* mean, float* rstd, int channels, int inner, int share,
                int pitch, int tiles, float eps) {
    constexpr int EACH = 256 / K, WARPS = EACH / 32;  // of a group
    extern __shared__ __align__(16) char memory[];
    int width = K * share, n = share * inner, wide = width / V, first = blockIdx.x % tiles * width;
    long long sample = blockIdx.x / tiles;
    auto* affine = reinterpret_cast<float4*>(memory);  // of each channel: shift, mean, factor and bias
    T* tile = reinterpret_cast<T*>(affine + width);
    x += sample * inner * channels + first, y += (sample * channels + first) * inner;
#pragma unroll 4
    for (int i = threadIdx.x; i < inner * wide; i += 256) {
        int place = i / wide, at = (i - place * wide) * V;
        Vector<T, V> v = load<V>(x + place * (long long)channels + at);
#pragma unroll
        for (int j = 0; j < V; j++) tile[(at + j) * pitch + place] = v[j];
    }
    __syncthreads();
    __shared__ float part[8];
    auto total = [&](float value) {  // of the threads of a group
        value = across<32>(value, 0, plus);
        __syncthreads();  // the parts before have been read
        if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = value;
        __syncthreads();
        value = 0;
        for (int i = 0; i < WARPS; i++) value += part[int(threadIdx.x) / EACH * WARPS + i];
        return value;
    };
    int group = threadIdx.x / EACH, t = threadIdx.x % EACH, step = EACH % pitch;
    const T* own = tile + group * share * pitch;
    auto each = [&](auto&& f) {  // the elements behind the places of a channel are left out
#pragma unroll 4
        for (int i = t, place = t % pitch; i < share * pitch; i += EACH) {
            if (place < inner) f(to<float>(own[i]));
            place += step;
            if (place >= pitch) place -= pitch;
        }
    };
    float shift = shift_of(own, true), sum = 0, squares = 0;
    each([&](float v) { sum += v - shift; });
    float middle = total(sum) / n;
    each([&](float v) { squares += (v - shift - middle) * (v - shift - middle); });
    float scale = rsqrtf(total(squares) / n + eps);
    if (t == 0 && mean) {
        long long row = sample * (channels / share) + first / share + group;
        mean[row] = shift + middle, rstd[row] = scale;
    }
    for (int c = group * share + t; c < (group + 1) * share; c += EACH)
        affine[c] = make_float4(shift, middle, w ? scale * to<float>(w[first + c]) : scale, b ? to<float>(b[first + c]) : 0);
    __syncthreads();
    for (int i = threadIdx.x * U; i < width * inner; i += 256 * U) {
        int c = i / inner, place = i - c * inner;
        float4 a = affine[c];
        Vector<T, U> v;
#pragma unroll
        for (int j = 0; j < U; j++) {
            if (place == inner) a = affine[++c], place = 0;
            v[j] = to<T>(fmaf(to<float>(tile[c * pitch + place]) - a.x - a.y, a.z, a.w));
            place++;
        }
        store_whole(y + i, v);
    }
}
