// rung:   00 stored mask
// idea:   the forward pass draws one number for each element and stores the mask as bytes for the
//         backward pass
// scratch: mask:u8[n]
// launch: forward<<<cdiv(n, 256), 256>>>
// launch: backward<<<cdiv(n, 256), 256>>>

#include <weft/philox.cuh>

using namespace weft;

__global__ void forward(const float* x, float* y, unsigned char* mask, size_t n) {
    size_t i = size_t(blockIdx.x) * 256 + threadIdx.x;
    if (i >= n) return;
    uint4 r = philox(7, i / 4, 0);
    unsigned bits[4] = {r.x, r.y, r.z, r.w};
    mask[i] = uniform(bits[i % 4]) < 0.5f;
    y[i] = x[i] * mask[i] * 2;
}

__global__ void backward(const float* dy, float* dx, const unsigned char* mask, size_t n) {
    size_t i = size_t(blockIdx.x) * 256 + threadIdx.x;
    if (i < n) dx[i] = dy[i] * mask[i] * 2;
}
