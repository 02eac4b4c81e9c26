// Before a header of torch: the names that tensors_end.h defines are torch's own again.
#undef is_cuda
#undef get_device
#undef kCUDA
#undef CUDA
