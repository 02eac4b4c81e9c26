// Write the kernel: each bit of y[i] is the majority of the bits of a[i], b[i] and c[i] at its
// place. One instruction of PTX, lop3.b32, computes any function of three bits.
__global__ void majority(const unsigned* a, const unsigned* b, const unsigned* c, unsigned* y,
                         int n) {}
