// The order between kernels of a stream. A kernel that is launched early starts while the kernel
// before it still runs, and waits for it itself: it prepares what needs no global memory meanwhile.
// Needs sm_90; before it, and for other launches, a kernel starts when the one before has ended.
#pragma once

namespace weft {

// Waits until the kernels before this one have ended; what they have written is visible. Every
// block calls it, before it reads or writes global memory.
__device__ inline void wait_for_kernels() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The same, but not before the addresses are known that the kernel reads first: ptxas moves a wait
// without operands to the start of a kernel, and behind it what could be computed meanwhile. No
// address has all bits.
template <class... T>
__device__ inline void wait_for_kernels(const T*... addresses) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile(
        "{\n"
        ".reg .pred known;\n"
        "setp.ne.u64 known, %0, -1;\n"
        "@known griddepcontrol.wait;\n"
        "}" ::"l"((reinterpret_cast<size_t>(addresses) | ...))
        : "memory");
#endif
}

// Lets the next kernel start once all blocks of this one have called it, or have ended.
__device__ inline void start_next_kernel() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Does both: lets the next kernel start, and waits for those before. It is the first statement of a
// short kernel, whose launch takes as long as its work.
__device__ inline void take_turn() {
    start_next_kernel();
    wait_for_kernels();
}

}  // namespace weft
