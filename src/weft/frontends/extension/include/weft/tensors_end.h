// After a header of torch: an extension's tensors are on the simulated GPU, whose memory is the
// host's. torch sees CPU tensors, so the names by which C++ asks for CUDA mean the CPU.
#define is_cuda() is_cpu()
#define get_device() is_meta()  // false: device 0
#define kCUDA kCPU
#define CUDA CPU

// An operator's CUDA implementation serves CPU tensors. Its CPU implementation is used where it has
// no other.
#ifdef TORCH_LIBRARY_IMPL
#undef TORCH_LIBRARY_IMPL
#define TORCH_LIBRARY_IMPL(ns, k, m) _TORCH_LIBRARY_IMPL(ns, WEFT_KEY_##k, m, C10_UID)
#define WEFT_KEY_CUDA CPU
#define WEFT_KEY_CPU CompositeExplicitAutograd
#define WEFT_KEY_AutogradCUDA AutogradCPU
#define WEFT_KEY_AutogradCPU AutogradCPU
#define WEFT_KEY_Autograd Autograd
#define WEFT_KEY_AutocastCUDA AutocastCPU
#define WEFT_KEY_AutocastCPU AutocastCPU
#define WEFT_KEY_Autocast AutocastCPU
#define WEFT_KEY_Meta Meta
#define WEFT_KEY_CompositeExplicitAutograd CompositeExplicitAutograd
#define WEFT_KEY_CompositeImplicitAutograd CompositeImplicitAutograd
#define WEFT_KEY_CatchAll CatchAll
#endif
