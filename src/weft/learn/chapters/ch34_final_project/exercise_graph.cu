// Write the whole program: the training step with cuBLAS and own kernels, as one CUDA graph.
// Its arguments are seed and steps. n = 32 images, k = 48 inputs, h = 24 hidden units, 10 classes.
// 1. u(i) = ((i * 7919 + seed * 104729) % 2003) / 2003.0f - 0.5f. The host makes
//      p[i] = u(i)          the parameters w1 [k][h], b1 [h], w2 [h][10], b2 [10] in one array
//      x[i] = 2 * u(size of p + i)    n rows of k numbers
//      t[m] = (7 * m + seed) % 10
// 2. A step is that of exercise kernels, with p = p - 0.5 * gradient in place. cublasSgemm computes
//    the five products, your kernels the rest.
// 3. Capture one step in a graph, and launch the graph once for each step.
// 4. Print the mean loss of the last step, before its update, with "%.9g\n".
#include <cublas_v2.h>
#include <cstdio>
#include <cstdlib>

int main(int count, char** arguments) {}
