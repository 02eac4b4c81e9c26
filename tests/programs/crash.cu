// Ends of all kinds: by a signal, an endless loop of the host or the device, abort.
#include "check.h"
#include <csignal>
#include <cstring>
#include <unistd.h>

__global__ void forever(unsigned *x) {
    while (true) atomicAdd(x, 1u);
}

int main(int argc, char **argv) {
    unsigned *x;
    CALL(cudaMalloc(&x, sizeof(unsigned)));
    const char *how = argc > 1 ? argv[1] : "";
    printf("ready\n");
    fflush(stdout);
    if (!strcmp(how, "segv")) *(volatile int *)nullptr = 1;
    if (!strcmp(how, "abort")) abort();
    if (!strcmp(how, "host"))
        while (true) usleep(1000);
    if (!strcmp(how, "device")) forever<<<1, 32>>>(x);
    if (!strcmp(how, "quick")) _exit(9);
    return 0;
}
