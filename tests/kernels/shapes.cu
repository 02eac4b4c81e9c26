// Launch shapes, arguments and addresses: what a thread is told, and where it may reach.

// Each thread counts itself at its place in the grid, from the special registers.
__global__ void places(int* seen, int* lanes, int* warps) {
    int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    int at = block * (blockDim.x * blockDim.y * blockDim.z) + thread;
    atomicAdd(&seen[at], 1);
    unsigned lane, warp;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    asm volatile("mov.u32 %0, %%warpid;" : "=r"(warp));
    lanes[at] = lane, warps[at] = warp;
}

// Every thread reads what its neighbour wrote before the barrier, and the active lanes vote.
__global__ void neighbours(int* out, unsigned* active) {
    __shared__ int cells[1024];
    int n = blockDim.x * blockDim.y * blockDim.z;
    int t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    cells[t] = t * t;
    __syncthreads();
    out[t] = cells[(t + 1) % n];
    active[t] = __activemask();
}

struct __align__(16) Inner {
    float4 v;
};
struct Options {
    char tag;
    double scale;
    short offsets[3];
    Inner inner;
    const float* table;
};

// The array that o.table points to is given as an argument of its own too.
__global__ void by_value(Options o, const float* table, double* out, unsigned char flag, short s,
                         long long big) {
    int i = threadIdx.x;
    out[i] = o.scale * o.offsets[i % 3] + o.inner.v.y + o.table[i] + o.tag + flag + s + big;
}

__global__ void gather(const long long* index, const float* from, float* to, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) to[i] = from[index[i]];
}

// Threads far apart in a large array of bytes.
__global__ void stride(unsigned char* far, size_t step, size_t n) {
    size_t i = (size_t)(blockIdx.x * blockDim.x + threadIdx.x) * step;
    if (i < n) far[i] = far[i] + threadIdx.x + 1;
}

template <typename T, int N>
__global__ void powers(const T* x, T* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    T p = T(1);
#pragma unroll
    for (int k = 0; k < N; k++) p *= x[i];
    y[i] = p;
}

// Data-dependent loops: lanes leave at different times, with break, continue and a switch.
__global__ void collatz(const unsigned* start, int* steps, int* kinds, int n, int limit) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned long long v = start[i];
    int count = 0, kind = 0;
    while (true) {
        if (v <= 1) break;
        if (count == limit) {
            count = -1;
            break;
        }
        count++;
        switch (v % 4) {
            case 0: kind += 1; v /= 2; continue;
            case 1: kind += 10; break;
            case 2: kind += 100; v /= 2; continue;
            default: kind += 1000;
        }
        v = 3 * v + 1;
    }
    steps[i] = count, kinds[i] = kind;
}
