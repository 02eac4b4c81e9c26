// Write the whole program. Its argument is the number of warps in a block.
// 1. Ask CUDA how many SMs the GPU has, and how many threads an SM holds at a time.
// 2. Launch as many blocks of this size as all SMs hold at a time by their threads. The first
// thread
//    of each block adds the size of its block to one number in global memory, by atomicAdd.
// 3. Copy the number back and print it with "%d\n".
// The grader runs the program on one of several GPUs: weft run --device sim:a100 FILE 4
#include <cstdio>
#include <cstdlib>

int main(int count, char** arguments) {}
