// Races, unwritten reads and wrong addresses in global memory.

// case: blocks_write_one_place   kind: data race   grid: 4   block: 32   args: f32[128] f32[1]
__global__ void k(const float* x, float* y) {
    float v = x[blockIdx.x * 32 + threadIdx.x];
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffffu, v, d);
    if (threadIdx.x == 0) y[0] += v;  //!  //-
    //+ if (threadIdx.x == 0) atomicAdd(y, v);
}

// case: block_reads_neighbour   kind: data race   grid: 4   block: 64   args: f32[256] f32[256]
__global__ void k(float* x, float* y) {
    int i = blockIdx.x * 64 + threadIdx.x;
    x[i] = 2 * x[i];  //!  //-
    //+ y[i] = 2 * x[i];
    if (i + 64 < 256) y[i] = x[i + 64];  //-
}

// case: stencil_in_place   kind: data race   grid: 4   block: 64   args: f32[256] f32[256]
__global__ void k(float* x, float* y) {
    int i = blockIdx.x * 64 + threadIdx.x;
    float a = i > 0 ? x[i - 1] : 0, b = i < 255 ? x[i + 1] : 0;
    x[i] = 0.5f * (a + b);  //!  //-
    //+ y[i] = 0.5f * (a + b);
}

// case: histogram_without_atomics   kind: data race   grid: 4   block: 64   args: i32[256] i32[16]
__global__ void k(const int* x, int* bins) {
    int b = x[blockIdx.x * 64 + threadIdx.x] & 15;
    bins[b] = bins[b] + 1;  //!  //-
    //+ atomicAdd(&bins[b], 1);
}

// case: scratch_without_barrier   kind: data race   grid: 2   block: 128   args: f32[256] f32[256]
__global__ void k(float* scratch, float* y) {
    int b = blockIdx.x * 128, t = threadIdx.x;
    scratch[b + t] = t + b;
    //+ __syncthreads();
    y[b + t] = scratch[b + 127 - t];  //!
}

// case: scratch_in_a_warp   kind: data race   grid: 1   block: 32   args: f32[32] f32[32]
__global__ void k(float* scratch, float* y) {
    scratch[threadIdx.x] = threadIdx.x;
    //+ __syncwarp();
    y[threadIdx.x] = scratch[31 - threadIdx.x];  //!
}

// case: last_block_without_fence   kind: data race   grid: 4   block: 64   args: f32[256] f32[4]=0 i32[1]=0 f32[1]
__global__ void k(const float* x, float* part, int* count, float* y) {
    __shared__ bool last;
    float v = x[blockIdx.x * 64 + threadIdx.x];
    if (threadIdx.x == 0) {
        part[blockIdx.x] = v;  //!
        //+ __threadfence();
        last = atomicAdd(count, 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        float sum = 0;
        for (int i = 0; i < gridDim.x; i++) sum += part[i];
        y[0] = sum;
    }
}

// case: fence_for_the_block_only   kind: data race   grid: 4   block: 32   args: f32[4]=0 i32[1]=0 f32[1]
__global__ void k(float* part, int* count, float* y) {
    if (threadIdx.x == 0) {
        part[blockIdx.x] = blockIdx.x + 1;  //!
        __threadfence_block();  //-
        //+ __threadfence();
        if (atomicAdd(count, 1) == 3) {
            float sum = 0;
            for (int i = 0; i < 4; i++) sum += part[i];
            y[0] = sum;
        }
    }
}

// case: fence_of_one_thread_without_barrier   kind: data race   grid: 4   block: 64   args: f32[256]=0 i32[1]=0 f32[1]
__global__ void k(float* part, int* count, float* y) {
    part[blockIdx.x * 64 + threadIdx.x] = threadIdx.x + 1;  //!
    //+ __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        if (atomicAdd(count, 1) == 3) {
            float sum = 0;
            for (int i = 0; i < 256; i++) sum += part[i];
            y[0] = sum;
        }
    }
}

// case: global_lock_without_fence   kind: data race   grid: 4   block: 32   args: i32[1]=0 i32[1]=0
__global__ void k(int* lock, int* total) {
    if (threadIdx.x == 0) {
        while (atomicCAS(lock, 0, 1) != 0) {}
        //+ __threadfence();
        *total = *total + (int)blockIdx.x + 1;  //!
        //+ __threadfence();
        atomicExch(lock, 0);
    }
}

// case: hand_over_without_fence   kind: data race   grid: 2   block: 32   args: f32[32]=0 i32[1]=0 f32[32]
__global__ void k(volatile float* unused, int* flag, float* y) {
    float* data = (float*)unused;
    if (blockIdx.x == 0) {
        data[threadIdx.x] = threadIdx.x + 1;  //!
        __syncwarp();
        if (threadIdx.x == 0) {
            //+ __threadfence();
            atomicExch(flag, 1);
        }
    } else {
        if (threadIdx.x == 0) while (atomicAdd(flag, 0) == 0) {}
        __syncwarp();
        y[threadIdx.x] = data[threadIdx.x];
    }
}

// case: wrong_stride   kind: data race   grid: 4   block: 32   args: f32[128] f32[256]
__global__ void k(const float* x, float* y) {
    int i = blockIdx.x * 31 + threadIdx.x;  //-
    //+ int i = blockIdx.x * 32 + threadIdx.x;
    y[i] = x[blockIdx.x * 32 + threadIdx.x];  //!
}

// case: transposed_output   kind: data race   grid: 2 2   block: 8 8   args: f32[256] f32[256]
__global__ void k(const float* x, float* y) {
    int c = blockIdx.x * 8 + threadIdx.x, r = blockIdx.y * 8 + threadIdx.y;
    y[c * 15 + r] = x[r * 16 + c];  //!  //-
    //+ y[c * 16 + r] = x[r * 16 + c];
}

// case: half_words   kind: data race   grid: 2   block: 64   args: u16[128] u16[128]
__global__ void k(const unsigned short* x, unsigned short* y) {
    int i = blockIdx.x * 64 + threadIdx.x;
    y[i / 2] = x[i];  //!  //-
    //+ y[i] = x[i];
}

// case: atomic_and_plain   kind: data race   grid: 2   block: 32   args: i32[64] i32[1]=0 i32[64]
__global__ void k(const int* x, int* total, int* y) {
    int i = blockIdx.x * 32 + threadIdx.x;
    int before = atomicAdd(total, 1 + (x[i] & 1));
    y[i] = *total;  //!  //-
    //+ y[i] = before;
}

// case: grid_loop_overlap   kind: data race   grid: 2   block: 32   args: f32[128]
__global__ void k(float* y) {
    for (int i = blockIdx.x * 32 + threadIdx.x; i < 128; i += 32)  //-
    //+ for (int i = blockIdx.x * 32 + threadIdx.x; i < 128; i += 64)
        y[i] = i + blockIdx.x;  //!
}

// case: device_variable   kind: data race   grid: 4   block: 32   args: i32[128]
__device__ int counter;
__global__ void k(int* y) {
    if (threadIdx.x == 0) counter = counter + 1 + blockIdx.x;  //!  //-
    //+ if (threadIdx.x == 0) atomicAdd(&counter, 1);
    y[blockIdx.x * 32 + threadIdx.x] = 1;
}

// case: in_a_called_function   kind: data race   grid: 2   block: 64   args: f32[128] f32[4]=0
__device__ __forceinline__ void add(float* p, float v) {
    *p += v;  //!  //-
    //+ atomicAdd(p, v);
}
__global__ void k(const float* x, float* y) {
    add(y + threadIdx.x % 4, x[blockIdx.x * 64 + threadIdx.x]);
}

// case: not_inlined_function   kind: data race   grid: 2   block: 64   args: f32[128] f32[4]=0
__device__ __noinline__ void add(float* p, float v) {
    *p += v;  //!  //-
    //+ atomicAdd(p, v);
}
__global__ void k(const float* x, float* y) {
    add(y + threadIdx.x % 4, x[blockIdx.x * 64 + threadIdx.x]);
}

// case: past_the_end   kind: out of bounds   grid: 2   block: 64   args: f32[100] f32[100]
__global__ void k(const float* x, float* y) {
    int i = blockIdx.x * 64 + threadIdx.x;
    //+ if (i < 100)
    y[i] = 2 * x[i];  //!
}

// case: before_the_start   kind: out of bounds   grid: 1   block: 64   args: f32[64] f32[64]
__global__ void k(const float* x, float* y) {
    int i = threadIdx.x;
    y[i] = i > 0 ? x[i - 1] : x[i];
    y[i] = x[i - 1];  //!  //-
}

// case: null_pointer   kind: out of bounds   grid: 1   block: 32   args: null f32[32]
__global__ void k(const float* x, float* y) {
    y[threadIdx.x] = 0;
    //+ if (x)
    y[threadIdx.x] = x[threadIdx.x];  //!
}

// case: misaligned_float4   kind: misaligned   grid: 1   block: 8   args: f32[64] f32[64]
__global__ void k(const float* x, float4* y) {
    const float4* p = reinterpret_cast<const float4*>(x + 1);  //-
    //+ const float4* p = reinterpret_cast<const float4*>(x);
    y[threadIdx.x] = p[threadIdx.x];  //!
}

// case: misaligned_double   kind: misaligned   grid: 1   block: 8   args: u8[128] f64[8]
__global__ void k(const char* x, double* y) {
    y[threadIdx.x] = *reinterpret_cast<const double*>(x + 8 * threadIdx.x + 4);  //!  //-
    //+ y[threadIdx.x] = *reinterpret_cast<const double*>(x + 8 * threadIdx.x);
}

// case: fresh_output_read   kind: uninitialised   grid: 2   block: 32   args: f32[64] f32[64]=fresh
__global__ void k(const float* x, float* y) {
    int i = blockIdx.x * 32 + threadIdx.x;
    y[i] += x[i];  //!  //-
    //+ y[i] = x[i];
}

// case: fresh_tail   kind: uninitialised   grid: 2   block: 32   args: f32[64]=fresh f32[64]
__global__ void k(float* t, float* y) {
    int i = blockIdx.x * 32 + threadIdx.x;
    if (i < 60) t[i] = i;  //-
    //+ t[i] = i;
    y[i] = t[i];  //!
}

// case: fresh_doubles   kind: uninitialised   grid: 1   block: 32   args: f64[32]=fresh f64[32]
__global__ void k(double* t, double* y) {
    //+ t[threadIdx.x] = 1;
    y[threadIdx.x] = t[threadIdx.x] * 2;  //!
}

// case: ldg_of_what_the_thread_wrote   kind: stale read   grid: 2   block: 64   args: f32[128] f32[128]
__global__ void k(float* x, float* y) {
    int i = 64 * blockIdx.x + threadIdx.x;
    x[i] = 2 * __ldg(&y[i]);
    asm volatile("" : "+l"(x));  // otherwise the compiler uses what it has stored
    y[i] = __ldg(&x[i]);  //!  //-
    //+ y[i] = x[i];
}

// case: ldg_of_what_another_warp_wrote   kind: stale read   grid: 1   block: 64   args: f32[64] f32[64]
__global__ void k(float* x, float* y) {
    int t = threadIdx.x;
    float before = __ldg(&x[t]);
    __syncthreads();
    x[t] = before + t;
    __syncthreads();
    y[t] = __ldg(&x[63 - t]);  //!  //-
    //+ y[t] = x[63 - t];
}

// case: ldg_of_one_element_that_was_written   kind: stale read   grid: 1   block: 64   args: f32[64] f32[64]
__global__ void k(float* x, float* y) {
    int t = threadIdx.x;
    if (t == 5) x[3] = 1;
    __syncthreads();
    y[t] = __ldg(&x[3]);  //!  //-
    //+ y[t] = __ldg(&x[4]);
}
