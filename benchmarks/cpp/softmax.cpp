// Softmax of rows: the threads' maxima and sums are arrays; a shuffle tree folds halves of a warp.
#include <cmath>

namespace {
constexpr int THREADS = 256, WARPS = THREADS / 32;

template <class Combine>
float across_block(float* v, Combine combine) {
    float shared[WARPS];
    for (int w = 0; w < WARPS; ++w) {
        float* lane = v + w * 32;
        for (int o = 16; o > 0; o /= 2)
            for (int l = 0; l < o; ++l) lane[l] = combine(lane[l], lane[l + o]);
        shared[w] = lane[0];
    }
    float all = shared[0];
    for (int w = 1; w < WARPS; ++w) all = combine(all, shared[w]);
    return all;
}
}  // namespace

extern "C" void softmax(int gx, int, const float* __restrict__ x, float* __restrict__ y, int n) {
    for (int bx = 0; bx < gx; ++bx) {
        const float* from = x + bx * n;
        float* to = y + bx * n;
        float v[THREADS];
        for (int t = 0; t < THREADS; ++t) v[t] = -INFINITY;
        for (int i = 0; i < n; i += THREADS)
            for (int t = 0; t < THREADS && i + t < n; ++t)
                v[t] = v[t] > from[i + t] ? v[t] : from[i + t];
        const float m = across_block(v, [](float a, float b) { return a > b ? a : b; });
        for (int t = 0; t < THREADS; ++t) v[t] = 0.0f;
        for (int i = 0; i < n; i += THREADS)
            for (int t = 0; t < THREADS && i + t < n; ++t) v[t] += std::exp(from[i + t] - m);
        const float s = across_block(v, [](float a, float b) { return a + b; });
        const float scale = 1.0f / s;
        for (int i = 0; i < n; ++i) to[i] = std::exp(from[i] - m) * scale;
    }
}
