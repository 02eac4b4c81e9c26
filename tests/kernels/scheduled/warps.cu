// Mistakes between threads of one block that some orders of warps and lanes hide: each kernel is
// right where `right`, a constant that comes before this file, is true, and has one mistake
// otherwise. Blocks have 128 threads; see tests/support/scheduled.py.

// A stage that is filled again before the first warp has consumed it.
__global__ void reused(const int* x, int* y, int* flags) {
    __shared__ int stage[128];
    int t = threadIdx.x, sum = 0;
    for (int i = 0; i < 4; i++) {
        stage[t] = x[128 * i + t];
        __syncthreads();
        if (t < 32) sum += stage[t] + stage[t + 32] + stage[t + 64] + stage[t + 96];
        if (right) __syncthreads();
    }
    y[t] = sum;
}

// The last warp reads what the others have written, without a barrier.
__global__ void joined(const int* x, int* y, int* flags) {
    __shared__ int s[128];
    int t = threadIdx.x;
    s[t] = x[t];
    if (right) __syncthreads();
    if (t >= 96) y[t] = s[t - 96] + s[t - 64] + s[t - 32];
}

// A named barrier for two warps, where three take part in the exchange.
__global__ void named(const int* x, int* y, int* flags) {
    __shared__ int s[128];
    int t = threadIdx.x;
    s[t] = x[t];
    if (right) {
        if (t >= 32) asm volatile("bar.sync 1, 96;" ::: "memory");
    } else {
        if (t >= 64) asm volatile("bar.sync 1, 64;" ::: "memory");
    }
    if (t >= 96) y[t] = s[t - 64] + s[t - 32];
}

// Lanes of one warp that exchange values through shared memory.
__global__ void exchanged(const int* x, int* y, int* flags) {
    __shared__ int s[128];
    int t = threadIdx.x;
    s[t] = x[t];
    if (right) __syncwarp();
    y[t] = s[t ^ 31];
}

// The first lane of a warp writes, the others read.
__global__ void broadcast(const int* x, int* y, int* flags) {
    __shared__ int s[4];
    int t = threadIdx.x;
    if (t % 32 == 0) s[t / 32] = x[t];
    if (right) __syncwarp();
    y[t] = s[t / 32];
}

// A value that is read again by its own warp before all lanes have read the one before.
__global__ void rounds(const int* x, int* y, int* flags) {
    __shared__ int s[128];
    int t = threadIdx.x, v = x[t];
    for (int d = 1; d < 32; d *= 2) {
        s[t] = v;
        __syncwarp();
        v += s[t ^ d];
        if (right) __syncwarp();
    }
    y[t] = v;
}
