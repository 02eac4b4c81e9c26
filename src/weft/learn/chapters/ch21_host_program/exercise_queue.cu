// Write the whole program. Its argument is n.
// 1. Allocate n floats of pinned memory of the host, h_x[i] = i % 7.
// 2. Make a stream of the highest priority. Put into it, without waiting in between: the copy to
//    the device, a kernel that doubles each element, the copy back, and a host function that adds
//    the n results.
// 3. Wait for the stream, print the sum with "%g\n", and free all of it.
#include <cstdio>
#include <cstdlib>

int main(int count, char** arguments) {}
