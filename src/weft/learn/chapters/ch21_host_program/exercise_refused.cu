// Write the whole program. Its argument is n, from 2000 to 9000.
// 1. A kernel in which each of the threads 0 to n - 1 of the grid adds 1 to a counter of the
// device.
// 2. Launch one block of n threads. A block has at most 1024 threads: the launch is refused.
// 3. While a launch is refused, halve the block, rounded up, and launch as many blocks as n
//    threads need. Learn from cudaGetLastError whether it is refused.
// 4. Print 10000 times the number of refused launches, plus the counter, with "%d\n".
#include <cstdio>
#include <cstdlib>

int main(int count, char** arguments) {}
