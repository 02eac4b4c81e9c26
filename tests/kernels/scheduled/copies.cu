// Mistakes with asynchronous copies that some moments of their completion hide: each kernel is
// right where `right`, a constant that comes before this file, is true, and has one mistake
// otherwise. Blocks have 128 threads; see tests/support/scheduled.py.

__device__ unsigned near_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

__device__ void copy_async(void* to, const void* from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(near_address(to)), "l"(from)
                 : "memory");
}

// A wait that leaves the last group of copies pending.
__global__ void waited(const int* x, int* y, int* flags) {
    __shared__ int s[2][128];
    int t = threadIdx.x;
    for (int i = 0; i < 2; i++) {
        copy_async(&s[i][t], x + 128 * i + t);
        asm volatile("cp.async.commit_group;");
    }
    if (right) asm volatile("cp.async.wait_group 0;" ::: "memory");
    else asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    y[t] = s[0][t] + s[1][t];
}

// A source that is written again before the copy has read it.
__global__ void rewritten(const int* x, int* y, int* flags) {
    __shared__ int s[128];
    int t = threadIdx.x;
    flags[t] = x[t];
    copy_async(&s[t], flags + t);
    if (right) asm volatile("cp.async.wait_all;" ::: "memory");
    flags[t] = 0;
    asm volatile("cp.async.wait_all;" ::: "memory");
    y[t] = s[t];
}

// As before, with a group that is not the last one.
__global__ void advanced(const int* x, int* y, int* flags) {
    __shared__ int s[4][128];
    int t = threadIdx.x, sum = 0;
    for (int i = 0; i < 4; i++) {
        flags[t] = x[128 * i + t];
        copy_async(&s[i][t], flags + t);
        asm volatile("cp.async.commit_group;");
        if (right) asm volatile("cp.async.wait_group 0;" ::: "memory");
        else asm volatile("cp.async.wait_group 1;" ::: "memory");
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
    for (int i = 0; i < 4; i++) sum += s[i][t];
    y[t] = sum;
}

__device__ void arrive_and_copy(const void* barrier, void* to, const void* from, int nbytes) {
    unsigned b = near_address(barrier);
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(b),
                 "r"(nbytes)
                 : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1], %2, [%3];" ::"r"(near_address(to)),
                 "l"(from), "r"(nbytes), "r"(b)
                 : "memory");
}

__device__ void wait(const void* barrier, int parity) {
    int over = 0;
    while (!over)
        asm volatile("{ .reg .pred p;"
                     " mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2;"
                     " selp.b32 %0, 1, 0, p; }"
                     : "=r"(over)
                     : "r"(near_address(barrier)), "r"(parity)
                     : "memory");
}

// Clears 128 integers, and starts a copy to them that reports to a new barrier.
__device__ void start_copy(long long* full, int* s, const int* from) {
    s[threadIdx.x] = 0;
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(near_address(full)));
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) arrive_and_copy(full, s, from, 512);
}

// Threads that do not wait for the copy: a barrier of the block says nothing about it.
__global__ void landed(const int* x, int* y, int* flags) {
    __shared__ alignas(16) int s[128];
    __shared__ alignas(8) long long full;
    start_copy(&full, s, x);
    if (right) wait(&full, 0);
    else __syncthreads();
    y[threadIdx.x] = s[threadIdx.x];
}

// A wait for the phase before the first one, which is over at once.
__global__ void parity(const int* x, int* y, int* flags) {
    __shared__ alignas(16) int s[128];
    __shared__ alignas(8) long long full;
    start_copy(&full, s, x);
    wait(&full, right ? 0 : 1);
    y[threadIdx.x] = s[threadIdx.x];
}

// The source of a bulk copy is written again before the copy has read it.
__global__ void bulk_rewritten(const int* x, int* y, int* flags) {
    __shared__ alignas(16) int s[128];
    __shared__ alignas(8) long long full;
    int t = threadIdx.x;
    flags[t] = x[t];
    start_copy(&full, s, flags);
    if (right) wait(&full, 0);
    __syncthreads();
    flags[t] = 0;
    wait(&full, 0);
    y[t] = s[t];
}

// Sends 128 integers to global memory.
__device__ void send(int* y, const int* s) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 512;" ::"l"(y),
                 "r"(near_address(s))
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;");
}

// A bulk store whose source is written again before the store has read it.
__global__ void sent(const int* x, int* y, int* flags) {
    __shared__ alignas(16) int s[128];
    int t = threadIdx.x;
    s[t] = 2 * x[t];
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    if (t == 0) {
        send(y, s);
        if (right) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
    __syncthreads();
    s[t] = 0;
}

// Two stages of stores: a stage is filled again when the store before it has been read, not its own.
__global__ void staged(const int* x, int* y, int* flags) {
    __shared__ alignas(16) int s[2][128];
    int t = threadIdx.x;
    for (int i = 0; i < 4; i++) {
        s[i % 2][t] = x[128 * i + t];
        asm volatile("fence.proxy.async;" ::: "memory");
        __syncthreads();
        if (t == 0) {
            send(flags + 128 * i, s[i % 2]);
            if (right) asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
            else asm volatile("cp.async.bulk.wait_group.read 2;" ::: "memory");
        }
        __syncthreads();
    }
}

struct alignas(64) TensorMap {
    unsigned long long opaque[16];
};

// The source of a tensor copy, 128 integers of `flags`, is written again before it has been read.
__global__ void tensor_rewritten(const int* x, int* y, int* flags,
                                 const __grid_constant__ TensorMap source) {
    __shared__ alignas(128) int s[128];
    __shared__ alignas(8) long long full;
    int t = threadIdx.x;
    flags[t] = x[t];
    if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(near_address(&full)));
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    if (t == 0) {
        unsigned b = near_address(&full);
        asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], 512;" ::"r"(b)
                     : "memory");
        asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes"
                     " [%0], [%1, {%2}], [%3];" ::"r"(near_address(s)),
                     "l"(&source), "r"(0), "r"(b)
                     : "memory");
    }
    if (right) wait(&full, 0);
    __syncthreads();
    flags[t] = 0;
    wait(&full, 0);
    y[t] = s[t];
}

// A tensor store to 128 integers of `flags`, whose source is written again before it has been read.
__global__ void tensor_sent(const int* x, int* y, int* flags,
                            const __grid_constant__ TensorMap target) {
    __shared__ alignas(128) int s[128];
    int t = threadIdx.x;
    s[t] = 2 * x[t];
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    if (t == 0) {
        asm volatile("cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%0, {%1}], [%2];" ::"l"(
                         &target),
                     "r"(0), "r"(near_address(s))
                     : "memory");
        asm volatile("cp.async.bulk.commit_group;");
        if (right) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
    __syncthreads();
    s[t] = 0;
}
