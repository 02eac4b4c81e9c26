// Write the whole program. Its arguments are the number of rows and the longest length.
// Row r has 1 + 7 * r % longest elements; row 0 begins at x[0], the others follow without gaps.
// 1. The host computes start[r], the place of the first element of each row, and copies it.
// 2. One kernel, with a thread for each row, launches a child grid that sets all elements of the
//    row to r. The child is as large as its row.
// 3. Add all elements on the host and print the sum with "%d\n".
// It is compiled with -rdc=true: weft run --nvcc=-rdc=true exercise_children.cu 30 100
#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int count, char** arguments) {}
