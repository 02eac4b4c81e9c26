// Write the whole program. Its argument is rows.
// 1. y = max(x w1, 0) w2, with x[rows][8], w1[8][32] and w2[32][8]. As flat arrays,
//    x[i] = (i * 5 % 11 - 5) / 4.f; w1[i][j] = ((i * 3 + j * 7) % 13 - 6) / 8.f;
//    w2[j][i] = ((j * 5 + i) % 9 - 4) / 8.f.
// 2. GPU g of 2 has x, columns 16 g to 16 g + 15 of w1 and the same rows of w2. Its kernels compute
//    its part of the hidden numbers, and what this part contributes to y. One all-reduce follows.
// 3. Print, with "%.9g\n", the sum over both GPUs g and all i of (g + 1) * (i % 5 + 1) * y[i].
#include <cstdio>
#include <cstdlib>
#include <nccl.h>
#include <vector>

int main(int count, char** arguments) {}
