// Write the whole program. Its argument is m, and n = 1024 m.
// 1. Pinned memory of the host: h_x[i] = i % 5.
// 2. Four parts of n / 4 elements, alternately in two streams: copy to the device, square by a
//    kernel, copy back. Copies of one stream shall overlap with kernels of the other.
// 3. Wait for both streams, add the n results and print the sum with "%g\n".
// weft profile exercise_parts.cu --args 1024 --trace parts.json shows whether they do.
#include <cstdio>
#include <cstdlib>

int main(int count, char** arguments) {}
