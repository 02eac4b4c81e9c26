// Gradients of layer norm and RMS norm. With g = dy * w and z = (x - mean) * rstd (RMS norm: z = x
// * rstd)
//   layer norm  dx = rstd * (g - mean(g) - z * mean(g * z))
//   RMS norm    dx = rstd * (g - z * mean(g * z))
//   dw = sum of dy * z, db = sum of dy over the rows
// With ADD, the row was a sum that is a result as well: its gradient dtotal is added to dx.
// Gradients of weights are summed in the same order in every call: over the rows of a block, then
// over blocks, or by blocks that have all rows of some columns.
#pragma once
#include <weft/block.cuh>
#include <weft/early_launch.cuh>

#include "affine.cuh"

using namespace weft;

// The sums of a row: of g, and of g * z.
struct Two {
    float sum = 0, product = 0;
};

// The gradients of the rows of a block of BLOCK threads, the block `block` of `blocks`. G threads
// hold a row of dy and of x: REGS vectors of each. A block takes rows that begin at the same place
// of a vector, so that a thread sums the same columns in all of them. partial[block][n] is dw, then
// db in the same way.
template <class T, class W, int V, bool RAGGED, int G, int BLOCK, int REGS, bool CENTRED, bool ADD,
          bool WEIGHTS>
__device__ void row_gradients(const T* dy, const T* x, const W* w, const float* mean,
                              const float* rstd, const T* dtotal, T* dx, float* partial,
                              long long count, int n, int block, int blocks) {
    constexpr int ROWS = BLOCK / G;
    constexpr int SUMS = WEIGHTS ? REGS : 0;
    // A load behind a store would wait for it; sums of weights leave no registers for more.
    constexpr bool AHEAD = ADD && !WEIGHTS;
    unsigned zero = n < 0;
    extern __shared__ float memory[];
    int t = threadIdx.x % G, group = threadIdx.x / G;
    long long first = block * (long long)ROWS;
    int lead = (first + group) * n % V;
    Vector<W, V> vw[REGS];
    float dw[SUMS + 1][V], db[SUMS + 1][V];
#pragma unroll
    for (int k = 0; k < REGS; k++) vw[k] = weights<V, RAGGED>(w, (k * G + t) * V - lead, n, 1);
#pragma unroll
    for (int k = 0; k < SUMS; k++)
#pragma unroll
        for (int j = 0; j < V; j++) dw[k][j] = db[k][j] = 0;
    for (; first < count; first += blocks * (long long)ROWS) {
        long long row = first + group;
        bool there = row < count;
        Row<T, V, RAGGED> r{lead, there ? n : 0};
        Vector<T, V> vg[REGS], vx[REGS], more[AHEAD ? REGS : 1];
#pragma unroll
        for (int k = 0; k < REGS; k++) {
            vg[k] = r.get(dy + row * n, k * G + t, 0);
            vx[k] = r.get(x + row * n, k * G + t, 0);
            if constexpr (AHEAD) more[k] = r.get(dtotal + row * n, k * G + t, 0);
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
        if constexpr (CENTRED) {
            Two all = block_reduce<G>(Two{sum, product}, Two{}, [](Two a, const Two& b) {
                return Two{a.sum + b.sum, a.product + b.product};
            });
            sum = all.sum / n, product = all.product / n;
        } else {
            product = block_sum<G>(product) / n;
        }
#pragma unroll
        for (int k = 0; k < REGS; k++) hide(vg[k], zero), hide(vx[k], zero);
#pragma unroll
        for (int k = 0; k < REGS; k++) {
            Vector<float, V> fg = to_floats(vg[k]), fx = to_floats(vx[k]), fw = to_floats(vw[k]);
            if constexpr (ADD && !AHEAD) more[0] = r.get(dtotal + row * n, k * G + t, 0);
#pragma unroll
            for (int j = 0; j < V; j++) {
                float z = (fx[j] - middle) * scale;
                fg[j] = scale * (fg[j] * fw[j] - sum - z * product);
                if constexpr (ADD) fg[j] += to<float>(more[AHEAD ? k : 0][j]);
            }
            r.put(dx + row * n, k * G + t, from_floats<T>(fg));
        }
    }
    if constexpr (WEIGHTS) {
        // A group alone in its block has all sums; several add theirs in shared memory, group by
        // group.
        float* to_w = ROWS == 1 ? partial + block * (long long)n : memory + group * n;
        float* to_b = ROWS == 1 ? to_w + blocks * (long long)n : to_w + ROWS * n;
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
                partial[(which * (long long)blocks + block) * n + at] = sum;
            }
        }
    }
}

// The gradients of the weights of WIDTH vectors of columns, those of slab `slab`: threads beside
// each other have a vector each of every (BLOCK / WIDTH)-th row.
template <class T, class W, int V, int WIDTH, int BLOCK, bool CENTRED>
__device__ void weight_gradients(const T* dy, const T* x, const float* mean, const float* rstd,
                                 W* to_w, W* to_b, long long count, int n, int slab) {
    constexpr int DEEP = BLOCK / WIDTH, WARPS = BLOCK / 32, COLUMNS = WIDTH * V, AHEAD = 4;
    __shared__ float part[WARPS][2][COLUMNS];
    int column = (slab * WIDTH + threadIdx.x % WIDTH) * V;
    float dw[V] = {}, db[V] = {};
    if (column < n)
        for (long long first = threadIdx.x / WIDTH; first < count; first += AHEAD * DEEP) {
            Vector<T, V> vg[AHEAD], vx[AHEAD];
            float middle[AHEAD], scale[AHEAD];
#pragma unroll
            for (int a = 0; a < AHEAD; a++) {
                long long row = first + a * DEEP;
                vg[a] = vx[a] = {}, middle[a] = scale[a] = 0;
                if (row >= count) continue;
                vg[a] = load<V>(dy + row * n + column), vx[a] = load<V>(x + row * n + column);
                middle[a] = CENTRED ? mean[row] : 0, scale[a] = rstd[row];
            }
#pragma unroll
            for (int a = 0; a < AHEAD; a++)
#pragma unroll
                for (int j = 0; j < V; j++) {
                    float d = to<float>(vg[a][j]);
                    dw[j] += d * ((to<float>(vx[a][j]) - middle[a]) * scale[a]);
                    if (CENTRED) db[j] += d;
                }
        }
#pragma unroll
    for (int j = 0; j < V; j++) {
        dw[j] = strided_reduce<WIDTH>(dw[j], Plus());
        if (CENTRED) db[j] = strided_reduce<WIDTH>(db[j], Plus());
    }
    if (lane_index() < WIDTH)
#pragma unroll
        for (int j = 0; j < V; j++) {
            part[warp_index()][0][lane_index() * V + j] = dw[j];
            part[warp_index()][1][lane_index() * V + j] = db[j];
        }
    __syncthreads();
    for (int i = threadIdx.x; i < (1 + CENTRED) * COLUMNS; i += BLOCK) {
        int which = i / COLUMNS, at = slab * COLUMNS + i % COLUMNS;
        if (at >= n) continue;
        float sum = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++) sum += part[w][which][i % COLUMNS];
        (which ? to_b : to_w)[at] = to<W>(sum);
    }
}
