// Calls every function of weft/row.cuh.
#include <weft/row.cuh>

using namespace weft;

// y = x + 1 of one row that begins at element `first`. counts: elements of each vector.
template <class T, int V, bool RAGGED>
__global__ void elements(const T* x, T* y, int* counts, int first, int n) {
    int lead = first % V;
    x += first, y += first;
    Row<T, V, RAGGED> row{lead, n};
    for (int chunk = threadIdx.x; chunk * V - lead < n; chunk += blockDim.x) {
        Vector<T, V> v = chunk % 2 ? row.get_ahead(x, chunk, -1) : row.get(x, chunk, -1);
        int inside = 0;
#pragma unroll
        for (int j = 0; j < V; ++j) {
            inside += row.has(chunk, j);
            v[j] = to<T>(to<float>(v[j]) + 1);
        }
        counts[chunk] =
            inside == row.count(chunk) && (inside == V) == row.whole(chunk) ? inside : -1;
        row.put(y, chunk, v);
    }
}

// y = x + 1 through registers (SHARED: through shared memory); sums[chunk] of what is read, with
// -1 for each element outside of the row.
template <class T, int V, bool EVEN, bool SHARED>
__global__ void packed(const T* x, T* y, float* sums, int first, int n) {
    __shared__ __align__(16) Packed<T, V> tile[32];
    PackedRow<T, V, EVEN> row(first, n);
    x += first, y += first;
    int chunk = threadIdx.x;
    if (row.place(chunk) >= n) return;
    Packed<T, V> v;
    if constexpr (SHARED) {
        row.fetch(tile + chunk, x, chunk, -1);
        wait_all_copies();
        v = tile[chunk];
    } else {
        v = row.whole(row.place(chunk)) ? row.get(x, chunk, -1) : row.rest(x, row.place(chunk), -1);
    }
    float sum = 0;
#pragma unroll
    for (int j = 0; j < V; ++j) sum += EVEN || row.has(row.place(chunk) + j) ? v[j] : -1 - v[j];
    sums[chunk] = sum;
    row.put(y, chunk, v.map([](float e, int) { return e + 1; }));
}

template __global__ void elements<float, 4, true>(const float*, float*, int*, int, int);
template __global__ void elements<float, 4, false>(const float*, float*, int*, int, int);
template __global__ void elements<short, 8, true>(const short*, short*, int*, int, int);
template __global__ void packed<__half, 8, false, false>(const __half*, __half*, float*, int, int);
template __global__ void packed<__half, 8, false, true>(const __half*, __half*, float*, int, int);
template __global__ void packed<__half, 8, true, false>(const __half*, __half*, float*, int, int);
template __global__ void packed<__half, 8, true, true>(const __half*, __half*, float*, int, int);
