// Advice on managed memory, which is in one place here.
#include "../weft.h"

#include <cuda.h>

#if CUDA_VERSION >= 13000
API CUresult cuMemAdvise(CUdeviceptr, size_t, CUmem_advise, CUmemLocation) { return CUDA_SUCCESS; }
API CUresult cuMemPrefetchAsync(CUdeviceptr, size_t, CUmemLocation, unsigned, CUstream) {
#else
API CUresult cuMemAdvise(CUdeviceptr, size_t, CUmem_advise, CUdevice) { return CUDA_SUCCESS; }
API CUresult cuMemPrefetchAsync(CUdeviceptr, size_t, CUdevice, CUstream) {
#endif
    return CUDA_SUCCESS;
}
