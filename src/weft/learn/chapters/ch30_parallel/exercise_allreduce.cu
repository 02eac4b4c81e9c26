// Write the whole program. Its argument is part; an array has n = 4 * part numbers, in 4 parts.
// 1. GPU g of 4 has an array x with x[i] = i % 13 + g * (i % 3); the host fills and copies it.
// 2. Replace x on each GPU by the sum of the four arrays: a ring of ncclSend and ncclRecv, in which
//    a GPU sends one part at a time to GPU (g + 1) % 4, and a kernel that adds what arrives.
// 3. Copy the arrays back and print, with "%.9g\n", the sum over all g and i of
//    (g + 1) * (i % 7 + 1) * x[i].
#include <cstdio>
#include <cstdlib>
#include <nccl.h>
#include <vector>

int main(int count, char** arguments) {}
