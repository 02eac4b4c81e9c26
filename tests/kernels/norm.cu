// Normalisations, softmax and attention, a row (or a tile of rows) a block.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_fp16.h>
#include <math_constants.h>
namespace cg = cooperative_groups;

// A warp a row, four rows a block.
__global__ void layer_norm(const float* x, const float* weight, const float* bias, float* y,
                           int rows, int columns, float eps) {
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    int row = blockIdx.x * warp.meta_group_size() + warp.meta_group_rank();
    if (row >= rows) return;
    const float* in = x + (size_t)row * columns;
    float sum = 0.f, squares = 0.f;
    for (int i = warp.thread_rank(); i < columns; i += warp.size()) sum += in[i];
    float mean = cg::reduce(warp, sum, cg::plus<float>()) / columns;
    for (int i = warp.thread_rank(); i < columns; i += warp.size()) {
        float d = in[i] - mean;
        squares += d * d;
    }
    float rstd = rsqrtf(cg::reduce(warp, squares, cg::plus<float>()) / columns + eps);
    for (int i = warp.thread_rank(); i < columns; i += warp.size())
        y[(size_t)row * columns + i] = (in[i] - mean) * rstd * weight[i] + bias[i];
}

// Half precision in and out, a block a row, block size a multiple of 32.
__global__ void rms_norm(const half* x, const half* weight, half* y, int columns, float eps) {
    __shared__ float warps[32];
    const half* in = x + (size_t)blockIdx.x * columns;
    float sum = 0.f;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) {
        float v = __half2float(in[i]);
        sum += v * v;
    }
    for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = threadIdx.x % 32 < blockDim.x / 32 ? warps[threadIdx.x % 32] : 0.f;
    for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
    float scale = rsqrtf(sum / columns + eps);
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        y[(size_t)blockIdx.x * columns + i] =
            __float2half(__half2float(in[i]) * scale * __half2float(weight[i]));
}

// Maximum and sum in one pass: a running pair that can be merged in any order.
__global__ void online_softmax(const float* x, float* y, int columns) {
    __shared__ float maxima[32], sums[32];
    const float* in = x + (size_t)blockIdx.x * columns;
    float m = -CUDART_INF_F, s = 0.f;
    auto merge = [&](float om, float os) {
        float top = fmaxf(m, om);
        if (top == -CUDART_INF_F) return;
        s = s * __expf(m - top) + os * __expf(om - top);
        m = top;
    };
    for (int i = threadIdx.x; i < columns; i += blockDim.x) merge(in[i], 1.f);
    for (int o = 16; o; o >>= 1) {
        float om = __shfl_xor_sync(~0u, m, o), os = __shfl_xor_sync(~0u, s, o);
        merge(om, os);
    }
    if (threadIdx.x % 32 == 0) maxima[threadIdx.x / 32] = m, sums[threadIdx.x / 32] = s;
    __syncthreads();
    m = -CUDART_INF_F, s = 0.f;
    for (int w = 0; w < blockDim.x / 32; w++) merge(maxima[w], sums[w]);
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        y[(size_t)blockIdx.x * columns + i] = __expf(in[i] - m) / s;
}

// Flash attention: a block holds 32 queries of one head and walks over the keys in tiles of 32.
// grid: (tiles of queries, heads, batch); block: 32; shared memory: K, V, Q tiles and the scores.
template <int D>
__global__ void flash(const float* Q, const float* K, const float* V, float* O, int length,
                      int heads, float scale, bool causal) {
    extern __shared__ float memory[];
    float *q = memory, *k = q + 32 * D, *v = k + 32 * D, *p = v + 32 * D;
    int t = threadIdx.x, row = blockIdx.x * 32 + t;
    size_t base = ((size_t)blockIdx.z * heads + blockIdx.y) * length * D;
    for (int d = 0; d < D; d++) q[t * D + d] = row < length ? Q[base + row * D + d] : 0.f;
    float m = -CUDART_INF_F, l = 0.f, acc[D] = {};
    int last = causal ? blockIdx.x * 32 + 32 : length;
    for (int j0 = 0; j0 < last && j0 < length; j0 += 32) {
        __syncthreads();
        for (int d = 0; d < D; d++) {
            bool in = j0 + t < length;
            k[t * D + d] = in ? K[base + (j0 + t) * D + d] : 0.f;
            v[t * D + d] = in ? V[base + (j0 + t) * D + d] : 0.f;
        }
        __syncthreads();
        float top = m;
        for (int j = 0; j < 32; j++) {
            float s = 0.f;
            for (int d = 0; d < D; d++) s += q[t * D + d] * k[j * D + d];
            bool out = j0 + j >= length || (causal && j0 + j > row);
            s = out ? -CUDART_INF_F : s * scale;
            p[t * 33 + j] = s;
            top = fmaxf(top, s);
        }
        float shrink = __expf(m - top), sum = 0.f;
        for (int j = 0; j < 32; j++) sum += p[t * 33 + j] = __expf(p[t * 33 + j] - top);
        l = l * shrink + sum, m = top;
        for (int d = 0; d < D; d++) {
            float o = acc[d] * shrink;
            for (int j = 0; j < 32; j++) o += p[t * 33 + j] * v[j * D + d];
            acc[d] = o;
        }
    }
    if (row < length)
        for (int d = 0; d < D; d++) O[base + row * D + d] = acc[d] / l;
}
