// Write the whole program. Its arguments are n and the number of steps.
// 1. An array of n structs Body on the host: x = i % 10, v = i % 3, both float, and char name[24].
// 2. Copy it to the device as a struct of arrays. A kernel adds v to x, for all bodies at once; it
// is
//    launched once for each step.
// 3. Copy x back into the array of structs, add all x, and print the sum with "%g\n".
#include <cstdio>
#include <cstdlib>
#include <vector>

struct Body {
    float x, v;
    char name[24];
};

int main(int count, char** arguments) {}
