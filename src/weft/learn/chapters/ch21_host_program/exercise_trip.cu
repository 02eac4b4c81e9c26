// Write the whole program. Its argument is n.
// 1. h_x[i] = i % 10 for all i < n, in memory of the host.
// 2. Copy h_x to the device, square each element by a kernel, and copy the result back.
// 3. Add the n results on the host and print the sum with "%g\n".
// Check the result of every call, and the launch.
#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int count, char** arguments) {}
