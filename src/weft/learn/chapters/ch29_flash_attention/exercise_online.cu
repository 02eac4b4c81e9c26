// Write the kernel: y = softmax of each row of x, and lse[r] = log of the sum of exp(x[r][i]).
// A block of 128 threads takes a row and reads it twice: once for maximum and sum, once for y.
__global__ void softmax(const float* x, float* y, float* lse, int n) {}
