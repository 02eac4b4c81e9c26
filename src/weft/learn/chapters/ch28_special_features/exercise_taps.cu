// Write the whole program. Its arguments are n and seed.
// 1. x[i] = i * seed % 101 for all i < n, as int, on the device.
// 2. Eight weights, (k + seed) % 7 for k = 0 to 7, in constant memory.
// 3. A kernel computes y[i], the sum of weight[k] * x[i + k]; elements beyond the end count as 0.
// 4. Add the n results on the host and print the sum with "%d\n".
#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int count, char** arguments) {}
