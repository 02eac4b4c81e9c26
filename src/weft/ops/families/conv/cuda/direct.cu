// Convolution by its definition: one thread computes one element of the target. For groups of few
// channels, where a matrix product has nothing to share, and for tensors too large for its indices.
#include <weft/convert.cuh>
#include "window.cuh"

using namespace weft;

// Elements are numbered in the memory order of a contiguous target of one phase; phases are blocks
// along y.
template <class T, bool BACK>
__global__ void __launch_bounds__(256)
    direct(const T* x, const T* weight, const T* bias, T* y, const Conv p) {
    Window window = Window::of<BACK>(p, blockIdx.y);
    long long index = blockIdx.x * 256ll + threadIdx.x,
              pixels = (long long)window.h.count * window.w.count;
    long long channels = (long long)p.groups * p.target_c;
    if (index >= p.batch * channels * pixels) return;
    long long plane = index / pixels;
    int rest = int(index - plane * pixels), i = rest / window.w.count,
        j = rest - i * window.w.count;
    long long n = plane / channels;
    int channel = int(plane - n * channels), group = channel / p.target_c,
        m = channel - group * p.target_c;
    int h = i * window.h.mul + window.h.base, w = j * window.w.mul + window.w.base;
    const T* from = x + n * p.source[0] + group * p.source_c * p.source[1];
    const T* weights = weight + group * p.weight_group + (long long)m * p.weight_target;
    float sum = 0;
    for (int c = 0; c < p.source_c; ++c)
        for (int r = 0; r < window.h.taps; ++r) {
            int row = h + r * window.h.step;
            const T* line = from + c * p.source[1] + row * p.source[2];
            const T* taps = weights + (long long)c * p.weight_source +
                            (window.h.first + r * window.h.skip) * p.S + window.w.first;
            for (int s = 0; s < window.w.taps; ++s) {
                int column = w + s * window.w.step;
                // Padding is zeros, which count: zero times infinity is NaN.
                bool inside = unsigned(row) < p.source_h && unsigned(column) < p.source_w;
                sum += (inside ? to<float>(line[column * p.source[3]]) : 0) *
                       to<float>(taps[s * window.w.skip]);
            }
        }
    if (bias) sum += to<float>(bias[channel]);
    y[n * p.target[0] + channel * p.target[1] + window.h.out(i) * p.target[2] +
      window.w.out(j) * p.target[3]] = to<T>(sum);
}
