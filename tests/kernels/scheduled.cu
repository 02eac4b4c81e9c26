// Mistakes in synchronisation that some orders of threads hide: each kernel is right where `right`,
// a constant that comes before this file, is true, and has one mistake otherwise. Blocks have 128
// threads; see test_schedules.py.

__device__ unsigned near_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

// A wait that leaves the last group of copies pending.
__global__ void waited(const int* x, int* y, int* flags) {
    __shared__ int s[2][128];
    int t = threadIdx.x;
    for (int i = 0; i < 2; i++) {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
                     :: "r"(near_address(&s[i][t])), "l"(x + 128 * i + t));
        asm volatile("cp.async.commit_group;");
    }
    if (right) asm volatile("cp.async.wait_group 0;" ::: "memory");
    else asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    y[t] = s[0][t] + s[1][t];
}

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

__device__ void arrive_and_copy(const void* barrier, void* to, const void* from, int nbytes) {
    unsigned b = near_address(barrier);
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;"
                 :: "r"(b), "r"(nbytes) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1], %2, [%3];"
                 :: "r"(near_address(to)), "l"(from), "r"(nbytes), "r"(b) : "memory");
}

__device__ void wait(const void* barrier, int parity) {
    int over = 0;
    while (!over)
        asm volatile("{ .reg .pred p;"
                     " mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2;"
                     " selp.b32 %0, 1, 0, p; }"
                     : "=r"(over) : "r"(near_address(barrier)), "r"(parity) : "memory");
}

// Threads that do not wait for the copy: a barrier of the block says nothing about it.
__global__ void landed(const int* x, int* y, int* flags) {
    __shared__ alignas(16) int s[128];
    __shared__ alignas(8) long long full;
    int t = threadIdx.x;
    s[t] = 0;
    if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(near_address(&full)));
    asm volatile("fence.proxy.async;");
    __syncthreads();
    if (t == 0) arrive_and_copy(&full, s, x, 512);
    if (right) wait(&full, 0);
    else __syncthreads();
    y[t] = s[t];
}

// A wait for the phase before the first one, which is over at once.
__global__ void parity(const int* x, int* y, int* flags) {
    __shared__ alignas(16) int s[128];
    __shared__ alignas(8) long long full;
    int t = threadIdx.x;
    s[t] = 0;
    if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(near_address(&full)));
    asm volatile("fence.proxy.async;");
    __syncthreads();
    if (t == 0) arrive_and_copy(&full, s, x, 512);
    wait(&full, right ? 0 : 1);
    y[t] = s[t];
}

// A bulk store whose source is written again before the store has read it.
__global__ void sent(const int* x, int* y, int* flags) {
    __shared__ alignas(16) int s[128];
    int t = threadIdx.x;
    s[t] = 2 * x[t];
    asm volatile("fence.proxy.async;");
    __syncthreads();
    if (t == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 512;"
                     :: "l"(y), "r"(near_address(s)) : "memory");
        asm volatile("cp.async.bulk.commit_group;");
        if (right) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
    __syncthreads();
    s[t] = 0;
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

// A lock that is tested and taken in two steps.
__global__ void locked(const int* x, int* y, int* flags) {
    volatile int* lock = flags;
    volatile int* count = flags + 1;
    if (threadIdx.x % 32 == 0) {
        if (right) {
            while (atomicCAS((int*)lock, 0, 1) != 0) {}
        } else {
            while (*lock != 0) {}
            *lock = 1;
        }
        __threadfence();
        *count = *count + 1;
        __threadfence();
        if (right) atomicExch((int*)lock, 0);
        else *lock = 0;
    }
}

// A counter that is not updated in one step.
__global__ void counted(const int* x, int* y, int* flags) {
    if (threadIdx.x % 32 == 0) {
        if (right) atomicAdd(flags + 1, 1);
        else flags[1] = flags[1] + 1;
    }
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

// A block that announces its data before it has written them.
__global__ void handed(const int* x, int* y, int* flags) {
    volatile int* flag = flags;
    volatile int* data = flags + 1;
    if (threadIdx.x != 0) return;
    if (blockIdx.x == 0) {
        if (right) { *data = x[0]; __threadfence(); *flag = 1; }
        else { *flag = 1; __threadfence(); *data = x[0]; }
    } else if (blockIdx.x == 1) {
        while (*flag == 0) {}
        __threadfence();
        y[0] = *data;
    }
}

// The last block adds what all blocks have written; a block counts itself before its warps are done.
__global__ void finished(const int* x, int* y, int* flags) {
    __shared__ int last;
    int t = threadIdx.x;
    flags[64 + 128 * blockIdx.x + t] = x[t] + blockIdx.x;
    __threadfence();
    if (right) __syncthreads();
    if (t == 0) last = atomicAdd(flags, 1) == (int)gridDim.x - 1;
    __syncthreads();
    if (last) {
        int sum = 0;
        for (int b = 0; b < (int)gridDim.x; b++) sum += ((volatile int*)flags)[64 + 128 * b + t];
        y[t] = sum;
    }
}
