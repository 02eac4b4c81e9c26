// Packed queries, keys and values of single tokens: heads are normed and turned, and keys and
// values are stored in a cache.
#include <weft/convert.cuh>
#include <weft/early_launch.cuh>
#include <weft/warp.cuh>

using namespace weft;

STRUCT_CACHED  // see structs.py

// A warp has a head of a token; its lanes have pairs of elements that are turned together.
    template <class T>
    __global__ void __launch_bounds__(256)
        rotate_cached(const T* qkv, const int* positions, const int* slots, T* cached_keys,
                      T* cached_values, const float* cosines, const float* sines, const T* q_weight,
                      const T* k_weight, T* q, T* k, T* v, const Cached c) {
    take_turn();
    long long item = blockIdx.x * 8ll + warp_index();
    int all = c.heads + 2 * c.kv_heads;
    if (item >= c.tokens * all) return;
    int head = int(item % all), token = int(item / all);
    int part = head < c.heads ? 0 : head < c.heads + c.kv_heads ? 1 : 2;
    const T* from = qkv + token * c.token_stride + head * c.size;
    head -= part == 0 ? 0 : part == 1 ? c.heads : c.heads + c.kv_heads;
    int count = part == 0 ? c.heads : c.kv_heads;
    T* to_row = (part == 0   ? q
                 : part == 1 ? k
                             : v) +
                (static_cast<long long>(token) * count + head) * c.size;
    long long slot = slots[token];
    T* kept = nullptr;
    if (part > 0 && slot >= 0)
        kept = (part == 1 ? cached_keys : cached_values) + (slot * c.kv_heads + head) * c.size;
    auto write = [&](int i, float x) {
        to_row[i] = to<T>(x);
        if (kept) kept[i] = to<T>(x);
    };

    const T* weight = part == 0 ? q_weight : part == 1 ? k_weight : nullptr;
    float scale = 1.0f;
    if (weight) {
        float squares = 0.0f;
        for (int i = lane_index(); i < c.size; i += 32)
            squares += to<float>(from[i]) * to<float>(from[i]);
        scale = rsqrtf(warp_sum(squares) / c.size + c.eps);
    }
    // A model rounds the normed head to its dtype before it is turned.
    auto read = [&](int i) {
        float x = to<float>(from[i]);
        return weight ? to<float>(to<T>(x * scale * to<float>(weight[i]))) : x;
    };
    int pairs = part < 2 ? c.pairs : 0;
    const float* cosine = cosines + static_cast<long long>(positions[token]) * c.pairs;
    const float* sine = sines + static_cast<long long>(positions[token]) * c.pairs;
    for (int i = lane_index(); i < pairs; i += 32) {
        float a = read(i), b = read(i + pairs);
        write(i, a * cosine[i] - b * sine[i]);
        write(i + pairs, b * cosine[i] + a * sine[i]);
    }
    for (int i = 2 * pairs + lane_index(); i < c.size; i += 32) write(i, read(i));
}
