// Write the kernel: one block for each row of n floats.
//   scale[row] = the largest magnitude of the row / 127
//   q[row][i]  = x[row][i] / scale[row], rounded to the nearest integer, halves to the even one
__global__ void quantise(const float* x, signed char* q, float* scale, int n) {}
