// Write the kernel: y[r] = scale[r] * (the sum of q[r][i] * x[i] over i < k).
// A warp takes a row, a block of 128 threads takes 4 rows; k is a multiple of 128.
// A lane loads 4 weights as a char4 and 4 inputs as a float4.
__global__ void gemv(const signed char* q, const float* scale, const float* x, float* y, int rows,
                     int k) {}
