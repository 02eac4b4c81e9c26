// Plain `char` has a sign in code of the device and of the host, on ARM as well.
#include <climits>
#include "check.h"

__global__ void device(const char* c, int* y) {
    y[0] = CHAR_MIN;
    y[1] = c[0];
}

int main() {
    char* c;
    int* y;
    CALL(cudaMallocManaged(&c, 1));
    CALL(cudaMallocManaged(&y, 2 * sizeof(int)));
    *reinterpret_cast<unsigned char*>(c) = 253;
    device<<<1, 1>>>(c, y);
    CALL(cudaDeviceSynchronize());
    printf("device %d %d, host %d %d\n", y[0], y[1], CHAR_MIN, c[0]);
}
