// The most texels that a texture of linear memory may have.
#include "arrays.h"

#include <algorithm>

namespace weft {
size_t most_linear_texels(const Format &format) {
    return std::min<size_t>(1 << 30, (size_t(1) << 32) / format.bytes());
}
}  // namespace weft

using namespace weft;

API cudaError_t cudaDeviceGetTexture1DLinearMaxWidth(size_t *out, const cudaChannelFormatDesc *desc,
                                                     int) {
    WORKING;
    Format format;
    if (!out || !desc || !format_of(*desc, &format)) return failed(cudaErrorInvalidValue);
    *out = most_linear_texels(format);
    return cudaSuccess;
}
