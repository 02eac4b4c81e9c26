// Multiplies a tensor in place by a number in memory. Nothing is read or written if the number
// is 1.
#include <weft/convert.cuh>
#include <weft/early_launch.cuh>

using namespace weft;

template <class T, class F, int V>
__global__ void __launch_bounds__(256) scale(T* x, const F* factor, long long n) {
    take_turn();
    float by = to<float>(*factor);
    if (by == 1) return;
    for (long long i = (blockIdx.x * 256ll + threadIdx.x) * V; i < n; i += gridDim.x * 256ll * V) {
        if (i + V <= n) {
            Vector<T, V> v = load<V>(x + i);
#pragma unroll
            for (int j = 0; j < V; j++) v[j] = to<T>(to<float>(v[j]) * by);
            store(x + i, v);
        } else {
            for (long long j = i; j < n; j++) x[j] = to<T>(to<float>(x[j]) * by);
        }
    }
}
