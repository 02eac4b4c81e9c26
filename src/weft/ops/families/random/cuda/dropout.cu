// Dropout, and its backward pass: see dropout.cuh.
#include "dropout.cuh"

template <class T, int V, int U, bool WHOLE>
__global__ void __launch_bounds__(256)
    dropout(const T* x, T* y, const long long* state, long long seed, long long offset, long long n,
            unsigned blocks, unsigned keep_below, float scale) {
    drop<V, U, WHOLE>(x, y, PhiloxStart(state, seed, offset), n, blocks, keep_below, scale);
}
