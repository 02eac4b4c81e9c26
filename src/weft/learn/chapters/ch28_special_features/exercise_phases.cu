// Write the whole program. Its arguments are n and the number of blocks.
// 1. x[i] = i * 37 % 1001 + 1 for all i < n, as int, on the device.
// 2. One cooperative launch of so many blocks with 128 threads finds the largest element, waits at
//    cg::this_grid().sync(), and replaces every x[i] by 1000 * x[i] / largest, in whole numbers.
// 3. Add the n results on the host and print the sum with "%d\n".
#include <cooperative_groups.h>
#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int count, char** arguments) {}
