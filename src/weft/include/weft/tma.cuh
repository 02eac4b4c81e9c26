// Copies of boxes of tensors between global and shared memory (TMA). One thread starts a copy; a
// barrier waits for its bytes. What is outside of a tensor is read as 0 and is not written. Needs
// sm_90.
//
//     __global__ void kernel(const __grid_constant__ weft::TensorMap x) {  // weft.tensor_map(...)
//         extern __shared__ __align__(128) float tile[];
//         __shared__ weft::Barrier full;
//         if (threadIdx.x == 0) full.init(1), weft::publish_barriers();
//         __syncthreads();
//         if (threadIdx.x == 0) {
//             full.arrive_expecting(ROWS * COLUMNS * 4);
//             weft::load_box(weft::shared_address(tile), x, full, column, row);
//         }
//         full.wait(0);
#pragma once
#include "barrier.cuh"

namespace weft {

// The bytes of cuda.h's CUtensorMap: a tensor and the box that a copy takes. A kernel has it as a
// parameter `const __grid_constant__ TensorMap`, or reads it by its address.
struct alignas(64) TensorMap {
    unsigned long long words[16];
};

// Fetches the map itself, so that the first copy does not wait for it.
__device__ inline void prefetch_map(const TensorMap& map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// ---- loads -------------------------------------------------------------------------------------
// load_box(shared, map, full, coordinates...) starts a copy of the box at these coordinates, the
// innermost dimension first, to the address `shared`; its bytes arrive at `full`. 1 to 5
// coordinates.
//
// load_box_multicast(..., blocks, coordinates...) copies to the same address in all blocks of the
// cluster whose bits are set in `blocks`; bytes arrive at the barrier at the address of `full` in
// each.
#define WEFT_BOX(DIMENSIONS, AT, ...)                                                          \
    __device__ inline void load_box(unsigned shared, const TensorMap& map, Barrier& full,      \
                                    WEFT_INTS_##DIMENSIONS) {                                  \
        asm volatile("cp.async.bulk.tensor." #DIMENSIONS                                       \
                     "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"              \
                     " [%0], [%1, {" AT "}], [%2];" ::"r"(shared),                             \
                     "l"(&map), "r"(shared_address(&full)), __VA_ARGS__                        \
                     : "memory");                                                              \
    }                                                                                          \
    __device__ inline void load_box_multicast(unsigned shared, const TensorMap& map,           \
                                              Barrier& full, unsigned short blocks,            \
                                              WEFT_INTS_##DIMENSIONS) {                        \
        asm volatile("{ .reg .b16 m; cvt.u16.u32 m, %3; cp.async.bulk.tensor." #DIMENSIONS     \
                     "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"              \
                     ".multicast::cluster [%0], [%1, {" WEFT_LATER_##DIMENSIONS                \
                     "}], [%2], m; }" ::"r"(shared),                                           \
                     "l"(&map), "r"(shared_address(&full)), "r"(unsigned(blocks)), __VA_ARGS__ \
                     : "memory");                                                              \
    }                                                                                          \
    __device__ inline void store_box(const TensorMap& map, unsigned shared,                    \
                                     WEFT_INTS_##DIMENSIONS) {                                 \
        asm volatile("cp.async.bulk.tensor." #DIMENSIONS                                       \
                     "d.global.shared::cta.tile.bulk_group"                                    \
                     " [%0, {" WEFT_SOONER_##DIMENSIONS "}], [%1];" ::"l"(&map),               \
                     "r"(shared), __VA_ARGS__                                                  \
                     : "memory");                                                              \
    }                                                                                          \
    __device__ inline void add_box(const TensorMap& map, unsigned shared,                      \
                                   WEFT_INTS_##DIMENSIONS) {                                   \
        asm volatile("cp.reduce.async.bulk.tensor." #DIMENSIONS                                \
                     "d.global.shared::cta.add.tile.bulk_group"                                \
                     " [%0, {" WEFT_SOONER_##DIMENSIONS "}], [%1];" ::"l"(&map),               \
                     "r"(shared), __VA_ARGS__                                                  \
                     : "memory");                                                              \
    }
#define WEFT_INTS_1 int x
#define WEFT_INTS_2 int x, int y
#define WEFT_INTS_3 int x, int y, int z
#define WEFT_INTS_4 int x, int y, int z, int u
#define WEFT_INTS_5 int x, int y, int z, int u, int v
#define WEFT_LATER_1 "%4"
#define WEFT_LATER_2 "%4, %5"
#define WEFT_LATER_3 "%4, %5, %6"
#define WEFT_LATER_4 "%4, %5, %6, %7"
#define WEFT_LATER_5 "%4, %5, %6, %7, %8"
#define WEFT_SOONER_1 "%2"
#define WEFT_SOONER_2 "%2, %3"
#define WEFT_SOONER_3 "%2, %3, %4"
#define WEFT_SOONER_4 "%2, %3, %4, %5"
#define WEFT_SOONER_5 "%2, %3, %4, %5, %6"
WEFT_BOX(1, "%3", "r"(x))
WEFT_BOX(2, "%3, %4", "r"(x), "r"(y))
WEFT_BOX(3, "%3, %4, %5", "r"(x), "r"(y), "r"(z))
WEFT_BOX(4, "%3, %4, %5, %6", "r"(x), "r"(y), "r"(z), "r"(u))
WEFT_BOX(5, "%3, %4, %5, %6, %7", "r"(x), "r"(y), "r"(z), "r"(u), "r"(v))
#undef WEFT_BOX
#undef WEFT_INTS_1
#undef WEFT_INTS_2
#undef WEFT_INTS_3
#undef WEFT_INTS_4
#undef WEFT_INTS_5
#undef WEFT_LATER_1
#undef WEFT_LATER_2
#undef WEFT_LATER_3
#undef WEFT_LATER_4
#undef WEFT_LATER_5
#undef WEFT_SOONER_1
#undef WEFT_SOONER_2
#undef WEFT_SOONER_3
#undef WEFT_SOONER_4
#undef WEFT_SOONER_5

// Starts a copy of neighbouring bytes to the address `shared`; they arrive at `full`. Both
// addresses and `bytes` are multiples of 16.
__device__ inline void load_bytes(unsigned shared, const void* global, Barrier& full, int bytes) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
            "r"(shared),
        "l"(__cvta_generic_to_global(global)), "r"(bytes), "r"(shared_address(&full))
        : "memory");
}

// Starts a copy of the pixels of images (n, h, w, c) from pixel (w, h, n) on, each moved by (right,
// down): what a convolution reads for one element of its window. The map is weft.im2col_map's.
__device__ inline void load_pixels(unsigned shared, const TensorMap& map, Barrier& full, int c,
                                   int w, int h, int n, unsigned short right, unsigned short down) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
        " [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};" ::"r"(shared),
        "l"(&map), "r"(shared_address(&full)), "r"(c), "r"(w), "r"(h), "r"(n), "h"(right), "h"(down)
        : "memory");
}

// ---- stores ------------------------------------------------------------------------------------
// store_box(map, shared, coordinates...) starts a copy from shared to global memory; add_box adds
// to what is there. Threads that wrote the tile call publish_tiles() before a barrier, and one
// thread behind it starts the copy.

// Ends a group: all stores that this thread has started since the group before.
__device__ inline void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Waits until at most PENDING groups of this thread still read shared memory, which may be written
// again then.
template <int PENDING>
__device__ inline void wait_stores_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}

// Waits until at most PENDING groups of this thread are under way; what the others have written is
// visible to this thread.
template <int PENDING>
__device__ inline void wait_stores() {
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(PENDING) : "memory");
}

}  // namespace weft
