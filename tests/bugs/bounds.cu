// Accesses that stay inside memory but leave their own array, and indices that wrap.

// case: from_one_shared_array_into_the_next   kind: out of bounds   grid: 1   block: 64   args: f32[64] f32[64]
__global__ void k(const float* x, float* y) {
    __shared__ float a[64];
    __shared__ float b[64];
    int t = threadIdx.x;
    a[t] = x[t];
    b[t] = 2 * x[t];
    __syncthreads();
    y[t] = a[t + 1] + b[t];  //!  //-
    //+ y[t] = a[t] + b[t];
}

// case: shared_write_before_its_array   kind: out of bounds   grid: 1   block: 64   args: f32[64] f32[64]
__global__ void k(const float* x, float* y) {
    __shared__ float a[64];
    __shared__ float b[64];
    int t = threadIdx.x;
    a[t] = x[t];
    b[t] = 0;
    __syncthreads();
    b[t - 1] = x[t];  //!  //-
    //+ if (t > 0) b[t - 1] = x[t];
    __syncthreads();
    y[t] = a[t] + b[t];
}

// case: shared_row_too_many   kind: out of bounds   grid: 1   block: 32   args: f32[32] f32[32] 9
__global__ void k(const float* x, float* y, int rows) {
    __shared__ float tile[8][32];
    __shared__ float sums[32];
    int t = threadIdx.x;
    sums[t] = 0;
    __syncwarp();
    for (int r = 0; r < rows; r++)  //-
    //+ for (int r = 0; r < 8; r++)
        tile[r][t] = x[t] * r;  //!
    __syncwarp();
    y[t] = sums[t] + tile[7][31 - t];
}

// case: shared_index_from_data   kind: out of bounds   grid: 1   block: 32   args: i32[32]=17 i32[32]
__global__ void k(const int* x, int* y) {
    __shared__ int bins[16];
    __shared__ int count[16];
    int t = threadIdx.x;
    if (t < 16) bins[t] = count[t] = 0;
    __syncwarp();
    atomicAdd(&bins[x[t]], 1);  //!  //-
    //+ atomicAdd(&bins[x[t] & 15], 1);
    __syncwarp();
    y[t] = bins[t & 15] + count[t & 15];
}

// case: into_the_neighbouring_argument   kind: out of bounds   grid: 2   block: 64   args: f32[128] f32[128] 1
__global__ void k(float* x, float* y, int apart) {
    int i = blockIdx.x * 64 + threadIdx.x;
    long long away = (y - x) * apart;
    y[i] = x[i + away];  //!  //-
    //+ y[i] = x[i + away * 0];
}

// case: written_through_another_argument   kind: out of bounds   grid: 1   block: 32   args: f32[32] f32[32] 1
__global__ void k(float* x, float* y, int apart) {
    long long away = (y - x) * apart;
    //+ away = 0;
    x[threadIdx.x + away] = 1;  //!
    y[threadIdx.x + 0] = x[threadIdx.x];
}

// case: kept_across_a_branch   kind: index overflow   grid: 1   block: 32   args: f32[64] f32[32] 65536
__global__ void k(const float* x, float* y, int n) {
    int at = n * n + threadIdx.x;  //!  //-
    //+ int at = (int)((long long)n * n % 32) + threadIdx.x;
    float v = 0;
    if (y[threadIdx.x] != 12345) v = x[at];  //!
    y[threadIdx.x] = v;
}

// case: grid_index_times_a_large_row   kind: index overflow   grid: 3   block: 32   args: f32[96] f32[96] 1431655766
__global__ void k(const float* x, float* y, int pitch) {
    int i = blockIdx.x * 32 + threadIdx.x;
    int row = i / 32;
    if (row * 3 >= 3) y[i] = x[row * 3 * pitch - 2 * (row > 0) + threadIdx.x];  //!  //-
    //+ y[i] = x[i];
}

// case: data_times_pitch   kind: index overflow   grid: 1   block: 32   args: i32[32]=65536 f32[64] f32[32] 65536
__global__ void k(const int* rows, const float* x, float* y, int pitch) {
    y[threadIdx.x] = x[rows[threadIdx.x] * pitch + threadIdx.x];  //!  //-
    //+ y[threadIdx.x] = x[(size_t)rows[threadIdx.x] * pitch % 32 + threadIdx.x];
}

// case: copy_beyond_shared_memory   kind: out of bounds   grid: 1   block: 32   args: f32[128] f32[32]
#include <cuda_pipeline.h>
__global__ void k(const float4* x, float* y) {
    __shared__ float4 s[32];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&s[t + 1], &x[t], 16);  //!  //-
    //+ __pipeline_memcpy_async(&s[t], &x[t], 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncwarp();
    y[t] = s[t].x;
}
