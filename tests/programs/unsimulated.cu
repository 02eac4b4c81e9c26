// An instruction that is not simulated: the program ignores it, the run must not pass.
#include "check.h"

__global__ void allocates(unsigned long long *out) {
    asm volatile("alloca.u64 %0, 16;" : "=l"(*out));
}

int main() {
    unsigned long long *out;
    CALL(cudaMalloc(&out, sizeof *out));
    allocates<<<1, 1>>>(out);
    printf("went on\n");
}
