// Kernels whose threads take different paths and talk to each other: what schedules cost most for.
// Blocks have 256 threads.

constexpr int THREADS = 256;

// A tree in shared memory, with a barrier at every step.
extern "C" __global__ void tree(const float* x, float* y, int n) {
    __shared__ float s[THREADS];
    int t = threadIdx.x, i = blockIdx.x * THREADS + t;
    s[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (t < half) s[t] += s[t + half];
        __syncthreads();
    }
    if (t == 0) y[blockIdx.x] = s[0];
}

// The same tree, whose last steps one warp makes by itself.
extern "C" __global__ void warp_tree(const float* x, float* y, int n) {
    __shared__ float s[THREADS];
    int t = threadIdx.x, i = blockIdx.x * THREADS + t;
    s[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int half = THREADS / 2; half >= 32; half /= 2) {
        if (t < half) s[t] += s[t + half];
        __syncthreads();
    }
    if (t < 32) {
        for (int half = 16; half > 0; half /= 2) {
            float other = s[t + half];
            __syncwarp();
            s[t] += other;
            __syncwarp();
        }
        if (t == 0) y[blockIdx.x] = s[0];
    }
}

// Running sums of a block, by the steps of Hillis and Steele.
extern "C" __global__ void scan(const float* x, float* y, int n) {
    __shared__ float s[THREADS];
    int t = threadIdx.x, i = blockIdx.x * THREADS + t;
    s[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int d = 1; d < THREADS; d *= 2) {
        float other = 0.0f;
        if (t >= d) other = s[t - d];
        __syncthreads();
        if (t >= d) s[t] += other;
        __syncthreads();
    }
    if (i < n) y[i] = s[t];
}

// A bitonic sort of a block's elements.
extern "C" __global__ void bitonic(const float* x, float* y, int n) {
    __shared__ float s[THREADS];
    int t = threadIdx.x, i = blockIdx.x * THREADS + t;
    s[t] = x[i];
    __syncthreads();
    for (int k = 2; k <= THREADS; k *= 2) {
        for (int j = k / 2; j > 0; j /= 2) {
            int p = t ^ j;
            if (p > t) {
                float a = s[t], b = s[p];
                if ((a > b) == ((t & k) == 0)) {
                    s[t] = b;
                    s[p] = a;
                }
            }
            __syncthreads();
        }
    }
    y[i] = s[t];
}

// Counts in shared memory, added to those of all blocks.
extern "C" __global__ void histogram(const float* x, float* y, int n) {
    __shared__ int counts[64];
    int* all = (int*)y;
    if (threadIdx.x < 64) counts[threadIdx.x] = 0;
    __syncthreads();
    int step = gridDim.x * THREADS;
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < n; i += step)
        atomicAdd(&counts[(int)(x[i] * 64.0f) & 63], 1);
    __syncthreads();
    if (threadIdx.x < 64) atomicAdd(&all[threadIdx.x], counts[threadIdx.x]);
}

// The largest elements of 64 classes, by a loop around a compare and swap.
extern "C" __global__ void largest(const float* x, float* y, int n) {
    int* all = (int*)y;
    int step = gridDim.x * THREADS;
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < n; i += step) {
        int* at = all + (i & 63);
        int seen = *at;
        while (__int_as_float(seen) < x[i]) {
            int before = atomicCAS(at, seen, __float_as_int(x[i]));
            if (before == seen) break;
            seen = before;
        }
    }
}

// The elements above a half, in no order: a warp reserves its places with one atomic.
extern "C" __global__ void compact(const float* x, float* y, int n) {
    unsigned* count = (unsigned*)y;
    int step = gridDim.x * THREADS, lane = threadIdx.x % 32;
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < n; i += step) {
        bool taken = x[i] > 0.5f;
        unsigned lanes = __ballot_sync(~0u, taken);
        unsigned at = 0;
        if (lane == 0) at = atomicAdd(count, __popc(lanes));
        at = __shfl_sync(~0u, at, 0);
        if (taken) y[1 + at + __popc(lanes & ((1u << lane) - 1))] = x[i];
    }
}

// A sum under a lock that one thread of each warp takes.
extern "C" __global__ void locked(const float* x, float* y, int n) {
    int* lock = (int*)y;
    volatile float* sum = y + 1;
    int step = gridDim.x * THREADS;
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < n; i += step) {
        float v = x[i];
        for (int d = 16; d; d /= 2) v += __shfl_down_sync(~0u, v, d);
        if (threadIdx.x % 32 == 0) {
            while (atomicCAS(lock, 0, 1) != 0) {}
            __threadfence();
            *sum = *sum + v;
            __threadfence();
            atomicExch(lock, 0);
        }
        __syncwarp();
    }
}

// A lock for each of 64 sums, which every lane takes by itself.
extern "C" __global__ void lane_locks(const float* x, float* y, int n) {
    int* locks = (int*)y;
    int i = blockIdx.x * THREADS + threadIdx.x;
    int c = i & 63;
    volatile float* sum = y + 64 + c;
    bool done = i >= n;
    while (!done) {
        if (atomicCAS(&locks[c], 0, 1) == 0) {
            __threadfence();
            *sum = *sum + x[i];
            __threadfence();
            atomicExch(&locks[c], 0);
            done = true;
        }
    }
}

// A sum of all blocks, made by the one that comes last.
extern "C" __global__ void last_block(const float* x, float* y, int n) {
    __shared__ float s[THREADS];
    __shared__ bool last;
    unsigned* count = (unsigned*)y;
    volatile float* parts = y + 2;
    int t = threadIdx.x, step = gridDim.x * THREADS;
    float v = 0.0f;
    for (int i = blockIdx.x * THREADS + t; i < n; i += step) v += x[i];
    s[t] = v;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (t < half) s[t] += s[t + half];
        __syncthreads();
    }
    if (t == 0) {
        parts[blockIdx.x] = s[0];
        __threadfence();
        last = atomicAdd(count, 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && t == 0) {
        float sum = 0.0f;
        for (int b = 0; b < (int)gridDim.x; b++) sum += parts[b];
        y[1] = sum;
    }
}
