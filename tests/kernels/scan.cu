// Prefix sums, compaction and sorting.

__device__ int warp_scan(int v) {
    for (int o = 1; o < 32; o *= 2) {
        int up = __shfl_up_sync(~0u, v, o);
        if (threadIdx.x % 32 >= o) v += up;
    }
    return v;
}

// Inclusive scan over the block (a multiple of 32 threads); `total` is the block's sum.
__device__ int block_scan(int v, int& total) {
    __shared__ int warps[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    v = warp_scan(v);
    __syncthreads();
    if (lane == 31) warps[warp] = v;
    __syncthreads();
    if (warp == 0) warps[lane] = warp_scan(lane < blockDim.x / 32 ? warps[lane] : 0);
    __syncthreads();
    total = warps[blockDim.x / 32 - 1];
    return v + (warp ? warps[warp - 1] : 0);
}

__global__ void one_block(const int* x, int* y, int n) {
    int carry = 0, total;
    for (int start = 0; start < n; start += blockDim.x) {
        int i = start + threadIdx.x;
        int v = block_scan(i < n ? x[i] : 0, total);
        if (i < n) y[i] = carry + v;
        carry += total;
    }
}

// Blelloch's work-efficient scan in shared memory: exclusive, 2 * blockDim.x elements, power of 2.
__global__ void blelloch(const float* x, float* y, int n) {
    extern __shared__ float tree[];
    int t = threadIdx.x, size = 2 * blockDim.x, offset = 1;
    tree[2 * t] = 2 * t < n ? x[2 * t] : 0.f;
    tree[2 * t + 1] = 2 * t + 1 < n ? x[2 * t + 1] : 0.f;
    for (int d = size / 2; d > 0; d /= 2) {
        __syncthreads();
        if (t < d) tree[offset * (2 * t + 2) - 1] += tree[offset * (2 * t + 1) - 1];
        offset *= 2;
    }
    if (t == 0) tree[size - 1] = 0.f;
    for (int d = 1; d < size; d *= 2) {
        offset /= 2;
        __syncthreads();
        if (t < d) {
            int a = offset * (2 * t + 1) - 1, b = offset * (2 * t + 2) - 1;
            float left = tree[a];
            tree[a] = tree[b], tree[b] += left;
        }
    }
    __syncthreads();
    if (2 * t < n) y[2 * t] = tree[2 * t];
    if (2 * t + 1 < n) y[2 * t + 1] = tree[2 * t + 1];
}

// One pass over memory: each tile publishes its sum, then its prefix; a tile looks back until it
// meets a prefix. state: 0 nothing, 1 sum, 2 prefix, in the upper half of a 64-bit word.
__global__ void look_back(const int* x, int* y, unsigned long long* states, int* next, int n) {
    __shared__ int tile, before;
    if (threadIdx.x == 0) tile = atomicAdd(next, 1);
    __syncthreads();
    int i = tile * blockDim.x + threadIdx.x, total;
    int v = block_scan(i < n ? x[i] : 0, total);
    if (threadIdx.x == 0) {
        auto pack = [](int state, int value) {
            return (unsigned long long)state << 32 | (unsigned)value;
        };
        atomicExch(&states[tile], pack(tile ? 1 : 2, total));
        int prefix = 0;
        for (int p = tile - 1; p >= 0;) {
            unsigned long long seen = *(volatile unsigned long long*)&states[p];
            if (seen >> 32 == 0) continue;
            prefix += (int)seen;
            if (seen >> 32 == 2) break;
            p--;
        }
        if (tile) atomicExch(&states[tile], pack(2, prefix + total));
        before = prefix;
    }
    __syncthreads();
    if (i < n) y[i] = before + v;
}

// Keeps the positive elements, in order within a warp; one atomic a warp.
__global__ void compact(const float* x, float* kept, int* where, int* count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    bool keep = i < n && x[i] > 0.f;
    unsigned ballot = __ballot_sync(~0u, keep);
    int base = 0;
    if (lane == 0 && ballot) base = atomicAdd(count, __popc(ballot));
    base = __shfl_sync(~0u, base, 0);
    if (!keep) return;
    int at = base + __popc(ballot & ((1u << lane) - 1));
    kept[at] = x[i], where[at] = i;
}

// A block sorts `size` (a power of two) keys with their values in shared memory.
__global__ void bitonic(unsigned* keys, int* values, int size) {
    extern __shared__ unsigned shared[];
    unsigned* k = shared;
    int* v = (int*)(shared + size);
    size_t base = (size_t)blockIdx.x * size;
    for (int i = threadIdx.x; i < size; i += blockDim.x)
        k[i] = keys[base + i], v[i] = values[base + i];
    for (int run = 2; run <= size; run *= 2)
        for (int step = run / 2; step > 0; step /= 2) {
            __syncthreads();
            for (int i = threadIdx.x; i < size; i += blockDim.x) {
                int j = i ^ step;
                bool up = (i & run) == 0;
                if (j > i && (k[i] > k[j]) == up) {
                    unsigned key = k[i];
                    k[i] = k[j], k[j] = key;
                    int value = v[i];
                    v[i] = v[j], v[j] = value;
                }
            }
        }
    __syncthreads();
    for (int i = threadIdx.x; i < size; i += blockDim.x)
        keys[base + i] = k[i], values[base + i] = v[i];
}

// One stable pass of a radix sort over 4 bits, in one block: counts, scan, scatter.
__global__ void radix_pass(const unsigned* in, unsigned* out, int n, int shift) {
    __shared__ int starts[16];
    if (threadIdx.x < 16) starts[threadIdx.x] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) atomicAdd(&starts[in[i] >> shift & 15], 1);
    __syncthreads();
    if (threadIdx.x == 0)
        for (int d = 0, sum = 0; d < 16; d++) {
            int c = starts[d];
            starts[d] = sum, sum += c;
        }
    for (int first = 0; first < n; first += blockDim.x) {
        int i = first + threadIdx.x;
        unsigned key = i < n ? in[i] : 0u;
        for (int d = 0; d < 16; d++) {
            int total;
            bool mine = i < n && (key >> shift & 15) == d;
            int rank = block_scan(mine, total) - 1;
            if (mine) out[starts[d] + rank] = key;
            __syncthreads();
            if (threadIdx.x == 0) starts[d] += total;
        }
    }
}
