// A field of bits in one instruction, which also knows lengths of 0 and of 32.
__global__ void fields(const unsigned* x, const int* start, const int* length, unsigned* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned out;
    asm("bfe.u32 %0, %1, %2, %3;" : "=r"(out) : "r"(x[i]), "r"(start[i]), "r"(length[i]));
    y[i] = out;
}
