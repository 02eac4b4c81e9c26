// Kernels on 2-D and 3-D data, and on graphs.

__global__ void transpose_naive(const float* in, float* out, int rows, int columns) {
    int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
    if (r < rows && c < columns) out[c * rows + r] = in[r * columns + c];
}

// 32 x 32 tile through shared memory, 8 rows of threads.
template <typename T, int PAD>
__global__ void transpose_tiled(const T* in, T* out, int rows, int columns) {
    __shared__ T tile[32][32 + PAD];
    int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        if (r + j < rows && c < columns)
            tile[threadIdx.y + j][threadIdx.x] = in[(size_t)(r + j) * columns + c];
    __syncthreads();
    c = blockIdx.y * 32 + threadIdx.x, r = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        if (r + j < columns && c < rows)
            out[(size_t)(r + j) * rows + c] = tile[threadIdx.x][threadIdx.y + j];
}

// The same tile with rows rotated by XOR in place of padding.
__global__ void transpose_swizzled(const float* in, float* out, int rows, int columns) {
    __shared__ float tile[32][32];
    int x = threadIdx.x, c = blockIdx.x * 32 + x, r0 = blockIdx.y * 32;
    for (int y = threadIdx.y; y < 32; y += blockDim.y)
        if (r0 + y < rows && c < columns) tile[y][x ^ y] = in[(r0 + y) * columns + c];
    __syncthreads();
    int r = blockIdx.y * 32 + x, c0 = blockIdx.x * 32;
    for (int y = threadIdx.y; y < 32; y += blockDim.y)
        if (c0 + y < columns && r < rows) out[(c0 + y) * rows + r] = tile[x][y ^ x];
}

__constant__ float filter[7 * 7];

// "Same" convolution with zeros outside; the filter is in constant memory.
template <int RADIUS>
__device__ void convolve(const float* in, float* out, int height, int width) {
    __shared__ float tile[16 + 2 * RADIUS][16 + 2 * RADIUS];
    const int SIDE = 16 + 2 * RADIUS, TAPS = 2 * RADIUS + 1;
    int x0 = blockIdx.x * 16 - RADIUS, y0 = blockIdx.y * 16 - RADIUS;
    for (int i = threadIdx.y * 16 + threadIdx.x; i < SIDE * SIDE; i += 256) {
        int x = x0 + i % SIDE, y = y0 + i / SIDE;
        bool in_image = x >= 0 && x < width && y >= 0 && y < height;
        tile[i / SIDE][i % SIDE] = in_image ? in[y * width + x] : 0.f;
    }
    __syncthreads();
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    if (x >= width || y >= height) return;
    float sum = 0.f;
    for (int dy = 0; dy < TAPS; dy++)
        for (int dx = 0; dx < TAPS; dx++)
            sum += filter[dy * TAPS + dx] * tile[threadIdx.y + dy][threadIdx.x + dx];
    out[y * width + x] = sum;
}

__global__ void convolve_3(const float* in, float* out, int height, int width) {
    convolve<1>(in, out, height, width);
}
__global__ void convolve_7(const float* in, float* out, int height, int width) {
    convolve<3>(in, out, height, width);
}

// One Jacobi step of the 7-point Laplacian inside, the border stays; double precision.
__global__ void jacobi(const double* in, double* out, const double* f, int nx, int ny, int nz) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x >= nx || y >= ny || z >= nz) return;
    long long i = ((long long)z * ny + y) * nx + x, plane = (long long)nx * ny;
    bool border = x == 0 || y == 0 || z == 0 || x == nx - 1 || y == ny - 1 || z == nz - 1;
    out[i] = border ? in[i]
                    : (in[i - 1] + in[i + 1] + in[i - nx] + in[i + nx] + in[i - plane] +
                       in[i + plane] - f[i]) / 6.0;
}

// A row a thread, and a row a warp.
__global__ void spmv_thread(const int* starts, const int* columns, const float* values,
                            const float* x, float* y, int rows) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float sum = 0.f;
    for (int i = starts[r]; i < starts[r + 1]; i++) sum += values[i] * x[columns[i]];
    y[r] = sum;
}

__global__ void spmv_warp(const int* starts, const int* columns, const float* values,
                          const float* x, float* y, int rows) {
    int r = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (r >= rows) return;
    float sum = 0.f;
    for (int i = starts[r] + lane; i < starts[r + 1]; i += 32) sum += values[i] * x[columns[i]];
    for (int o = 16; o; o /= 2) sum += __shfl_down_sync(~0u, sum, o);
    if (lane == 0) y[r] = sum;
}

// One level of a breadth-first search; whoever marks a vertex first puts it on the next frontier.
__global__ void bfs_level(const int* starts, const int* edges, int* distance, const int* frontier,
                          int size, int* next, int* next_size, int level) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    int v = frontier[i];
    for (int e = starts[v]; e < starts[v + 1]; e++)
        if (atomicCAS(&distance[edges[e]], -1, level) == -1) next[atomicAdd(next_size, 1)] = edges[e];
}

// Forces of all on all, in tiles of a block; softened gravity.
__global__ void n_body(const float4* bodies, float3* forces, int n, float softening) {
    extern __shared__ float4 tile[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 me = i < n ? bodies[i] : make_float4(0, 0, 0, 0);
    float3 sum = make_float3(0, 0, 0);
    for (int start = 0; start < n; start += blockDim.x) {
        int j = start + threadIdx.x;
        tile[threadIdx.x] = j < n ? bodies[j] : make_float4(0, 0, 0, 0);
        __syncthreads();
        for (int k = 0; k < blockDim.x; k++) {
            float4 other = tile[k];
            float dx = other.x - me.x, dy = other.y - me.y, dz = other.z - me.z;
            float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + softening);
            float s = other.w * inverse * inverse * inverse;
            sum.x += dx * s, sum.y += dy * s, sum.z += dz * s;
        }
        __syncthreads();
    }
    if (i < n) forces[i] = sum;
}
