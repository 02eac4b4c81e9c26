// Write the kernel: y[i] is the field of length[i] bits of x[i] that begins at bit start[i].
// Bits beyond bit 31 are 0; the length is 0 to 32. One instruction of PTX, bfe.u32, does it.
__global__ void fields(const unsigned* x, const int* start, const int* length, unsigned* y, int n) {
}
