// rung:   03 vectorised
// idea:   a thread has four neighbouring elements and reads them by one instruction
// expect: load sectors per request = 16
// launch: forward<<<cdiv(n, 1024), 256>>>
// launch: backward<<<cdiv(n, 1024), 256>>>

__device__ float gelu(float v) { return v * normcdff(v); }
__device__ float slope(float v) { return normcdff(v) + v * 0.3989423f * expf(-0.5f * v * v); }

__global__ void forward(const float* x, float* y, size_t n) {
    size_t i = (size_t(blockIdx.x) * 256 + threadIdx.x) * 4;
    if (i + 4 <= n) {
        float4 v = *reinterpret_cast<const float4*>(x + i);
        *reinterpret_cast<float4*>(y + i) = {gelu(v.x), gelu(v.y), gelu(v.z), gelu(v.w)};
    } else {
        for (; i < n; ++i) y[i] = gelu(x[i]);
    }
}

__global__ void backward(const float* x, const float* dy, float* dx, size_t n) {
    size_t i = (size_t(blockIdx.x) * 256 + threadIdx.x) * 4;
    if (i + 4 <= n) {
        float4 v = *reinterpret_cast<const float4*>(x + i);
        float4 g = *reinterpret_cast<const float4*>(dy + i);
        *reinterpret_cast<float4*>(dx + i) = {g.x * slope(v.x), g.y * slope(v.y), g.z * slope(v.z),
                                              g.w * slope(v.w)};
    } else {
        for (; i < n; ++i) dx[i] = dy[i] * slope(x[i]);
    }
}
