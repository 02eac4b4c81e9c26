// Group norm of tensors whose channels are last in memory, [sample][place][channel], and its
// gradients, which have the same order. Each is two launches: one sums, one computes. A block has
// some groups of a sample and some of its places; a thread has the same channels of places.
//   y = (x - mean) * rstd * w + b
//   dx = rstd * (g - mean(g) - z * mean(g * z)), with g = dy * w and z = (x - mean) * rstd
//   dw = sum of dy * z, db = sum of dy over the places of a channel
// SILU: the result is silu(y), and dy is first multiplied by its slope at y.
#include <weft/block.cuh>
#include <weft/convert.cuh>
#include <weft/early_launch.cuh>
#include <weft/vector.cuh>

using namespace weft;

STRUCT_GROUPSLAST;  // groups_last.py declares it

__device__ inline float sigmoid(float x) { return 1 / (1 + expf(-x)); }

// The slope of silu at x.
__device__ inline float silu_slope(float x) {
    float gate = sigmoid(x);
    return gate * (1 + x * (1 - gate));
}

// The groups and places of a block.
struct Block {
    static constexpr int THREADS = 256, WARPS = THREADS / 32;
    int sample, tile, part, first, begin, end;

    __device__ Block(const GroupsLast& p) {
        part = blockIdx.x % p.parts;
        tile = blockIdx.x / p.parts % p.tiles;
        sample = blockIdx.x / p.parts / p.tiles;
        first = tile * p.width;
        begin = part * p.each;
        end = min(p.inner, begin + p.each);
    }
    __device__ long long element(int place, const GroupsLast& p) const {
        return ((long long)sample * p.inner + place) * p.channels + first;
    }
    // The number of a group of the tile: among all of the samples, and with parts.
    __device__ long long group(int g, const GroupsLast& p) const {
        return ((long long)sample * p.tiles + tile) * (p.width / p.share) + g;
    }
    __device__ long long of_part(int g, const GroupsLast& p) const {
        return group(g, p) * p.parts + part;
    }
};

// The channels of a thread, and its places: every `deep`-th one.
template <int V>
struct Own {
    int at, row, deep;

    __device__ Own(const GroupsLast& p) {
        int wide = p.width / V;
        deep = Block::THREADS / wide;
        row = threadIdx.x / wide;
        at = (threadIdx.x - row * wide) * V;
    }
    __device__ bool active() const { return row < deep; }
};

// The slope of what follows a norm, of the channels of a thread; 1 without SILU.
template <class W, int V, bool SILU>
struct Affine {
    float weight[SILU ? V : 1], bias[SILU ? V : 1];

    __device__ Affine(const W* w, const W* b, int channel, bool active) {
#pragma unroll
        for (int j = 0; j < V && SILU; j++) {
            weight[j] = w && active ? to<float>(w[channel + j]) : 1;
            bias[j] = b && active ? to<float>(b[channel + j]) : 0;
        }
    }
    __device__ float slope(float z, int j) const {
        if constexpr (SILU) return silu_slope(fmaf(z, weight[j], bias[j]));
        return 1;
    }
};

// Calls `use(place, vectors)` for the places of a thread with a vector of each tensor. Loads of
// some places are under way together.
template <int V, int N, class T, class Use>
__device__ void for_places(const Block& block, const Own<V>& own, const GroupsLast& p,
                           const T* const (&tensors)[N], Use&& use) {
    constexpr int UNDER_WAY = 4;
    if (!own.active()) return;
    for (int from = block.begin + own.row; from < block.end; from += UNDER_WAY * own.deep) {
        Vector<T, V> v[UNDER_WAY][N];
#pragma unroll
        for (int r = 0; r < UNDER_WAY; r++)
            if (int place = from + r * own.deep; place < block.end)
#pragma unroll
                for (int i = 0; i < N; i++)
                    v[r][i] = load<V>(tensors[i] + block.element(place, p) + own.at);
#pragma unroll
        for (int r = 0; r < UNDER_WAY; r++)
            if (int place = from + r * own.deep; place < block.end) use(place, v[r]);
    }
}

// Adds the pairs of threads that have the same channels, in a fixed order; the sums are the first
// `width` pairs. All threads of the block call it.
template <int V>
__device__ void join_rows(float2* pairs, const float2 (&mine)[V], const Own<V>& own,
                          const GroupsLast& p) {
    if (own.active())
#pragma unroll
        for (int j = 0; j < V; j++) pairs[own.row * p.width + own.at + j] = mine[j];
    __syncthreads();
    for (int c = threadIdx.x; c < p.width; c += Block::THREADS) {
        float2 sum = pairs[c];
        for (int r = 1; r < own.deep; r++) {
            float2 more = pairs[r * p.width + c];
            sum.x += more.x, sum.y += more.y;
        }
        pairs[c] = sum;
    }
    __syncthreads();
}

// Sums of a warp's lanes, each of which has every 32nd pair.
template <class Pair>
__device__ float2 warp_pairs(int count, Pair&& pair) {
    float2 sum = make_float2(0, 0);
    for (int i = threadIdx.x % 32; i < count; i += 32) {
        float2 more = pair(i);
        sum.x += more.x, sum.y += more.y;
    }
    return make_float2(warp_sum(sum.x), warp_sum(sum.y));
}

// The number that is subtracted from the elements of a group before they are summed, so that a
// large mean costs no digits: the mean of some of them.
template <class T>
__device__ float sampled(const T* x, const GroupsLast& p) {
    int lane = threadIdx.x % 32, place = lane / p.share, count = min(32, p.share * p.inner);
    float mine =
        lane < count ? to<float>(x[place * (long long)p.channels + lane - place * p.share]) : 0;
    return warp_sum(mine) / count;
}

// sums[group][part]: of elements less the group's shift, and of their squares.
template <class T, int V>
__global__ void __launch_bounds__(Block::THREADS)
    sum_groups(const T* x, float2* sums, float* shifts, const GroupsLast p) {
    extern __shared__ __align__(16) unsigned char memory[];
    auto* pairs = reinterpret_cast<float2*>(memory);
    auto* shift = reinterpret_cast<float*>(pairs + Block::THREADS * V);
    take_turn();
    Block block(p);
    Own<V> own(p);
    int groups = p.width / p.share, warp = threadIdx.x / 32;
    for (int g = warp; g < groups; g += Block::WARPS) {
        float found = sampled(x + block.element(0, p) + g * p.share, p);
        if (threadIdx.x % 32 == 0) {
            shift[g] = found;
            if (block.part == 0) shifts[block.group(g, p)] = found;
        }
    }
    __syncthreads();
    float2 mine[V] = {};
    float from[V];
#pragma unroll
    for (int j = 0; j < V; j++) from[j] = own.active() ? shift[(own.at + j) / p.share] : 0;
    for_places<V, 1>(block, own, p, {x}, [&](int, const Vector<T, V>(&v)[1]) {
#pragma unroll
        for (int j = 0; j < V; j++) {
            float d = to<float>(v[0][j]) - from[j];
            mine[j].x += d, mine[j].y += d * d;
        }
    });
    join_rows<V>(pairs, mine, own, p);
    for (int g = warp; g < groups; g += Block::WARPS) {
        float2 sum = warp_pairs(p.share, [&](int i) { return pairs[g * p.share + i]; });
        if (threadIdx.x % 32 == 0) sums[block.of_part(g, p)] = sum;
    }
}

// y, and mean and rstd of each group if they are wanted.
template <class T, class W, int V, bool SILU>
__global__ void __launch_bounds__(Block::THREADS)
    apply_groups(const T* x, const W* w, const W* b, const float2* sums, const float* shifts, T* y,
                 float* mean, float* rstd, const GroupsLast p, float eps) {
    extern __shared__ __align__(16) unsigned char memory[];
    auto* found = reinterpret_cast<float3*>(memory);  // of a group: shift, mean less it, scale
    take_turn();
    Block block(p);
    Own<V> own(p);
    int groups = p.width / p.share;
    float size = float(p.share) * p.inner;
    for (int g = threadIdx.x / 32; g < groups; g += Block::WARPS) {
        const float2* from = sums + block.group(g, p) * p.parts;
        float2 sum = warp_pairs(p.parts, [&](int i) { return from[i]; });
        float shift = shifts[block.group(g, p)], middle = sum.x / size;
        float scale = rsqrtf(fmaxf(sum.y / size - middle * middle, 0) + eps);
        if (threadIdx.x % 32 == 0) {
            found[g] = make_float3(shift, middle, scale);
            if (mean && block.part == 0)
                mean[block.group(g, p)] = shift + middle, rstd[block.group(g, p)] = scale;
        }
    }
    __syncthreads();
    float shift[V], middle[V], factor[V], bias[V];
#pragma unroll
    for (int j = 0; j < V; j++)
        if (own.active()) {
            int c = own.at + j;
            float3 of = found[c / p.share];
            shift[j] = of.x, middle[j] = of.y;
            factor[j] = w ? of.z * to<float>(w[block.first + c]) : of.z;
            bias[j] = b ? to<float>(b[block.first + c]) : 0;
        }
    for_places<V, 1>(block, own, p, {x}, [&](int place, const Vector<T, V>(&v)[1]) {
        Vector<T, V> made;
#pragma unroll
        for (int j = 0; j < V; j++) {
            float f = fmaf(to<float>(v[0][j]) - shift[j] - middle[j], factor[j], bias[j]);
            made[j] = to<T>(SILU ? f * sigmoid(f) : f);
        }
        store(y + block.element(place, p) + own.at, made);
    });
}

// partial[0][sample, part][channel] of dy * z, partial[1] of dy; sums[group][part] of both, each
// with the weight of its channel.
template <class T, class W, int V, bool SILU>
__global__ void __launch_bounds__(Block::THREADS)
    sum_gradients(const T* dy, const T* x, const W* w, const W* b, const float* mean,
                  const float* rstd, float* partial, float2* sums, const GroupsLast p) {
    extern __shared__ __align__(16) unsigned char memory[];
    auto* pairs = reinterpret_cast<float2*>(memory);
    take_turn();
    Block block(p);
    Own<V> own(p);
    float2 mine[V] = {};
    float middle[V], scale[V];
    Affine<W, V, SILU> affine(w, b, block.first + own.at, own.active());
#pragma unroll
    for (int j = 0; j < V; j++)
        if (own.active()) {
            long long g = block.group((own.at + j) / p.share, p);
            middle[j] = mean[g], scale[j] = rstd[g];
        }
    for_places<V, 2>(block, own, p, {dy, x}, [&](int, const Vector<T, V>(&v)[2]) {
#pragma unroll
        for (int j = 0; j < V; j++) {
            float z = (to<float>(v[1][j]) - middle[j]) * scale[j];
            float g = to<float>(v[0][j]) * affine.slope(z, j);
            mine[j].x += g * z, mine[j].y += g;
        }
    });
    join_rows<V>(pairs, mine, own, p);
    if (partial) {
        long long rows = (long long)p.samples * p.parts, row = block.sample * p.parts + block.part;
        for (int c = threadIdx.x; c < p.width; c += Block::THREADS) {
            long long to = row * p.channels + block.first + c;
            partial[to] = pairs[c].x, partial[rows * p.channels + to] = pairs[c].y;
        }
    }
    for (int g = threadIdx.x / 32; g < p.width / p.share; g += Block::WARPS) {
        float2 sum = warp_pairs(p.share, [&](int i) {
            int c = g * p.share + i;
            float one = w ? to<float>(w[block.first + c]) : 1;
            return make_float2(one * pairs[c].x, one * pairs[c].y);
        });
        if (threadIdx.x % 32 == 0) sums[block.of_part(g, p)] = sum;
    }
}

template <class T, class W, int V, bool SILU>
__global__ void __launch_bounds__(Block::THREADS)
    gradients_of_groups(const T* dy, const T* x, const W* w, const W* b, const float* mean,
                        const float* rstd, const float2* sums, T* dx, const GroupsLast p) {
    extern __shared__ __align__(16) unsigned char memory[];
    auto* found = reinterpret_cast<float2*>(memory);  // of a group: means of g * z and of g
    take_turn();
    Block block(p);
    Own<V> own(p);
    float size = float(p.share) * p.inner;
    for (int g = threadIdx.x / 32; g < p.width / p.share; g += Block::WARPS) {
        const float2* from = sums + block.group(g, p) * p.parts;
        float2 sum = warp_pairs(p.parts, [&](int i) { return from[i]; });
        if (threadIdx.x % 32 == 0) found[g] = make_float2(sum.x / size, sum.y / size);
    }
    __syncthreads();
    float middle[V], scale[V], weight[V];
    float2 means[V];
    Affine<W, V, SILU> affine(w, b, block.first + own.at, own.active());
#pragma unroll
    for (int j = 0; j < V; j++)
        if (own.active()) {
            int c = own.at + j;
            long long g = block.group(c / p.share, p);
            middle[j] = mean[g], scale[j] = rstd[g], means[j] = found[c / p.share];
            weight[j] = w ? to<float>(w[block.first + c]) : 1;
        }
    for_places<V, 2>(block, own, p, {dy, x}, [&](int place, const Vector<T, V>(&v)[2]) {
        Vector<T, V> made;
#pragma unroll
        for (int j = 0; j < V; j++) {
            float z = (to<float>(v[1][j]) - middle[j]) * scale[j];
            float g = to<float>(v[0][j]) * affine.slope(z, j) * weight[j];
            made[j] = to<T>(scale[j] * (g - means[j].y - z * means[j].x));
        }
        store(dx + block.element(place, p) + own.at, made);
    });
}
