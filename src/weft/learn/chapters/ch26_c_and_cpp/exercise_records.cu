// Write the kernel. `bytes` holds n records of 8 bytes: an int `value`, an unsigned char `kind`, a
// signed char `shift`, a short `count`. y[i] depends on kind % 4 of record i:
//   0 ADD  value + count       1 SUB    value - count
//   2 XOR  value ^ count       3 SHIFT  value >> (shift & 31)
// Sums wrap around: compute them as unsigned. Declare a struct and an enum.
#include <cstring>

__global__ void evaluate(const unsigned char* bytes, int* y, int n) {}
