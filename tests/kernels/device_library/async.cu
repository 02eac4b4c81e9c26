// Calls every function of weft/async.cuh.
#include <weft/async.cuh>

using namespace weft;

// Reverses the order of the BYTES-byte pieces of x, of which those from `valid` on are zeros.
template <class T>
__global__ void reversed(const T* x, T* y, int valid) {
    __shared__ T tile[2][64];
    int i = threadIdx.x;
    copy_async<sizeof(T)>(&tile[0][i], x + i, i < valid);
    commit_copies();
    copy_async<sizeof(T)>(shared_address(&tile[1][i]), x + 64 + i, i < valid);
    commit_copies();
    wait_copies<1>();
    __syncthreads();
    y[i] = tile[0][63 - i];
    wait_copies<0>();
    __syncthreads();
    y[64 + i] = tile[1][63 - i];
}

// The same of all pieces, without groups.
template <class T>
__global__ void all(const T* x, T* y) {
    __shared__ T tile[2][64];
    int i = threadIdx.x;
    copy_async<sizeof(T)>(&tile[0][i], x + i);
    copy_async<sizeof(T)>(shared_address(&tile[1][i]), x + 64 + i);
    wait_all_copies();
    __syncthreads();
    y[i] = tile[0][63 - i], y[64 + i] = tile[1][63 - i];
}

// Thread i copies its first i bytes.
template <class T>
__global__ void parts(const T* x, T* y) {
    __shared__ T tile[sizeof(T) + 1];
    int i = threadIdx.x;
    copy_async_part<sizeof(T)>(shared_address(tile + i), x + i, i);
    wait_all_copies();
    y[i] = tile[i];
}

template __global__ void reversed<int>(const int*, int*, int);
template __global__ void reversed<int2>(const int2*, int2*, int);
template __global__ void reversed<int4>(const int4*, int4*, int);
template __global__ void all<int>(const int*, int*);
template __global__ void all<int2>(const int2*, int2*);
template __global__ void all<int4>(const int4*, int4*);
template __global__ void parts<int>(const int*, int*);
template __global__ void parts<int2>(const int2*, int2*);
template __global__ void parts<int4>(const int4*, int4*);
