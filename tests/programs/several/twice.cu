// The second file: a kernel of its own, and a variable whose name the first file has, too.
#include <cuda_runtime.h>
#include "shared.h"

static __device__ int offset = 1000;
#ifdef APART
extern __device__ int twice_of(int value);
#else
static __device__ int twice_of(int value) { return 2 * value; }
#endif
__global__ void twice(int *x, int n) {
    if (threadIdx.x < n) x[threadIdx.x] = twice_of(x[threadIdx.x]) + offset;
}
void launch_twice(int *x, int n) { twice<<<1, 32>>>(x, n); }
