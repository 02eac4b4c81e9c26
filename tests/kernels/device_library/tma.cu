// Calls every function of weft/tma.cuh.
#include <weft/mma.cuh>
#include <weft/tma.cuh>
#include <weft/wgmma.cuh>

using namespace weft;

// Copies a tensor of RANK dimensions from x to y by boxes of BYTES, one block for each: block i
// takes the box at BOX * i of the innermost dimension.
template <int RANK, int BYTES, bool ADD>
__global__ void boxes(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap y,
                      int width) {
    extern __shared__ __align__(128) unsigned char bytes[];
    __shared__ Barrier full;
    unsigned tile = shared_address(bytes);
    if (threadIdx.x == 0) full.init(1), publish_barriers(), prefetch_map(x);
    __syncthreads();
    int at = blockIdx.x * width;
    if (threadIdx.x != 0) return;
    full.arrive_expecting(BYTES);
    if constexpr (RANK == 1) load_box(tile, x, full, at);
    if constexpr (RANK == 2) load_box(tile, x, full, at, 0);
    if constexpr (RANK == 3) load_box(tile, x, full, at, 0, 0);
    if constexpr (RANK == 4) load_box(tile, x, full, at, 0, 0, 0);
    if constexpr (RANK == 5) load_box(tile, x, full, at, 0, 0, 0, 0);
    full.wait(0);
    if constexpr (RANK == 1) store_box(y, tile, at);
    if constexpr (RANK == 2 && !ADD) store_box(y, tile, at, 0);
    if constexpr (RANK == 2 && ADD) add_box(y, tile, at, 0);
    if constexpr (RANK == 3) store_box(y, tile, at, 0, 0);
    if constexpr (RANK == 4) store_box(y, tile, at, 0, 0, 0);
    if constexpr (RANK == 5) store_box(y, tile, at, 0, 0, 0, 0);
    commit_stores();
    wait_stores_read<0>();
    wait_stores<0>();
}

// Both blocks of a cluster get all of x: each loads a half of it for both.
__global__ void halves(const __grid_constant__ TensorMap x, float* y) {
    __shared__ __align__(128) float tile[64];
    __shared__ Barrier full;
    unsigned block;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(block));
    if (threadIdx.x == 0) {
        full.init(1), publish_barriers();
        full.arrive_expecting(sizeof tile);
    }
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    if (threadIdx.x == 0)
        load_box_multicast(shared_address(tile + 32 * block), x, full, 3, 32 * block);
    full.wait(0);
    y[block * 64 + threadIdx.x] = tile[threadIdx.x];
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}

// y[i] = the pixels that element (right, down) of a window sees.
__global__ void pixels(const __grid_constant__ TensorMap x, float* y, int count, int right,
                       int down) {
    extern __shared__ __align__(128) float seen[];
    __shared__ Barrier full;
    if (threadIdx.x == 0) full.init(1), publish_barriers();
    __syncthreads();
    if (threadIdx.x == 0) {
        full.arrive_expecting(count * 4);
        load_pixels(shared_address(seen), x, full, 0, -1, -1, 0, right, down);
    }
    full.wait(0);
    for (int i = threadIdx.x; i < count; i += blockDim.x) y[i] = seen[i];
}

// y = `bytes` bytes of x.
__global__ void plain_bytes(const unsigned char* x, unsigned char* y, int bytes) {
    extern __shared__ __align__(128) unsigned char tile[];
    __shared__ Barrier full;
    if (threadIdx.x == 0) {
        full.init(1), publish_barriers();
        full.arrive_expecting(bytes);
        load_bytes(shared_address(tile), x, full, bytes);
    }
    __syncthreads();
    full.wait(0);
    for (int i = threadIdx.x; i < bytes; i += blockDim.x) y[i] = tile[i];
}
