// Write the whole program. Its argument is n.
// 1. A is an n x n matrix in CSR. Row r has elements in the columns r - 3, r and r + 1, as far as
//    they exist, in this order; the element in column c is (r + 2 c) % 7. x[c] is c % 5 + 1.
// 2. y = A x by cusparseSpMV. z = A x by a kernel of your own, with a thread for each row.
// 3. Print the sum of (r + 1) * y[r] * z[r], with "%.9g\n". Add it up in double.
#include <cstdio>
#include <cstdlib>
#include <cusparse.h>
#include <vector>

int main(int count, char** arguments) {}
