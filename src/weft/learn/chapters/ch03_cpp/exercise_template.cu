// low and high are the smaller and the larger of x and y: a < b ? a : b, and a > b ? a : b.
// A comparison with NaN is false, so where a or b is NaN the result is b. fminf(a, b) and
// fmaxf(a, b) differ: of NaN and a number they return the number.
struct Smaller {
    __device__ float operator()(float a, float b) const { return a < b ? a : b; }
};

template <typename Choose>
__device__ void each(const float* x, const float* y, float* out, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) out[i] = Choose()(x[i], y[i]);
}

__global__ void lows(const float* x, const float* y, float* low, int n) {
    each<Smaller>(x, y, low, n);
}
__global__ void highs(const float* x, const float* y, float* high, int n) {
    each<Larger>(x, y, high, n);
}
