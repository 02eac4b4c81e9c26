// Write the whole program. Its argument is n.
// 1. x[j] is the complex number j * 7 % 11 - 5, and j * 3 % 13 - 6 as its imaginary part.
// 2. X, the forward transform of x, by cufftExecC2C: X[k] is the sum of x[j] exp(-2 pi i j k / n).
// 3. Y, the same by a kernel of your own, with a thread for each k.
// 4. Print the sum of (k + 1) * (Re X[k] * Re Y[k] + Im X[k] * Im Y[k]) / n, with "%.9g\n". Add it
//    up in double.
#include <cstdio>
#include <cstdlib>
#include <cufft.h>
#include <vector>

int main(int count, char** arguments) {}
