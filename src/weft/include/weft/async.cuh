// Asynchronous copies from global to shared memory (cp.async); ordinary copies below sm_80.
//
//     weft::copy_async<16>(tile + i, x + i);   // each thread starts its own copies
//     weft::commit_copies();                   // those since the last call are a group
//     weft::wait_copies<0>();                  // until no group of this thread is under way
//     __syncthreads();                         // now all threads see what all have copied
#pragma once

namespace weft {

// Returns the address of shared memory as instructions take it, in bytes.
__device__ inline unsigned shared_address(const void* shared) {
    return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

// Starts a copy of BYTES bytes (4, 8 or 16) to the address `shared`, of which the first `valid` are
// read and the others become 0. Both addresses are multiples of BYTES; with `valid` 0 nothing is
// read at `global`. 16 bytes do not enter the L1 cache.
template <int BYTES>
__device__ inline void copy_async_part(unsigned shared, const void* global, int valid) {
    static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "4, 8 or 16 bytes");
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global),
                     "r"(valid)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared), "l"(global),
                     "n"(BYTES), "r"(valid)
                     : "memory");
#else
    for (int i = 0; i < BYTES; i += 4) {
        unsigned word = 0;
        for (int j = 0; j < 4 && i + j < valid; ++j)
            word |= unsigned(static_cast<const unsigned char*>(global)[i + j]) << j * 8;
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(shared + i), "r"(word) : "memory");
    }
#endif
}

// Starts a copy of BYTES bytes, or of zeros where `inside` is false.
template <int BYTES>
__device__ inline void copy_async(unsigned shared, const void* global, bool inside) {
    copy_async_part<BYTES>(shared, global, inside ? BYTES : 0);
}
template <int BYTES>
__device__ inline void copy_async(void* shared, const void* global, bool inside) {
    copy_async_part<BYTES>(shared_address(shared), global, inside ? BYTES : 0);
}

// Starts a copy of BYTES bytes.
template <int BYTES>
__device__ inline void copy_async(unsigned shared, const void* global) {
    static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "4, 8 or 16 bytes");
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(global)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared), "l"(global),
                     "n"(BYTES)
                     : "memory");
#else
    copy_async_part<BYTES>(shared, global, BYTES);
#endif
}
template <int BYTES>
__device__ inline void copy_async(void* shared, const void* global) {
    copy_async<BYTES>(shared_address(shared), global);
}

// Ends a group: all copies that this thread has started since the group before.
__device__ inline void commit_copies() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until at most PENDING groups of this thread are under way; the oldest ones end first.
template <int PENDING>
__device__ inline void wait_copies() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
#endif
}

// Waits for all copies of this thread, those without a group included.
__device__ inline void wait_all_copies() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

}  // namespace weft
