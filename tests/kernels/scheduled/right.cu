// Kernels that are right under every schedule, and two that never end. Blocks have 128 threads, but
// for `counts`; see tests/simulator/test_schedules.py.

// A thread sees its own stores, whoever else does: of every width, and parts of them.
__global__ void own(const int* x, int* y, int* flags) {
    int t = threadIdx.x;
    int* place = flags + 4 * (t % 64);
    unsigned long long sum = 0;
    if (t < 64) {
        *(int4*)place = make_int4(x[t], 2, 3, 4);
        atomicAdd(flags + 512, 1);
        sum = ((volatile int*)place)[3] + ((volatile unsigned char*)place)[0];
        *(longlong2*)place = make_longlong2(x[t], 7);
        atomicAdd(flags + 512, 1);
        sum += ((volatile long long*)place)[0] + ((volatile short*)place)[4];
        ((char*)place)[5] = 1;
        ((short*)place)[3] = 2;
        atomicAdd(flags + 512, 1);
        sum += atomicExch(place + 1, 0);
    }
    y[t] = (int)sum;
}

// Copies of all sizes, of neighbours and of others, whole ones, parts and none.
__global__ void sizes(const int* x, int* y, int* flags) {
    __shared__ alignas(16) int s[6][512];
    int t = threadIdx.x;
    auto at = [&](int i, int k) { return (unsigned)__cvta_generic_to_shared(&s[i][k]); };
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 4; k++) s[i][4 * t + k] = -1;
    __syncthreads();
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at(0, t)), "l"(x + t));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(at(1, 2 * t)), "l"(x + 2 * t));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at(2, 4 * t)), "l"(x + 4 * t));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at(3, t)), "l"(x + (t ^ 5)));
    int some = t % 3 == 0 ? 8 : t % 3 == 1 ? 3 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(at(4, 2 * t)),
                 "l"(x + 2 * t), "r"(some));
    if (t % 2) {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(at(5, 2 * t)),
                     "l"(x + 2 * (127 - t)));
    }
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    unsigned sum = 0;
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 4; k++) sum = 31 * sum + s[i][4 * t + k];
    y[t] = (int)sum;
}

// One warp per block, of many blocks.
__global__ void counts(const int* x, int* y, int* flags) {
    atomicAdd(flags + blockIdx.x % 1024, 1);
    atomicAdd(y + threadIdx.x, (int)blockIdx.x);
}

// A block that waits for another in a loop of barriers.
__global__ void awaited(const int* x, int* y, int* flags) {
    __shared__ int seen;
    volatile int* flag = flags;
    int t = threadIdx.x;
    if (blockIdx.x == 0) {
        flags[1 + t] = x[t];
        __threadfence();
        __syncthreads();
        if (t == 0) *flag = 1;
    } else {
        do {
            __syncthreads();
            if (t == 0) seen = *flag;
            __syncthreads();
        } while (!seen);
        __threadfence();
        y[t] = ((volatile int*)flags)[1 + t];
    }
}

// A lock that is never given back.
__global__ void kept(const int* x, int* y, int* flags) {
    if (threadIdx.x % 32 == 0)
        while (atomicCAS(flags, 0, 1) != 0) {}
}

// A flag that nobody sets, in a loop of barriers.
__global__ void forgotten(const int* x, int* y, int* flags) {
    do __syncthreads();
    while (((volatile int*)flags)[0] == 0);
}
