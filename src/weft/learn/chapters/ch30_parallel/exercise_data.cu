// Write the whole program. Its arguments are n and steps.
// 1. The batch has n rows: x[i][c] = i * (c + 2) % 7 / 7.f for c < 4, and a target t[i] = i % 5.
//    GPU 0 has the first n / 2 rows, GPU 1 the others; n may be odd. Weights w[4] begin at 0 on
//    both.
// 2. In each step, a kernel computes the gradient of the mean over n of (x[i] . w - t[i])^2 from
// the
//    rows of its GPU: the sum of 2 * (x[i] . w - t[i]) * x[i][c] / n. An all-reduce adds the
//    gradients of both, and a kernel updates: w[c] -= 0.25f * gradient[c].
// 3. Print, with "%.9g\n", the sum over both GPUs g and all c of (g + 1) * (c + 1) * w[c].
#include <cstdio>
#include <cstdlib>
#include <nccl.h>
#include <vector>

int main(int count, char** arguments) {}
