// The majority of three bits: a table of 8 bits, looked up by one instruction.
__global__ void majority(const unsigned* a, const unsigned* b, const unsigned* c, unsigned* y,
                         int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned out;
    // 0xf0, 0xcc and 0xaa stand for the operands: (0xf0 & 0xcc) | (0xf0 & 0xaa) | (0xcc & 0xaa).
    asm("lop3.b32 %0, %1, %2, %3, 0xe8;" : "=r"(out) : "r"(a[i]), "r"(b[i]), "r"(c[i]));
    y[i] = out;
}
