// Write the whole program. Its argument is n.
// 1. A macro TRY(call) evaluates the call once. If it is not cudaSuccess, the macro adds 1 to the
//    variable `failures`, prints file, line, the text of the call and the reason to stderr, and
//    clears the error, which cudaGetLastError would return once more.
// 2. For k = 1 to n, launch one block of 128 k threads, each of which adds 1 to a number in global
//    memory; then TRY(cudaGetLastError()). A block of more than 1,024 threads is refused.
// 3. In the same loop:  if (k % 2) TRY(cudaSetDevice(1000)); else even++;
// 4. Print the number in global memory + 100000 * failures + even with "%d\n".
#include <cstdio>
#include <cstdlib>

int main(int count, char** arguments) {}
