// Calls every function of weft/vector.cuh.
#include <weft/vector.cuh>

using namespace weft;

// Vectors of N elements, past the L1 cache.
template <class T, int N>
__global__ void copy_once(const T* x, T* y) {
    store(y + threadIdx.x * N, load_once<N>(x + threadIdx.x * N));
}

// y[i] = x[i] for the vectors before n, else the number of copies of `other`.
template <class T, int N>
__global__ void copy_if(const T* x, T* y, T other, int n) {
    int i = threadIdx.x * N;
    store(y + i, load_if(i < n, x + i, fill<N>(other)));
}

// y[i] = x[i], N at a time, by both stores in turn.
template <class T, int N>
__global__ void copy(const T* x, T* y, int n) {
    int i = threadIdx.x * N;
    if (i >= n) return;
    Vector<T, N> v = load<N>(x + i);
    if constexpr (sizeof(v) % 4 == 0) opaque(v);
    if (threadIdx.x % 2) store(y + i, v);
    else store_whole(y + i, v);
}

// y[k] = N copies of x[k].
template <class T, int N>
__global__ void filled(const T* x, T* y) {
    store(y + threadIdx.x * N, fill<N>(x[threadIdx.x]));
}

// Four elements from each of x + 1, x + 2, x + 3 on.
__global__ void shifted(const float* x, float* y) {
    store(y, load_shifted<4, 1>(x + 1));
    store(y + 4, load_shifted<4, 2>(x + 2));
    store(y + 8, load_shifted<4, 3>(x + 3));
}

// 16 bytes from byte threadIdx.x of x on.
__global__ void funnel(const uint4* x, uint4* y) {
    y[threadIdx.x] = funnel_shift(x[0], x[1], threadIdx.x);
}

// A value that the compiler would know is still the value.
__global__ void hidden(int* y, long long* z, float* f) {
    int a = 3;
    unsigned b = 4;
    long long c = 5;
    float d = 6;
    opaque(a), opaque(b), opaque(c), opaque(d);
    *y = a * int(b), *z = c << 40, *f = d / 4;
}

template __global__ void copy<float, 4>(const float*, float*, int);
template __global__ void copy<float, 1>(const float*, float*, int);
template __global__ void copy<short, 4>(const short*, short*, int);
template __global__ void copy<unsigned char, 2>(const unsigned char*, unsigned char*, int);
template __global__ void copy<double, 4>(const double*, double*, int);
template __global__ void filled<short, 4>(const short*, short*);
template __global__ void filled<short, 1>(const short*, short*);
template __global__ void filled<double, 2>(const double*, double*);
