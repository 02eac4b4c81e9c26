// Write the whole program. Its arguments are the seed and n.
// 1. h: 4 n uniform floats by a generator of the host interface, CURAND_RNG_PSEUDO_PHILOX4_32_10
//    with this seed and curandGenerateUniform. Its memory is that of the device.
// 2. d: the same 4 n floats by a kernel with n threads: curand_init and curand_uniform4.
// 3. Print the sum of h[i] * d[i], with "%.9g\n". Add it up in double.
#include <cstdio>
#include <cstdlib>
#include <curand.h>
#include <curand_kernel.h>
#include <vector>

int main(int count, char** arguments) {}
