// The host's part of a program that a Makefile builds from several files.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "sums.h"

int main(int argc, char **argv) {
    std::vector<float> x;
    for (int i = 1; i < argc; i++) x.push_back(atof(argv[i]));
    printf("%g\n", sum_of_squares(x.data(), int(x.size())));
    return x.empty();
}
