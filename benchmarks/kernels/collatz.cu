// Steps from i + 1 down to 1 by the Collatz rule: lanes of a warp leave the loop at different times.
// block: 256
extern "C" __global__ void collatz(int* __restrict__ steps, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned long long v = i + 1;
    int count = 0;
    while (v != 1) {
        if (v % 2) v = 3 * v + 1;
        else v /= 2;
        ++count;
    }
    steps[i] = count;
}
