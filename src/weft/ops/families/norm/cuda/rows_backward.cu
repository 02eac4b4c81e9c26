// Gradients of layer norm and RMS norm. With g = dy * w and z = (x - mean) * rstd (RMS norm: z = x
// * rstd)
//   layer norm  dx = rstd * (g - mean(g) - z * mean(g * z))
//   RMS norm    dx = rstd * (g - z * mean(g * z))
//   dw = sum of dy * z, db = sum of dy over the rows
// With ADD, the row was a sum that is a result as well: its gradient dtotal is added to dx.
// Gradients of weights are summed in two stages, in the same order in every call: over the rows of
// a block, then over blocks.
#include <weft/block.cuh>

#include "affine.cuh"

using namespace weft;

// G threads hold a row of dy and of x: REGS vectors of each. A block takes rows that begin at the
// same place of a vector, so that a thread sums the same columns in all of them. partial[block][n]
// is dw, then db in the same way.
template <class T, class W, int V, bool RAGGED, int G, int REGS, bool CENTRED, bool ADD,
          bool WEIGHTS>
__global__ void __launch_bounds__(G <= 32 ? 128 : G)
    rows(const T* dy, const T* x, const W* w, const float* mean, const float* rstd, const T* dtotal,
         T* dx, float* partial, long long count, int n) {
    constexpr int BLOCK = G <= 32 ? 128 : G, ROWS = BLOCK / G;
    constexpr int SUMS = WEIGHTS ? REGS : 0;
    unsigned zero = n < 0;
    extern __shared__ float memory[];
    int t = threadIdx.x % G, group = threadIdx.x / G;
    long long first = blockIdx.x * (long long)ROWS;
    int lead = (first + group) * n % V;
    Vector<W, V> vw[REGS];
    float dw[SUMS + 1][V], db[SUMS + 1][V];
#pragma unroll
    for (int k = 0; k < REGS; k++) vw[k] = weights<V, RAGGED>(w, (k * G + t) * V - lead, n, 1);
#pragma unroll
    for (int k = 0; k < SUMS; k++)
#pragma unroll
        for (int j = 0; j < V; j++) dw[k][j] = db[k][j] = 0;
    for (; first < count; first += gridDim.x * (long long)ROWS) {
        long long row = first + group;
        bool there = row < count;
        Row<T, V, RAGGED> r{lead, there ? n : 0};
        Vector<T, V> vg[REGS], vx[REGS];
#pragma unroll
        for (int k = 0; k < REGS; k++) {
            vg[k] = r.get(dy + row * n, k * G + t, 0);
            vx[k] = r.get(x + row * n, k * G + t, 0);
        }
        float middle = CENTRED && there ? mean[row] : 0, scale = there ? rstd[row] : 0;
        float sum = 0, product = 0;
#pragma unroll
        for (int k = 0; k < REGS; k++) {
            Vector<float, V> fg = to_floats(vg[k]), fx = to_floats(vx[k]), fw = to_floats(vw[k]);
#pragma unroll
            for (int j = 0; j < V; j++) {
                float d = fg[j], z = (fx[j] - middle) * scale, g = d * fw[j];
                if (CENTRED) sum += g;
                product += g * z;
                if constexpr (WEIGHTS) dw[k][j] += d * z, db[k][j] += d;
            }
        }
        if constexpr (CENTRED) sum = block_sum<G>(sum) / n;
        product = block_sum<G>(product) / n;
#pragma unroll
        for (int k = 0; k < REGS; k++) hide(vg[k], zero), hide(vx[k], zero);
#pragma unroll
        for (int k = 0; k < REGS; k++) {
            Vector<float, V> fg = to_floats(vg[k]), fx = to_floats(vx[k]), fw = to_floats(vw[k]),
                             more;
            if constexpr (ADD) more = to_floats(r.get(dtotal + row * n, k * G + t, 0));
#pragma unroll
            for (int j = 0; j < V; j++) {
                float z = (fx[j] - middle) * scale;
                fg[j] = scale * (fg[j] * fw[j] - sum - z * product);
                if constexpr (ADD) fg[j] += more[j];
            }
            r.put(dx + row * n, k * G + t, from_floats<T>(fg));
        }
    }
    if constexpr (WEIGHTS) {
        // A group alone in its block has all sums; several add theirs in shared memory, group by
        // group.
        float* to_w = ROWS == 1 ? partial + blockIdx.x * (long long)n : memory + group * n;
        float* to_b = ROWS == 1 ? to_w + gridDim.x * (long long)n : to_w + ROWS * n;
#pragma unroll
        for (int k = 0; k < REGS; k++)
#pragma unroll
            for (int j = 0; j < V; j++) {
                int at = (k * G + t) * V - lead + j;
                if (at >= 0 && at < n) to_w[at] = dw[k][j], to_b[at] = db[k][j];
            }
        if constexpr (ROWS > 1) {
            __syncthreads();
            for (int i = threadIdx.x; i < 2 * n; i += BLOCK) {
                int at = i % n, which = i / n;
                float sum = 0;
                for (int g = 0; g < ROWS; g++) sum += memory[(which * ROWS + g) * n + at];
                partial[(which * (long long)gridDim.x + blockIdx.x) * n + at] = sum;
            }
        }
    }
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
    int which = blockIdx.x / tiles, at = (blockIdx.x - which * tiles) * 256 + threadIdx.x;
    if (at >= n) return;
    partial += which * (long long)blocks * n + at;
    float sum = 0;
#pragma unroll 8
    for (int i = 0; i < blocks; i++) sum += partial[i * (long long)n];
    (which ? db : dw)[at] = to<W>(sum);
}
