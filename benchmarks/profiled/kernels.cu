// Kernels whose memory accesses differ: what the simulator counts is compared with what ncu counts.
#include <cuda_fp16.h>

#define I (blockIdx.x * blockDim.x + threadIdx.x)

extern "C" {

__global__ void copy(const float* x, float* y, int n) {
    if (I < n) y[I] = x[I];
}
__global__ void copy4(const float4* x, float4* y, int n) {
    if (I < n) y[I] = x[I];
}
__global__ void copy_offset(const float* x, float* y, int n) {
    if (I < n) y[I] = x[I + 1];
}
__global__ void copy_strided(const float* x, float* y, int n) {
    if (I < n) y[I] = x[I * 2];
}
__global__ void copy_far(const float* x, float* y, int n) {
    if (I < n) y[I] = x[I * 32];
}
__global__ void gather(const float* x, const int* at, float* y, int n) {
    if (I < n) y[I] = x[at[I]];
}
__global__ void scatter(const float* x, const int* at, float* y, int n) {
    if (I < n) y[at[I]] = x[I];
}
__global__ void saxpy(const float* x, float* y, float a, int n) {
    if (I < n) y[I] = a * x[I] + y[I];
}
struct Point { float x, y, z; };
__global__ void points(const Point* p, float* r, int n) {
    if (I < n) r[I] = p[I].x * p[I].x + p[I].y * p[I].y + p[I].z * p[I].z;
}
__global__ void halves(const __half2* x, __half2* y, int n) {
    if (I < n) y[I] = __hmul2(x[I], x[I]);
}
__global__ void bytes(const unsigned char* x, unsigned char* y, int n) {
    if (I < n) y[I] = x[I] ^ 0x55;
}
__global__ void doubles(const double* x, double* y, int n) {
    if (I < n) y[I] = x[I] * 3.0;
}
__global__ void grid_stride(const float* x, float* y, int n) {
    for (int i = I; i < n; i += gridDim.x * blockDim.x) y[i] = x[i] + 1.0f;
}

__global__ void transpose_naive(const float* x, float* y, int n) {
    int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 8 + threadIdx.y;
    y[c * n + r] = x[r * n + c];
}
__global__ void transpose_conflict(const float* x, float* y, int n) {
    __shared__ float tile[32][32];
    int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = x[(r + j) * n + c];
    __syncthreads();
    c = blockIdx.y * 32 + threadIdx.x, r = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) y[(r + j) * n + c] = tile[threadIdx.x][threadIdx.y + j];
}
__global__ void transpose_padded(const float* x, float* y, int n) {
    __shared__ float tile[32][33];
    int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = x[(r + j) * n + c];
    __syncthreads();
    c = blockIdx.y * 32 + threadIdx.x, r = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) y[(r + j) * n + c] = tile[threadIdx.x][threadIdx.y + j];
}

__global__ void reduce_interleaved(const float* x, float* y) {
    __shared__ float s[256];
    int t = threadIdx.x;
    s[t] = x[I];
    __syncthreads();
    for (int d = 1; d < 256; d *= 2) {
        int i = 2 * d * t;
        if (i < 256) s[i] += s[i + d];
        __syncthreads();
    }
    if (t == 0) y[blockIdx.x] = s[0];
}
__global__ void reduce_sequential(const float* x, float* y) {
    __shared__ float s[256];
    int t = threadIdx.x;
    s[t] = x[I];
    __syncthreads();
    for (int d = 128; d > 0; d /= 2) {
        if (t < d) s[t] += s[t + d];
        __syncthreads();
    }
    if (t == 0) y[blockIdx.x] = s[0];
}
__global__ void reduce_shuffle(const float4* x, float* y, int n) {
    float v = 0;
    for (int i = I; i < n; i += gridDim.x * blockDim.x) v += x[i].x + x[i].y + x[i].z + x[i].w;
    for (int d = 16; d; d /= 2) v += __shfl_down_sync(~0u, v, d);
    __shared__ float s[32];
    if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < blockDim.x / 32; w++) v += s[w];
        atomicAdd(y, v);
    }
}
__global__ void scan(const int* x, int* y) {
    __shared__ int s[512];
    int t = threadIdx.x;
    s[t] = x[I];
    for (int d = 1; d < 512; d *= 2) {
        __syncthreads();
        int v = t >= d ? s[t - d] : 0;
        __syncthreads();
        s[t] += v;
    }
    y[I] = s[t];
}
__global__ void softmax(const float* x, float* y, int n) {
    __shared__ float s[256];
    x += blockIdx.x * n, y += blockIdx.x * n;
    int t = threadIdx.x;
    float m = -1e30f, sum = 0;
    for (int i = t; i < n; i += 256) m = fmaxf(m, x[i]);
    s[t] = m;
    for (int d = 128; d; d /= 2) { __syncthreads(); if (t < d) s[t] = fmaxf(s[t], s[t + d]); }
    __syncthreads();
    m = s[0];
    __syncthreads();
    for (int i = t; i < n; i += 256) sum += expf(x[i] - m);
    s[t] = sum;
    for (int d = 128; d; d /= 2) { __syncthreads(); if (t < d) s[t] += s[t + d]; }
    __syncthreads();
    for (int i = t; i < n; i += 256) y[i] = expf(x[i] - m) / s[0];
}
__global__ void layernorm(const float* x, const float* g, const float* b, float* y, int n) {
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    x += row * n, y += row * n;
    float sum = 0, square = 0;
    for (int i = lane; i < n; i += 32) sum += x[i], square += x[i] * x[i];
    for (int d = 16; d; d /= 2) {
        sum += __shfl_xor_sync(~0u, sum, d);
        square += __shfl_xor_sync(~0u, square, d);
    }
    float mean = sum / n, scale = rsqrtf(square / n - mean * mean + 1e-5f);
    for (int i = lane; i < n; i += 32) y[i] = (x[i] - mean) * scale * g[i] + b[i];
}

__global__ void matmul_naive(const float* a, const float* b, float* c, int n) {
    int x = I, y = blockIdx.y * blockDim.y + threadIdx.y;
    float s = 0;
    for (int k = 0; k < n; k++) s += a[y * n + k] * b[k * n + x];
    c[y * n + x] = s;
}
__global__ void matmul_tiled(const float* a, const float* b, float* c, int n) {
    __shared__ float p[16][16], q[16][16];
    int tx = threadIdx.x, ty = threadIdx.y, x = blockIdx.x * 16 + tx, y = blockIdx.y * 16 + ty;
    float s = 0;
    for (int k = 0; k < n; k += 16) {
        p[ty][tx] = a[y * n + k + tx];
        q[ty][tx] = b[(k + ty) * n + x];
        __syncthreads();
        for (int j = 0; j < 16; j++) s += p[ty][j] * q[j][tx];
        __syncthreads();
    }
    c[y * n + x] = s;
}
__global__ void matvec(const float* a, const float* x, float* y, int n) {
    int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    float s = 0;
    for (int k = lane; k < n; k += 32) s += a[row * n + k] * x[k];
    for (int d = 16; d; d /= 2) s += __shfl_xor_sync(~0u, s, d);
    if (lane == 0) y[row] = s;
}
__global__ void stencil(const float* x, float* y, int n) {
    __shared__ float s[256 + 8];
    int t = threadIdx.x + 4;
    s[t] = x[I];
    if (threadIdx.x < 4) {
        s[t - 4] = I >= 4 ? x[I - 4] : 0;
        s[t + 256] = I + 256 < n ? x[I + 256] : 0;
    }
    __syncthreads();
    float v = 0;
    for (int d = -4; d <= 4; d++) v += s[t + d];
    y[I] = v;
}
__global__ void heat(const float* x, float* y, int n) {
    int c = I, r = blockIdx.y * blockDim.y + threadIdx.y;
    if (c > 0 && r > 0 && c < n - 1 && r < n - 1)
        y[r * n + c] = 0.25f * (x[r * n + c - 1] + x[r * n + c + 1] + x[r * n - n + c] + x[r * n + n + c]);
}
__constant__ float filter[9] = {1, 2, 1, 2, 4, 2, 1, 2, 1};
__global__ void blur(const float* x, float* y, int n) {
    int c = I, r = blockIdx.y * blockDim.y + threadIdx.y;
    float v = 0;
    for (int i = -1; i <= 1; i++)
        for (int j = -1; j <= 1; j++) {
            int rr = min(max(r + i, 0), n - 1), cc = min(max(c + j, 0), n - 1);
            v += filter[(i + 1) * 3 + j + 1] * x[rr * n + cc];
        }
    y[r * n + c] = v;
}

__global__ void histogram_global(const unsigned char* x, unsigned* bins, int n) {
    for (int i = I; i < n; i += gridDim.x * blockDim.x) atomicAdd(&bins[x[i]], 1u);
}
__global__ void histogram_shared(const unsigned char* x, unsigned* bins, int n) {
    __shared__ unsigned s[256];
    s[threadIdx.x] = 0;
    __syncthreads();
    for (int i = I; i < n; i += gridDim.x * blockDim.x) atomicAdd(&s[x[i]], 1u);
    __syncthreads();
    atomicAdd(&bins[threadIdx.x], s[threadIdx.x]);
}
__global__ void tickets(int* next, int* mine, int n) {
    if (I < n) mine[I] = atomicAdd(&next[I % 64], 1);
}
__global__ void divergent(const int* x, float* y, int n) {
    int v = x[I];
    float s = 0;
    for (int i = 0; i < v; i++) s = s * 0.5f + __sinf((float)i);
    y[I] = s;
}
__global__ void private_array(const int* x, float* y, int n) {
    float a[16];
    for (int i = 0; i < 16; i++) a[i] = x[i] * 0.5f;
    float s = 0;
    for (int i = 0; i < 8; i++) s += a[(x[I] + i * 3) & 15];
    y[I] = s;
}
__global__ void vectors_shared(const float4* x, float4* y) {
    __shared__ float4 s[256];
    s[threadIdx.x] = x[I];
    __syncthreads();
    y[I] = s[threadIdx.x ^ 9];
}
__global__ void pairs_shared(const double* x, double* y) {
    __shared__ double s[512];
    s[threadIdx.x * 2] = x[I];
    __syncthreads();
    y[I] = s[(threadIdx.x * 34) & 510];
}
__global__ void staged(const float4* x, float4* y) {
    __shared__ __align__(16) float4 s[256];
    unsigned to = (unsigned)__cvta_generic_to_shared(&s[threadIdx.x]);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(x + I));
    asm volatile("cp.async.wait_all;");
    __syncthreads();
    y[I] = s[255 - threadIdx.x];
}
__global__ void bitonic(int* x) {
    __shared__ int s[512];
    int t = threadIdx.x;
    s[t] = x[blockIdx.x * 512 + t], s[t + 256] = x[blockIdx.x * 512 + t + 256];
    for (int k = 2; k <= 512; k *= 2)
        for (int j = k / 2; j > 0; j /= 2) {
            __syncthreads();
            int i = 2 * t - (t & (j - 1)), o = i + j;
            int a = s[i], b = s[o];
            if ((a > b) == !(i & k)) s[i] = b, s[o] = a;
        }
    __syncthreads();
    x[blockIdx.x * 512 + t] = s[t], x[blockIdx.x * 512 + t + 256] = s[t + 256];
}
__global__ void lookup(const float* table, const int* at, float* y, int width) {
    const float* row = table + (long long)at[blockIdx.x] * width;
    for (int i = threadIdx.x; i < width; i += blockDim.x) y[blockIdx.x * width + i] = row[i];
}
__global__ void bodies(const float4* p, float4* force, int n) {
    __shared__ float4 s[128];
    float4 me = p[I];
    float x = 0, y = 0, z = 0;
    for (int j = 0; j < n; j += 128) {
        s[threadIdx.x] = p[j + threadIdx.x];
        __syncthreads();
        for (int k = 0; k < 128; k++) {
            float dx = s[k].x - me.x, dy = s[k].y - me.y, dz = s[k].z - me.z;
            float r = rsqrtf(dx * dx + dy * dy + dz * dz + 1e-6f), w = s[k].w * r * r * r;
            x += dx * w, y += dy * w, z += dz * w;
        }
        __syncthreads();
    }
    force[I] = make_float4(x, y, z, 0);
}
}
