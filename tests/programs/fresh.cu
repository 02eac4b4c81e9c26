// What memory holds before it is written, on the device and in blocks that were freed.
#include "check.h"

int main(int argc, char **argv) {
    const size_t n = 1 << 16;
    unsigned *x, host[2];
    for (int round = 0; round < 2; round++) {  // the second time, freed memory is given out again
        CALL(cudaMalloc(&x, n));
        CALL(cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost));
        printf("%x %x\n", host[0], host[1]);
        CALL(cudaMemset(x, 7, n));
        CALL(cudaFree(x));
    }
#ifdef SHOW
    printf("%d argument: %s\n", argc - 1, argv[1]);
#endif
}
