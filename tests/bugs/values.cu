// Memory that was never written, or only in part.

// case: odd_bytes_of_shared   kind: uninitialised   grid: 1   block: 32   args: u8[64] u8[64]
__global__ void k(const unsigned char* x, unsigned char* y) {
    __shared__ unsigned char s[64];
    int t = threadIdx.x;
    s[2 * t] = x[t];
    //+ s[2 * t + 1] = 1;
    __syncwarp();
    y[t] = s[2 * t + 1];  //!
}

// case: half_of_a_shared_word   kind: uninitialised   grid: 2   block: 32   args: u16[64] u32[64]
__global__ void k(const unsigned short* x, unsigned* y) {
    __shared__ unsigned s[32];
    int t = threadIdx.x, i = blockIdx.x * 32 + t;
    reinterpret_cast<unsigned short*>(s)[2 * t] = x[i];
    //+ reinterpret_cast<unsigned short*>(s)[2 * t + 1] = 0;
    __syncwarp();
    y[i] = s[t] + 1;  //!
}

// case: last_byte_of_a_fresh_word   kind: uninitialised   grid: 1   block: 32   args: u8[128]=fresh u32[32]
__global__ void k(unsigned char* x, unsigned* y) {
    int t = threadIdx.x;
    for (int i = 0; i < 3; i++) x[4 * t + i] = i;
    //+ x[4 * t + 3] = 3;
    y[t] = 3 * reinterpret_cast<unsigned*>(x)[t];  //!
}

// case: fresh_bytes   kind: uninitialised   grid: 1   block: 64   args: u8[64]=fresh u8[64]
__global__ void k(unsigned char* x, unsigned char* y) {
    int t = threadIdx.x;
    if (t % 4 != 3) x[t] = t;  //-
    //+ x[t] = t;
    y[t] = x[t];  //!
}

// case: fresh_halves   kind: uninitialised   grid: 1   block: 32   args: u16[64]=fresh u16[32]
__global__ void k(unsigned short* x, unsigned short* y) {
    int t = threadIdx.x;
    x[2 * t] = t;
    //+ x[2 * t + 1] = t;
    __syncwarp();
    y[t] = x[2 * t + 1];  //!
}

// case: local_bytes   kind: uninitialised   grid: 1   block: 32   args: i32[32] i32[32] 2
__global__ void k(const int* x, int* y, int step) {
    unsigned char a[16];
    int t = threadIdx.x;
    //+ step = 1;
    for (int i = 0; i < 16; i += step) a[i] = x[i];
    y[t] = a[(x[t] | 1) & 15];  //!
}

// case: one_of_four_floats   kind: uninitialised   grid: 1   block: 32   args: f32[32] f32[32]
__global__ void k(const float* x, float* y) {
    __shared__ float4 s[32];
    int t = threadIdx.x;
    s[t].x = x[t];
    s[t].y = 1;
    s[t].z = 2;
    //+ s[t].w = 3;
    __syncwarp();
    float4 v = s[31 - t];  //!
    y[t] = v.x + v.y * v.z - v.w;
}

// case: half_of_a_double   kind: uninitialised   grid: 1   block: 32   args: i32[32] f64[32]
__global__ void k(const int* x, double* y) {
    __shared__ double s[32];
    int t = threadIdx.x;
    reinterpret_cast<int*>(s)[2 * t] = x[t];
    //+ reinterpret_cast<int*>(s)[2 * t + 1] = 0x3ff00000;
    __syncwarp();
    y[t] = s[31 - t] * 2;  //!
}

// case: atomic_on_unwritten_shared   kind: uninitialised   grid: 2   block: 64   args: i32[128] i32[16]
__global__ void k(const int* x, int* y) {
    __shared__ int h[8];
    int t = threadIdx.x;
    //+ if (t < 8) h[t] = 0;
    //+ __syncthreads();
    atomicAdd(&h[x[blockIdx.x * 64 + t] & 7], 1);  //!
    __syncthreads();
    if (t < 8) y[blockIdx.x * 8 + t] = h[t];
}

// case: atomic_on_one_unwritten_place   kind: uninitialised   grid: 1   block: 64   args: f32[64] f32[1]
__global__ void k(const float* x, float* y) {
    __shared__ float sum;
    //+ if (threadIdx.x == 0) sum = 0;
    //+ __syncthreads();
    atomicAdd(&sum, x[threadIdx.x]);  //!
    __syncthreads();
    if (threadIdx.x == 0) *y = sum;
}

// case: atomic_on_fresh_memory   kind: uninitialised   grid: 4   block: 32   args: i32[128] i32[1]=fresh
__global__ void k(const int* x, int* total) {
    atomicAdd(total, x[blockIdx.x * 32 + threadIdx.x]);  //!  //-
    //+ if (blockIdx.x == 0 && threadIdx.x == 0) atomicExch(total, x[0]);
}

// case: atomics_on_fresh_bins   kind: uninitialised   grid: 2   block: 64   args: i32[128] u32[16]=fresh
__global__ void k(const int* x, unsigned* bins) {
    int i = blockIdx.x * 64 + threadIdx.x;
    atomicMax(&bins[x[i] & 15], i);  //!  //-
    //+ atomicExch(&bins[x[i] & 15], i);
}

// case: speculated_local_read   kind: uninitialised   grid: 1   block: 32   args: i32[32] i32[32] 3
__global__ void k(const int* x, int* y, int n) {
    int a[8], t = threadIdx.x;
    for (int i = 0; i < n; i++) a[(i + x[0]) & 7] = x[i];
    int at = (x[0] + (t & 3)) & 7;
    int v = a[at];  //!
    y[t] = v;  //-
    //+ y[t] = (t & 3) < n ? v : -1;
}

// case: local_used_in_a_condition   kind: uninitialised   grid: 1   block: 32   args: i32[32] i32[32] 3
__global__ void k(const int* x, int* y, int n) {
    int a[8], t = threadIdx.x;
    for (int i = 0; i < n; i++) a[(i + x[0]) & 7] = x[i];
    y[t] = 0;
    if (a[(x[0] + (t & 3)) & 7] > 10)  //!  //-
    //+ if ((t & 3) < n && a[(x[0] + (t & 3)) & 7] > 10)
        y[t] = 1;
}

// case: local_used_as_an_index   kind: uninitialised   grid: 1   block: 32   args: i32[32] i32[32] 3
__global__ void k(const int* x, int* y, int n) {
    int a[8], t = threadIdx.x;
    for (int i = 0; i < n; i++) a[(i + x[0]) & 7] = i;
    int at = a[(x[0] + (t & 3)) & 7];  //!
    //+ at = (t & 3) < n ? at : 0;
    y[t] = x[at & 31];
}
