// Write the whole program. Its argument is n.
// 1. Allocate n floats of unified memory, with cudaMallocManaged.
// 2. The host writes x[i] = i % 8, a kernel replaces each x[i] by 3 x[i] + 1.
// 3. The host adds the n results where they are, without a copy, and prints the sum with "%g\n".
#include <cstdio>
#include <cstdlib>

int main(int count, char** arguments) {}
