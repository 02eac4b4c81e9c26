// Arguments, standard input, standard error and the exit code are the program's own.
#include "check.h"
#include <iostream>
#include <string>

__global__ void power(double *x, int n) {
    int i = threadIdx.x;
    if (i < n) x[i] = x[i] * x[i];
}

struct AtExit {
    ~AtExit() { printf("destroyed\n"); }
} at_exit;

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) printf("[%s]", argv[i]);
    double *x, number, sum = 0;
    int n = 0;
    CALL(cudaMallocManaged(&x, 32 * sizeof(double)));
    while (n < 32 && std::cin >> number) x[n++] = number;
    power<<<1, 32>>>(x, n);
    CALL(cudaDeviceSynchronize());
    for (int i = 0; i < n; i++) sum += x[i];
    std::cout << " sum of squares " << sum << std::endl;
    fprintf(stderr, "to standard error\n");
    exit(argc);
}
