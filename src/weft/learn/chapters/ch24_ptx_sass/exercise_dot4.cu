// Write the kernel: y[i] is the sum of a[4 i + k] * b[4 i + k] for k = 0 to 3.
// One instruction of PTX, dp4a.s32.s32, multiplies four bytes by four bytes and adds the products.
__global__ void dot4(const signed char* a, const signed char* b, int* y, int n) {}
