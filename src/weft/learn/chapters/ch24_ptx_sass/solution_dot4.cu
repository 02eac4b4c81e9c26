// Four products of bytes and their sum in one instruction.
__global__ void dot4(const signed char* a, const signed char* b, int* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int four = reinterpret_cast<const int*>(a)[i], other = reinterpret_cast<const int*>(b)[i], sum;
    asm("dp4a.s32.s32 %0, %1, %2, 0;" : "=r"(sum) : "r"(four), "r"(other));
    y[i] = sum;
}
