// Write the whole program. Its arguments are m, n and k.
// 1. A is m x k and B is k x n, both row-major: A[i] = i % 7 - 3 and B[i] = i % 5 - 2, for i from 0
//    to the last element.
// 2. C = A B, row-major, by cublasSgemm. D = A B, row-major, by a kernel of your own, with a thread
//    for each element.
// 3. Print the sum of (i + 1) * C[i] * D[i] over all elements, with "%.9g\n". Add it up in double.
#include <cstdio>
#include <cstdlib>
#include <cublas_v2.h>
#include <vector>

int main(int count, char** arguments) {}
