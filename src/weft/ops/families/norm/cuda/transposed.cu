// Layer norm and RMS norm of short rows whose elements are apart in memory, such as those of a
// transposed tensor. A row has few threads, so that neighbours have neighbouring rows: what they
// read together is adjacent. rows.cuh has the formulas.
#include "rows.cuh"

STRUCT_ROWSTRIDES

struct Strides : RowStrides {
    __device__ long long start(long long number) const {
        if (outer == 0) return number * row;
        return number / inner * outer + number % inner * row;
    }
    // A vector of a row; its elements are `column` apart where the tensor is STRIDED.
    template <bool STRIDED, class T, int V>
    __device__ Vector<T, V> get(const T* from, const Row<T, V, false>& r, int chunk,
                                float outside) const {
        if constexpr (!STRIDED) return r.get(from, chunk, outside);
        Vector<T, V> v = fill<V>(to<T>(outside));
        if (r.whole(chunk))
#pragma unroll
            for (int j = 0; j < V; j++) v[j] = from[(chunk * V + j) * column];
        return v;
    }
};

// G threads hold a row of REGS vectors each. X and ADDED: those tensors are strided; the others
// have contiguous rows.
template <class T, class W, int V, int G, int REGS, bool CENTRED, bool ADD, bool X, bool ADDED>
__global__ void __launch_bounds__(128)
    transposed_rows(const T* x, const T* added, const W* w, const W* b, T* y, T* total, float* mean,
                    float* rstd, long long count, int n, Strides x_strides, Strides added_strides,
                    float eps) {
    take_turn();
    long long row = blockIdx.x * (128ll / G) + threadIdx.x / G;
    bool there = row < count;
    int t = threadIdx.x % G;
    Row<T, V, false> r{0, there ? n : 0};
    const T *from = x + x_strides.start(row),
            *more = ADD ? added + added_strides.start(row) : nullptr;
    float shift = CENTRED ? shift_of(from, there) + (ADD ? shift_of(more, there) : 0) : 0;
    Vector<T, V> regs[REGS], second[REGS];
#pragma unroll
    for (int k = 0; k < REGS; k++) {
        regs[k] = x_strides.template get<X>(from, r, k * G + t, shift);
        if constexpr (ADD) second[k] = added_strides.template get<ADDED>(more, r, k * G + t, 0);
    }
    float middle = 0, sum = 0;
#pragma unroll
    for (int k = 0; k < REGS; k++) {
        if constexpr (ADD) {
            regs[k] = sums(regs[k], second[k]);
            r.put(total + row * n, k * G + t, regs[k]);
        }
        if constexpr (CENTRED) sum = sum_of(regs[k], shift, sum);
    }
    if constexpr (CENTRED) middle = block_sum<G>(sum) / n;
    sum = 0;
#pragma unroll
    for (int k = 0; k < REGS; k++) sum = squares_of(regs[k], r, k * G + t, shift, middle, sum);
    float scale = rsqrtf(block_sum<G>(sum) / n + eps);
    if (there && t == 0) {
        if (CENTRED && mean) mean[row] = shift + middle;
        if (rstd) rstd[row] = scale;
    }
#pragma unroll
    for (int k = 0; k < REGS; k++) {
        int at = (k * G + t) * V;
        Vector<W, V> vw = weights<V, false>(w, at, r.n, 1), vb = weights<V, false>(b, at, r.n, 0);
        r.put(y + row * n, k * G + t, results(regs[k], shift, middle, scale, vw, vb));
    }
}
