// rung:   04 vectorised
// idea:   16 bytes per thread and load: a quarter of the instructions and requests move the same
//         bytes, and more bytes are in flight
// expect: load sectors per request <= 16
// launch: vecadd<<<max(1, cdiv(n, 1024)), 256>>>

__global__ void vecadd(const float* __restrict__ a, const float* __restrict__ b,
                       float* __restrict__ c, size_t n) {
    size_t i = 4 * (size_t(blockIdx.x) * blockDim.x + threadIdx.x);
    if (i + 3 < n) {
        float4 x = *reinterpret_cast<const float4*>(a + i);
        float4 y = *reinterpret_cast<const float4*>(b + i);
        *reinterpret_cast<float4*>(c + i) = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
    } else {
        for (; i < n; ++i) c[i] = a[i] + b[i];
    }
}
