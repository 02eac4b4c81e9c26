// Mistakes between blocks that some orders of their threads hide: each kernel is right where
// `right`, a constant that comes before this file, is true, and has one mistake otherwise. Blocks
// have 128 threads; see tests/support/scheduled.py.

// A counter that is not updated in one step.
__global__ void counted(const int* x, int* y, int* flags) {
    if (threadIdx.x % 32 == 0) {
        if (right) atomicAdd(flags + 1, 1);
        else flags[1] = flags[1] + 1;
    }
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

// A lock that is given back before what it protects is written.
__global__ void unlocked(const int* x, int* y, int* flags) {
    volatile int* count = flags + 1;
    if (threadIdx.x % 32 == 0) {
        while (atomicCAS(flags, 0, 1) != 0) {}
        __threadfence();
        *count = *count + 1;
        if (right) __threadfence();
        atomicExch(flags, 0);
    }
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

// Data and the flag that announces them, without a fence in between.
__global__ void unfenced(const int* x, int* y, int* flags) {
    volatile int* flag = flags;
    if (threadIdx.x != 0) return;
    if (blockIdx.x == 0) {
        flags[1] = x[0];
        if (right) __threadfence();
        *flag = 1;
    } else if (blockIdx.x == 1) {
        while (*flag == 0) {}
        __threadfence();
        y[0] = ((volatile int*)flags)[1];
    }
}

// One thread announces what all threads of its block have written, without waiting for them.
__global__ void announced(const int* x, int* y, int* flags) {
    int t = threadIdx.x;
    volatile int* data = flags + 64;
    if (blockIdx.x == 0) {
        data[t] = x[t];
        __threadfence();
        if (right) __syncthreads();
        if (t == 0) atomicExch(flags, 1);
    } else if (blockIdx.x == 1) {
        if (t == 0) while (atomicAdd(flags, 0) == 0) {}
        __syncthreads();
        y[t] = data[t];
    }
}

// The last block adds what all have written; a block counts itself before its warps are done.
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

// The last block adds the sums of all; a block counts itself before its sum is visible.
__global__ void summed(const int* x, int* y, int* flags) {
    if (threadIdx.x != 0) return;
    flags[64 + blockIdx.x] = x[blockIdx.x];
    if (right) __threadfence();
    if (atomicAdd(flags, 1) == (int)gridDim.x - 1) {
        __threadfence();
        int sum = 0;
        for (int b = 0; b < (int)gridDim.x; b++) sum += ((volatile int*)flags)[64 + b];
        y[0] = sum;
    }
}

// A barrier of all blocks, at which a block arrives before all its warps have.
__global__ void gathered(const int* x, int* y, int* flags) {
    int t = threadIdx.x, n = gridDim.x;
    volatile int* data = flags + 64;
    data[128 * blockIdx.x + t] = x[t] + blockIdx.x;
    __threadfence();
    if (right) __syncthreads();
    if (t == 0) {
        atomicAdd(flags, 1);
        while (atomicAdd(flags, 0) < n) {}
    }
    __syncthreads();
    if (blockIdx.x == 0) {
        int sum = 0;
        for (int b = 0; b < n; b++) sum += data[128 * b + t];
        y[t] = sum;
    }
}

// A queue whose length grows before the new element is there.
__global__ void queued(const int* x, int* y, int* flags) {
    volatile int* length = flags + 1;
    volatile int* items = flags + 64;
    if (threadIdx.x != 0) return;
    if (blockIdx.x == 0) {
        int sum = 0;
        for (int i = 0; i < (int)gridDim.x - 1; i++) {
            while (*length <= i) {}
            __threadfence();
            sum += items[i];
        }
        y[0] = sum;
    } else {
        while (atomicCAS(flags, 0, 1) != 0) {}
        __threadfence();
        int at = *length;
        if (right) { items[at] = x[blockIdx.x]; __threadfence(); *length = at + 1; }
        else { *length = at + 1; __threadfence(); items[at] = x[blockIdx.x]; }
        __threadfence();
        atomicExch(flags, 0);
    }
}

// A sum over all blocks before, passed on from block to block: its state is set too early.
__global__ void chained(const int* x, int* y, int* flags) {
    volatile int* ready = flags;
    volatile int* sums = flags + 64;
    int b = blockIdx.x;
    if (threadIdx.x != 0) return;
    int before = 0;
    if (b > 0) {
        while (ready[b - 1] == 0) {}
        __threadfence();
        before = sums[b - 1];
    }
    if (right) { sums[b] = before + x[b]; __threadfence(); ready[b] = 1; }
    else { ready[b] = 1; __threadfence(); sums[b] = before + x[b]; }
    y[b] = before;
}
