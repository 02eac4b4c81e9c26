// Write the whole program. Its argument is the number of steps.
// 1. x[i] = i on the device, for i < 256.
// 2. Two kernels: one replaces each x[i] by x[i] / 2, the other adds 1 to it.
// 3. Capture one launch of each in a graph, and replay the graph once for each step.
// 4. Record an event before the first and one after the last replay, and print the time between
//    them to stderr.
// 5. Copy x back and print its sum, with "%g\n" to stdout.
#include <cstdio>
#include <cstdlib>

int main(int count, char** arguments) {}
