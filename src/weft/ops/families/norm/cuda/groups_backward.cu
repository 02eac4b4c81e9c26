// Gradients of group norm with whole rows on chip; planes_backward.cu has the formulas. A block has
// `rows` rows, which follow each other in memory: it copies their dy and x to shared memory, sums
// over each plane, then over each row, and writes dx. Copies have V elements: rows * share * inner
// is a multiple of V.
#include <weft/async.cuh>
#include <weft/block.cuh>
#include <weft/convert.cuh>
#include <weft/early_launch.cuh>

using namespace weft;

// Starts a copy of a vector to shared memory; copies of 2 bytes are complete on return.
template <class T, int V>
__device__ void copy(T* to_, const T* from) {
    if constexpr (V * sizeof(T) >= 4) copy_async<V * sizeof(T)>(to_, from);
    else store(to_, load<V>(from));
}

// Adds two numbers over groups of `lanes` lanes, a power of two.
__device__ inline void add_lanes(int lanes, float& a, float& b) {
    float2 sums = group_reduce(make_float2(a, b), lanes, [](float2 a, float2 b) {
        return make_float2(a.x + b.x, a.y + b.y);
    });
    a = sums.x, b = sums.y;
}

// `lanes` lanes sum a plane of `inner` elements, and `over` lanes the `share` planes of a row.
// partial[0][plane] is the sum of dy * z, partial[1][plane] that of dy; null: they are not wanted.
// W is the type of the weights, which repeat after `groups` rows. With `counters`, one for each
// group, blocks have one row: the last block of a group adds its sums over the batch.
template <class T, class W, int V>
__global__ void __launch_bounds__(256)
    rows_of_planes(const T* dy, const T* x, const W* w, const float* mean, const float* rstd,
                   float* partial, T* dx, W* to_w, W* to_b, int* counters, long long count,
                   int inner, int share, int groups, int rows, int lanes, int over) {
    take_turn();
    extern __shared__ __align__(16) char memory[];
    long long first = blockIdx.x * (long long)rows, planes = count * share;
    int n = share * inner, here = int(min((long long)rows, count - first)), size = here * n;
    auto* terms = reinterpret_cast<float4*>(memory);  // of each plane
    T *gs = reinterpret_cast<T*>(terms + rows * share), *xs = gs + rows * n;
    auto* scales = reinterpret_cast<float*>(xs + rows * n);  // of each row
    dy += first * n, x += first * n, dx += first * n;
    for (int i = threadIdx.x * V; i + V <= size; i += 256 * V)
        copy<T, V>(gs + i, dy + i), copy<T, V>(xs + i, x + i);
    for (int i = size / V * V + threadIdx.x; i < size; i += 256) gs[i] = dy[i], xs[i] = x[i];
    // Weights and statistics arrive with the copies.
    int group = int(first % groups);
    for (int i = threadIdx.x; i < here * share; i += 256) {
        int row = i / share, channel = (group + row) % groups * share + i % share;
        terms[i] = make_float4(w ? to<float>(w[channel]) : 1, 0, 0, mean[first + row]);
    }
    for (int i = threadIdx.x; i < here; i += 256) scales[i] = rstd[first + i];
    wait_all_copies();
    __syncthreads();
    for (int base = 0; base < here * share; base += 256 / lanes) {
        int plane = base + threadIdx.x / lanes;
        bool there = plane < here * share;
        float middle = there ? terms[plane].w : 0, product = 0, sum = 0;
#pragma unroll 4
        for (int i = threadIdx.x % lanes; there && i < inner; i += lanes) {
            float g = to<float>(gs[plane * inner + i]);
            product += g * (to<float>(xs[plane * inner + i]) - middle), sum += g;
        }
        add_lanes(lanes, product, sum);
        if (!there || threadIdx.x % lanes) continue;
        product *= scales[plane / share];
        long long at = first * share + plane;
        if (partial) partial[at] = product, partial[planes + at] = sum;
        terms[plane].y = terms[plane].x * product, terms[plane].z = terms[plane].x * sum;
    }
    __syncthreads();
    // dx = x * dy + y * (x - w) + z of these terms
    for (int base = 0; base < here; base += 256 / over) {
        int row = base + threadIdx.x / over, lane = threadIdx.x % over;
        float product = 0, sum = 0, scale = row < here ? scales[row] : 0;
        for (int k = lane; row < here && k < share; k += over)
            product += terms[row * share + k].y, sum += terms[row * share + k].z;
        add_lanes(over, product, sum);
        for (int k = lane; row < here && k < share; k += over) {
            float4& term = terms[row * share + k];
            term.x *= scale, term.y = -scale * scale * product / n, term.z = -scale * sum / n;
        }
    }
    __syncthreads();
    auto gradient = [](float4 t, T g, T v) {
        return to<T>(t.x * to<float>(g) + (t.y * (to<float>(v) - t.w) + t.z));
    };
    for (int i = threadIdx.x * V; i + V <= size; i += 256 * V) {
        Vector<T, V> g = load<V>(gs + i), v = load<V>(xs + i);
        int plane = i / inner, left = (plane + 1) * inner - i;
        float4 term = terms[plane];
#pragma unroll
        for (int j = 0; j < V; j++) {
            if (left == 0) term = terms[++plane], left = inner;
            left--;
            g[j] = gradient(term, g[j], v[j]);
        }
        store_whole(dx + i, g);
    }
    for (int i = size / V * V + threadIdx.x; i < size; i += 256)
        dx[i] = gradient(terms[i / inner], gs[i], xs[i]);
    int batch = int(count / groups);
    if (!counters || !is_last_block(counters + group, batch)) return;
    for (int i = threadIdx.x; i < 2 * share; i += 256) {
        const float* sums = partial + i / share * planes + group * share + i % share;
        float sum = 0;
#pragma unroll 4
        for (int b = 0; b < batch; b++) sum += __ldcg(sums + (long long)b * groups * share);
        (i < share ? to_w : to_b)[group * share + i % share] = to<W>(sum);
    }
}
