// Races and unwritten reads in shared memory. The notation is explained in tests/planted.py.

// case: missing_barrier   kind: data race   grid: 2   block: 128   args: f32[256] f32[256]
__global__ void k(const float* x, float* y) {
    __shared__ float s[128];
    int t = threadIdx.x, b = blockIdx.x * 128;
    s[t] = x[b + t];
    //+ __syncthreads();
    y[b + t] = s[127 - t];  //!
}

// case: missing_barrier_before_reuse   kind: data race   grid: 1   block: 64   args: f32[256] f32[64]
__global__ void k(const float* x, float* y) {
    __shared__ float s[64];
    float sum = 0;
    for (int i = 0; i < 4; i++) {
        s[threadIdx.x] = x[64 * i + threadIdx.x];  //!
        __syncthreads();
        sum += s[63 - threadIdx.x];
        //+ __syncthreads();
    }
    y[threadIdx.x] = sum;
}

// case: tile_without_second_barrier   kind: data race   grid: 2 2   block: 16 16   args: f32[1024] f32[1024] f32[1024]
__global__ void k(const float* a, const float* b, float* c) {
    __shared__ float as[16][16], bs[16][16];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
    float sum = 0;
    for (int i = 0; i < 32; i += 16) {
        as[y][x] = a[row * 32 + i + x];
        bs[y][x] = b[(i + y) * 32 + col];
        __syncthreads();
        for (int k = 0; k < 16; k++) sum += as[y][k] * bs[k][x];  //!
        //+ __syncthreads();
    }
    c[row * 32 + col] = sum;
}

// case: reduction_without_barrier   kind: data race   grid: 2   block: 256   args: f32[512] f32[2]
__global__ void k(const float* x, float* y) {
    __shared__ float s[256];
    int t = threadIdx.x;
    s[t] = x[blockIdx.x * 256 + t];
    __syncthreads();
    for (int d = 128; d > 0; d /= 2) {
        if (t < d) s[t] += s[t + d];  //!
        //+ __syncthreads();
    }
    if (t == 0) y[blockIdx.x] = s[0];
}

// case: warp_reduction_in_shared   kind: data race   grid: 1   block: 32   args: f32[32] f32[1]
__global__ void k(const float* x, float* y) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    s[t + 32] = 0;
    __syncwarp();
    for (int d = 16; d > 0; d /= 2) {
        float v = s[t] + s[t + d];  //!
        //+ __syncwarp();
        s[t] = v;
        //+ __syncwarp();
    }
    if (t == 0) y[0] = s[0];
}

// case: neighbour_in_warp   kind: data race   grid: 1   block: 64   args: i32[64] i32[64]
__global__ void k(const int* x, int* y) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    //+ __syncwarp();
    y[t] = s[t ^ 1];  //!
}

// case: same_place_one_instruction   kind: data race   grid: 1   block: 64   args: i32[64] i32[1]
__global__ void k(const int* x, int* y) {
    __shared__ int s;
    if (threadIdx.x == 0) s = 0;
    __syncthreads();
    if (x[threadIdx.x] > 0) s = threadIdx.x;  //!  //-
    //+ if (x[threadIdx.x] > 0) atomicMax(&s, threadIdx.x);
    __syncthreads();
    if (threadIdx.x == 0) y[0] = s;
}

// case: plain_counter   kind: data race   grid: 1   block: 128   args: i32[128] i32[16]
__global__ void k(const int* x, int* y) {
    __shared__ int bins[16];
    if (threadIdx.x < 16) bins[threadIdx.x] = 0;
    __syncthreads();
    bins[x[threadIdx.x] & 15] += 1;  //!  //-
    //+ atomicAdd(&bins[x[threadIdx.x] & 15], 1);
    __syncthreads();
    if (threadIdx.x < 16) y[threadIdx.x] = bins[threadIdx.x];
}

// case: flag_reset_too_early   kind: data race   grid: 1   block: 64   args: i32[64] i32[64]
__global__ void k(const int* x, int* y) {
    __shared__ int any;
    for (int i = 0; i < 2; i++) {
        if (threadIdx.x == 0) any = i;  //!
        __syncthreads();
        y[threadIdx.x] += any;
        //+ __syncthreads();
    }
}

// case: plain_read_beside_atomics   kind: data race   grid: 1   block: 64   args: i32[64] i32[64]
__global__ void k(const int* x, int* y) {
    __shared__ int total;
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    atomicAdd(&total, x[threadIdx.x]);
    //+ __syncthreads();
    y[threadIdx.x] = total;  //!
}

// case: barrier_of_half_the_block   kind: data race   grid: 1   block: 128   args: f32[128] f32[128]
__global__ void k(const float* x, float* y) {
    __shared__ float s[128];
    int t = threadIdx.x;
    s[t] = x[t];
    if (t < 64) asm volatile("bar.sync 1, 64;" ::: "memory");  //-
    else asm volatile("bar.sync 2, 64;" ::: "memory");  //-
    //+ asm volatile("bar.sync 1, 128;" ::: "memory");
    y[t] = s[127 - t];  //!
}

// case: producer_does_not_arrive   kind: data race   grid: 1   block: 96   args: f32[32] f32[64]
__global__ void k(const float* x, float* y) {
    __shared__ float s[32];
    int t = threadIdx.x;
    if (t < 32) {
        asm volatile("bar.arrive 1, 96;" ::: "memory");  //-
        s[t] = x[t];  //!
        //+ asm volatile("bar.arrive 1, 96;" ::: "memory");
    } else {
        asm volatile("bar.sync 1, 96;" ::: "memory");
        y[t - 32] = s[t & 31];
    }
}

// case: bytes_of_one_word   kind: data race   grid: 1   block: 64   args: u8[64] u8[64]
__global__ void k(const unsigned char* x, unsigned char* y) {
    __shared__ unsigned char s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    //+ __syncthreads();
    y[t] = s[63 - t];  //!
}

// case: scan_in_place   kind: data race   grid: 1   block: 64   args: i32[64] i32[64]
__global__ void k(const int* x, int* y) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    for (int d = 1; d < 64; d *= 2) {
        int v = t >= d ? s[t - d] : 0;
        //+ __syncthreads();
        s[t] += v;  //!
        __syncthreads();
    }
    y[t] = s[t];
}

// case: dynamic_shared   kind: data race   grid: 1   block: 64   shared: 512   args: f32[128] f32[64]
__global__ void k(const float* x, float* y) {
    extern __shared__ float s[];
    float* a = s;
    float* b = s + 63;  //-
    //+ float* b = s + 64;
    a[threadIdx.x] = x[threadIdx.x];
    b[threadIdx.x] = x[64 + threadIdx.x];  //!
    __syncthreads();
    y[threadIdx.x] = a[threadIdx.x] + b[threadIdx.x];
}

// case: vector_store   kind: data race   grid: 1   block: 64   args: f32[256] f32[64]
__global__ void k(const float4* x, float* y) {
    __shared__ float4 s[64];
    s[threadIdx.x] = x[threadIdx.x];
    //+ __syncthreads();
    y[threadIdx.x] = reinterpret_cast<float*>(s)[threadIdx.x * 3];  //!
}

// case: block_sum_result   kind: data race   grid: 2   block: 128   args: f32[256] f32[256]
__global__ void k(const float* x, float* y) {
    __shared__ float part[4];
    int t = threadIdx.x;
    float v = x[blockIdx.x * 128 + t];
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffffu, v, d);
    if (t % 32 == 0) part[t / 32] = v;
    //+ __syncthreads();
    y[blockIdx.x * 128 + t] = part[0] + part[1] + part[2] + part[3];  //!
}

// case: fence_is_no_barrier   kind: data race   grid: 1   block: 64   args: f32[64] f32[64]
__global__ void k(const float* x, float* y) {
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    __threadfence_block();  //-
    //+ __syncthreads();
    y[threadIdx.x] = s[63 - threadIdx.x];  //!
}

// case: lock_without_fence   kind: data race   grid: 1   block: 64   args: i32[1]=0 i32[64]
__global__ void k(int* lock, int* y) {
    __shared__ int total;
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    if (threadIdx.x % 32 == 0) {
        while (atomicCAS(lock, 0, 1) != 0) {}
        //+ __threadfence();
        total = total + (int)threadIdx.x + 1;  //!
        //+ __threadfence();
        atomicExch(lock, 0);
    }
    __syncthreads();
    y[threadIdx.x] = total;
}

// case: unwritten_half   kind: uninitialised   grid: 1   block: 64   args: f32[64] f32[64]
__global__ void k(const float* x, float* y) {
    __shared__ float s[64];
    int t = threadIdx.x;
    if (t < 32) s[t] = x[t];  //-
    //+ s[t] = x[t];
    __syncthreads();
    y[t] = s[t];  //!
}

// case: halo_not_filled   kind: uninitialised   grid: 2   block: 64   args: f32[128] f32[128]
__global__ void k(const float* x, float* y) {
    __shared__ float s[66];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    s[t + 1] = x[i];
    //+ if (t == 0) s[0] = i > 0 ? x[i - 1] : 0;
    //+ if (t == 63) s[65] = i < 127 ? x[i + 1] : 0;
    __syncthreads();
    y[i] = s[t] + s[t + 1] + s[t + 2];  //!
}

// case: accumulator_not_zeroed   kind: uninitialised   grid: 2   block: 32   args: f32[64] f32[2]
__global__ void k(const float* x, float* y) {
    __shared__ float sum;
    //+ if (threadIdx.x == 0) sum = 0;
    //+ __syncwarp();
    if (threadIdx.x == 0)
        for (int i = 0; i < 32; i++) sum += x[blockIdx.x * 32 + i];  //!
    __syncwarp();
    if (threadIdx.x == 1) y[blockIdx.x] = sum;
}

// case: unwritten_dynamic   kind: uninitialised   grid: 1   block: 32   shared: 256   args: f32[32] f32[32]
__global__ void k(const float* x, float* y) {
    extern __shared__ float s[];
    s[threadIdx.x] = x[threadIdx.x];
    //+ s[threadIdx.x + 32] = 1;
    __syncthreads();
    y[threadIdx.x] = s[threadIdx.x] * s[threadIdx.x + 32];  //!
}

// case: past_the_end   kind: out of bounds   grid: 1   block: 64   args: f32[64] f32[64]
__global__ void k(const float* x, float* y) {
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = s[threadIdx.x + blockDim.x / 32];  //!  //-
    //+ y[threadIdx.x] = s[threadIdx.x];
}

// case: misaligned_vector   kind: misaligned   grid: 1   block: 16   args: f32[64] f32[64]
__global__ void k(const float* x, float4* y) {
    __shared__ __align__(16) float s[68];
    for (int i = threadIdx.x; i < 68; i += 16) s[i] = x[i & 63];
    __syncthreads();
    const float* p = s + 1;  //-
    //+ const float* p = s + 4;
    y[threadIdx.x] = reinterpret_cast<const float4*>(p)[threadIdx.x];  //!
}
