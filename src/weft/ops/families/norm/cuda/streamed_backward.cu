// Gradients of layer norm and RMS norm of many rows, by blocks that stay: rows_backward.cuh has the
// formulas. The rows to come are on their way to shared memory while one is computed.
#include <weft/async.cuh>

#include "rows_backward.cuh"

// The rows of a thread on their way: WIDE tensors of T and NARROW ones of D, of STAGES rows, REGS
// vectors of each. A thread reads what it has copied itself, so nobody waits for others.
template <class T, class D, int V, int G, int BLOCK, int REGS, int WIDE, int NARROW>
struct Ring {
    const T* const (&wide)[3];
    const D* const (&narrow)[3];
    long long count;
    int n;

    // Bytes of a row: those of wide tensors, then those of narrow ones.
    static constexpr int WIDE_BYTES = WIDE * REGS * BLOCK * sizeof(Vector<T, V>);
    static constexpr int BYTES = WIDE_BYTES + NARROW * REGS * BLOCK * sizeof(Vector<D, V>);

    __device__ Vector<T, V>& at(int stage, int tensor, int k) const {
        return slots<T>(stage * BYTES)[(tensor * REGS + k) * BLOCK];
    }
    __device__ Vector<D, V>& narrow_at(int stage, int tensor, int k) const {
        return slots<D>(stage * BYTES + WIDE_BYTES)[(tensor * REGS + k) * BLOCK];
    }
    // Starts the copies of a row; vectors beyond it, and rows beyond the last, are zeros.
    __device__ void fetch(long long row, int stage) const {
        int t = threadIdx.x % G;
#pragma unroll
        for (int k = 0; k < REGS; k++) {
            int column = (k * G + t) * V;
            bool inside = row < count && column < n;
            long long place = inside ? row * n + column : 0;
#pragma unroll
            for (int i = 0; i < WIDE; i++)
                copy_async<sizeof(Vector<T, V>)>(&at(stage, i, k), wide[i] + place, inside);
#pragma unroll
            for (int i = 0; i < NARROW; i++)
                copy_async<sizeof(Vector<D, V>)>(&narrow_at(stage, i, k), narrow[i] + place,
                                                 inside);
        }
        commit_copies();
    }

private:
    template <class E>
    __device__ static Vector<E, V>* slots(int bytes) {
        extern __shared__ uint4 vectors[];
        return reinterpret_cast<Vector<E, V>*>(reinterpret_cast<char*>(vectors) + bytes) +
               threadIdx.x;
    }
};

// G threads have a row: up to 32 of a block, or the block. partial[block][n] is dw, then db in the
// same way. BLOCKS blocks share an SM. The gradient of a row is the sum of NARROW tensors of D and,
// with DY, of dy; with LOWER, dx is stored in D as well.
template <class T, class W, int V, int G, int BLOCK, int BLOCKS, int REGS, int STAGES, bool CENTRED,
          bool ADD, class D = T, int NARROW = 0, bool DY = true, bool LOWER = false>
__global__ void __launch_bounds__(BLOCK, BLOCKS)
    streamed(const T* dy, const T* x, const W* w, const float* mean, const float* rstd,
             const T* dtotal, T* dx, float* partial, long long count, int n, const D* first,
             const D* second, const D* third, D* lowered) {
    static_assert(G <= 32 || G == BLOCK, "a warp has whole rows, or the block has one");
    static_assert(DY || NARROW > 0, "a gradient");
    take_turn();
    constexpr int ROWS = BLOCK / G, X = DY, TOTAL = X + 1;
    const T* const wide[3] = {DY ? dy : x, DY ? x : dtotal, dtotal};
    const D* const narrow[3] = {first, second, third};
    Ring<T, D, V, G, BLOCK, REGS, X + 1 + ADD, NARROW> ring{wide, narrow, count, n};
    extern __shared__ uint4 vectors[];
    auto* weight = reinterpret_cast<Vector<W, V>*>(vectors + STAGES * (ring.BYTES / 16));
    int t = threadIdx.x % G, group = threadIdx.x / G, stage = 0;
    long long row = blockIdx.x * (long long)ROWS + group, step = gridDim.x * (long long)ROWS;
#pragma unroll
    for (int s = 0; s < STAGES; s++) ring.fetch(row + s * step, s);
    for (int i = threadIdx.x; i < G * REGS; i += BLOCK)
        weight[i] = weights<V, false>(w, i * V, n, 1);
    auto gradient = [&](int k) {
        Vector<float, V> g;
        if constexpr (NARROW > 0) g = to_floats(ring.narrow_at(stage, 0, k));
        else g = to_floats(ring.at(stage, 0, k));
#pragma unroll
        for (int i = 1; i < NARROW + (NARROW && DY); i++) {
            Vector<float, V> more = i < NARROW ? to_floats(ring.narrow_at(stage, i, k))
                                               : to_floats(ring.at(stage, 0, k));
#pragma unroll
            for (int j = 0; j < V; j++) g[j] += more[j];
        }
        return g;
    };
    float dw[REGS][V], db[REGS][V];
#pragma unroll
    for (int k = 0; k < REGS; k++)
#pragma unroll
        for (int j = 0; j < V; j++) dw[k][j] = db[k][j] = 0;
    float middle = CENTRED && row < count ? mean[row] : 0, scale = row < count ? rstd[row] : 0;
    __syncthreads();
    for (; row - group < count; row += step) {
        bool more = row + step < count;
        float next_middle = CENTRED && more ? mean[row + step] : 0;
        float next_scale = more ? rstd[row + step] : 0;
        wait_copies<STAGES - 1>();
        Two own;
#pragma unroll
        for (int k = 0; k < REGS; k++) {
            Vector<float, V> g = gradient(k), z = to_floats(ring.at(stage, X, k)),
                             f = to_floats(weight[k * G + t]);
#pragma unroll
            for (int j = 0; j < V; j++) {
                z[j] = (z[j] - middle) * scale;
                dw[k][j] += g[j] * z[j];
                if (CENTRED) db[k][j] += g[j];
                g[j] *= f[j];
                own.sum += g[j], own.product += g[j] * z[j];
            }
        }
        if constexpr (CENTRED) {
            own = block_reduce<G>(own, Two{}, [](Two a, const Two& b) {
                return Two{a.sum + b.sum, a.product + b.product};
            });
        } else {
            own = {0, block_sum<G>(own.product)};
        }
        float sum = own.sum / n, product = own.product / n;
#pragma unroll
        for (int k = 0; k < REGS; k++) {
            Vector<float, V> g = gradient(k), z = to_floats(ring.at(stage, X, k)),
                             f = to_floats(weight[k * G + t]), added;
            if constexpr (ADD) added = to_floats(ring.at(stage, TOTAL, k));
#pragma unroll
            for (int j = 0; j < V; j++) {
                z[j] = (z[j] - middle) * scale;
                g[j] = scale * (g[j] * f[j] - sum - z[j] * product);
                if constexpr (ADD) g[j] += added[j];
            }
            int column = (k * G + t) * V;
            if (row < count && column < n) {
                store_whole(dx + row * n + column, from_floats<T>(g));
                if constexpr (LOWER) store_whole(lowered + row * n + column, from_floats<D>(g));
            }
        }
        ring.fetch(row + STAGES * step, stage);
        stage = stage + 1 == STAGES ? 0 : stage + 1;
        middle = next_middle, scale = next_scale;
    }
    wait_all_copies();
    __syncthreads();
    // A group alone in its block has all sums; several add theirs in shared memory, in their order.
    auto* memory = reinterpret_cast<float*>(vectors);
    float* to_w = ROWS == 1 ? partial + blockIdx.x * (long long)n : memory + group * n;
    float* to_b = ROWS == 1 ? to_w + gridDim.x * (long long)n : to_w + ROWS * n;
#pragma unroll
    for (int k = 0; k < REGS; k++) {
        int column = (k * G + t) * V;
        if (column >= n) continue;
#pragma unroll
        for (int j = 0; j < V; j++) {
            to_w[column + j] = dw[k][j];
            if (CENTRED) to_b[column + j] = db[k][j];
        }
    }
    if constexpr (ROWS > 1) {
        __syncthreads();
        for (int i = threadIdx.x; i < (1 + CENTRED) * n; i += BLOCK) {
            int which = i >= n, at = i - which * n;
            float sum = 0;
#pragma unroll 4
            for (int g = 0; g < ROWS; g++) sum += memory[(which * ROWS + g) * n + at];
            partial[(which * (long long)gridDim.x + blockIdx.x) * n + at] = sum;
        }
    }
}
