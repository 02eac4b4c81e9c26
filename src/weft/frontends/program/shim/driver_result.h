// The runtime's errors and addresses as the driver API has them.
#pragma once

#include <cuda.h>

#include "weft.h"

namespace weft {

// Numbers of errors are the runtime's, but for two.
inline CUresult result(cudaError_t error) {
    if (error == cudaErrorInvalidConfiguration) return CUDA_ERROR_INVALID_VALUE;
    if (error == cudaErrorInvalidDeviceFunction) return CUDA_ERROR_INVALID_HANDLE;
    return static_cast<CUresult>(error);
}
inline void *at_address(CUdeviceptr address) { return reinterpret_cast<void *>(address); }

}  // namespace weft
