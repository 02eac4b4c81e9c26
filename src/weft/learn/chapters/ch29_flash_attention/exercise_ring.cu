// Write the whole program. Its argument is rows; there are n = 4 * rows tokens with 8 columns.
// 1. q[i][c] = ((i * 7 + c * 3) % 11 - 5) / 4.f, k[i][c] = ((i * 5 + c * 2) % 9 - 4) / 4.f,
//    v[i][c] = (i * 3 + c) % 10 / 10.f. GPU g has the tokens g * rows to g * rows + rows - 1.
// 2. out = causal attention, with scores (q[i] . k[j]) / sqrt(8) for j <= i. Each GPU computes its
//    rows of out. Keys and values go round the ring, from GPU g to GPU (g + 1) % 4.
// 3. Print, with "%.9g\n", the sum over all i and c of ((i * 8 + c) % 7 + 1) * out[i][c].
#include <cstdio>
#include <cstdlib>
#include <nccl.h>
#include <vector>

int main(int count, char** arguments) {}
