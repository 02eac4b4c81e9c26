// q = x / scale in 8 bits; scale is the row's largest magnitude divided by 127.
// One warp for each row.
__global__ void quantise(const float* x, signed char* q, float* scale) {
    int i = blockIdx.x * 32 + threadIdx.x;
    float most = fabsf(x[i]);
    for (int k = 16; k > 0; k /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, k));
    float step = most / 127;
    q[i] = step > 0 ? (signed char)(x[i] / step) : 0;
    if (threadIdx.x == 0) scale[blockIdx.x] = step;
}
