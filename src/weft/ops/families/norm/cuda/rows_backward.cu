// Kernels of the gradients of layer norm and RMS norm; rows_backward.cuh has the formulas.
#include "rows_backward.cuh"

template <class T, class W, int V, bool RAGGED, int G, int REGS, bool CENTRED, bool ADD,
          bool WEIGHTS>
__global__ void __launch_bounds__(G <= 32 ? 128 : G)
    rows(const T* dy, const T* x, const W* w, const float* mean, const float* rstd, const T* dtotal,
         T* dx, float* partial, long long count, int n) {
    take_turn();
    row_gradients<T, W, V, RAGGED, G, (G <= 32 ? 128 : G), REGS, CENTRED, ADD, WEIGHTS>(
        dy, x, w, mean, rstd, dtotal, dx, partial, count, n, blockIdx.x, gridDim.x);
}

// Everything in one launch: the first blocks sum the gradients of weights, `slabs` of them, and the
// others compute dx. Both read dy and x, which the L2 cache has the second time.
template <class T, class W, int V, bool RAGGED, int G, int REGS, bool CENTRED, bool ADD, int WIDTH,
          int BLOCK>
__global__ void __launch_bounds__(BLOCK)
    rows_and_weights(const T* dy, const T* x, const W* w, const float* mean, const float* rstd,
                     const T* dtotal, T* dx, W* to_w, W* to_b, long long count, int n, int slabs) {
    take_turn();
    if (blockIdx.x < slabs)
        weight_gradients<T, W, (RAGGED ? 1 : V), WIDTH, BLOCK, CENTRED>(dy, x, mean, rstd, to_w,
                                                                        to_b, count, n, blockIdx.x);
    else
        row_gradients<T, W, V, RAGGED, G, BLOCK, REGS, CENTRED, ADD, false>(
            dy, x, w, mean, rstd, dtotal, dx, nullptr, count, n, blockIdx.x - slabs,
            gridDim.x - slabs);
}

// Long rows, first pass: each block takes a part of a row, and stores its sums of g and of g * z.
template <class T, class W, int V, bool RAGGED, bool CENTRED>
__global__ void __launch_bounds__(256)
    parts_of_rows(const T* dy, const T* x, const W* w, const float* mean, const float* rstd,
                  float2* sums, int n, int parts, int chunks) {
    long long row = blockIdx.x / parts;
    int part = blockIdx.x % parts;
    Row<T, V, RAGGED> r{int(row * n % V), n};
    int end = min((part + 1) * chunks, (n + r.lead + V - 1) / V);
    float middle = CENTRED ? mean[row] : 0, scale = rstd[row], sum = 0, product = 0;
#pragma unroll 2
    for (int c = part * chunks + threadIdx.x; c < end; c += 256) {
        Vector<T, V> vg = r.get(dy + row * n, c, 0), vx = r.get(x + row * n, c, 0);
        Vector<W, V> vw = weights<V, RAGGED>(w, c * V - r.lead, n, 1);
#pragma unroll
        for (int j = 0; j < V; j++) {
            float g = to<float>(vg[j]) * to<float>(vw[j]);
            sum += g;
            product += g * (to<float>(vx[j]) - middle) * scale;
        }
    }
    sum = block_sum<256>(sum);
    product = block_sum<256>(product);
    if (threadIdx.x == 0) sums[blockIdx.x] = make_float2(sum, product);
}

// The sums of a row from those of its parts, in every lane: added by the lanes of a warp.
__device__ inline float2 joined(const float2* sums, int parts) {
    float2 all = {};
    for (int i = threadIdx.x % 32; i < parts; i += 32) all.x += sums[i].x, all.y += sums[i].y;
    return make_float2(block_sum<32>(all.x), block_sum<32>(all.y));
}

// Long rows, second pass: a block takes 256 vectors of some rows, which begin at the same place of
// a vector. Without `partial` it has all rows, and stores dw and db.
template <class T, class W, int V, bool RAGGED, bool CENTRED, bool ADD, bool WEIGHTS>
__global__ void __launch_bounds__(256)
    finish_rows(const T* dy, const T* x, const W* w, const float* mean, const float* rstd,
                const T* dtotal, T* dx, const float2* sums, float* partial, W* to_w, W* to_b,
                long long count, int n, int parts, int slabs) {
    int slab = blockIdx.x % slabs, chunk = slab * 256 + threadIdx.x;
    long long block = blockIdx.x / slabs, step = gridDim.x / slabs;
    int lead = block * n % V;
    Vector<W, V> vw = weights<V, RAGGED>(w, chunk * V - lead, n, 1);
    float dw[V] = {}, db[V] = {};
    Row<T, V, RAGGED> r{lead, n};
    for (long long row = block; row < count; row += step) {
        Vector<T, V> vg = r.get(dy + row * n, chunk, 0), vx = r.get(x + row * n, chunk, 0), more;
        if constexpr (ADD) more = r.get(dtotal + row * n, chunk, 0);
        float middle = CENTRED ? mean[row] : 0, scale = rstd[row];
        float2 all = joined(sums + row * parts, parts);
        float sum = CENTRED ? all.x / n : 0, product = all.y / n;
#pragma unroll
        for (int j = 0; j < V; j++) {
            float d = to<float>(vg[j]), z = (to<float>(vx[j]) - middle) * scale,
                  g = d * to<float>(vw[j]);
            if constexpr (WEIGHTS) dw[j] += d * z, db[j] += d;
            d = scale * (g - sum - z * product);
            if constexpr (ADD) d += to<float>(more[j]);
            vg[j] = to<T>(d);
        }
        r.put(dx + row * n, chunk, vg);
    }
    if constexpr (WEIGHTS) {
#pragma unroll
        for (int j = 0; j < V; j++) {
            int at = chunk * V - lead + j;
            if (at < 0 || at >= n) continue;
            if (partial) {
                partial[block * n + at] = dw[j], partial[(step + block) * n + at] = db[j];
            } else {
                to_w[at] = to<W>(dw[j]);
                if (to_b) to_b[at] = to<W>(db[j]);
            }
        }
    }
}

// Sums partial[2][blocks][n] over the blocks, `each` of them in a row of the grid: 32 columns per
// block, 8 threads each. The second half of a row is db. Results are [rows of the grid][n].
template <class W>
__global__ void __launch_bounds__(256)
    sum_partials(const float* partial, W* dw, W* db, int blocks, int n, int tiles, int each) {
    take_turn();
    __shared__ float part[8][33];
    int lane = threadIdx.x % 32, t = threadIdx.x / 32, at = blockIdx.x % tiles * 32 + lane,
        which = blockIdx.x / tiles;
    int begin = blockIdx.y * each, end = min(blocks, begin + each);
    float sum = 0;
    if (at < n)
#pragma unroll 8
        for (int i = begin + t; i < end; i += 8)
            sum += partial[((long long)which * blocks + i) * n + at];
    part[t][lane] = sum;
    __syncthreads();
    if (t > 0 || at >= n) return;
    for (int i = 1; i < 8; i++) sum += part[i][lane];
    (which ? db : dw)[(long long)blockIdx.y * n + at] = to<W>(sum);
}

// The same for few blocks of many columns, a thread for each; the second half of the grid sums db.
template <class W>
__global__ void __launch_bounds__(256)
    sum_columns(const float* partial, W* dw, W* db, int blocks, int n, int tiles) {
    take_turn();
    int which = blockIdx.x / tiles, at = (blockIdx.x - which * tiles) * 256 + threadIdx.x;
    if (at >= n) return;
    partial += which * (long long)blocks * n + at;
    float sum = 0;
#pragma unroll 8
    for (int i = 0; i < blocks; i++) sum += partial[i * (long long)n];
    (which ? db : dw)[at] = to<W>(sum);
}
