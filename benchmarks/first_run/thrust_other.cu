#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/sort.h>

#include <cstdio>

__global__ void descend(float *x, int n) {
    if (threadIdx.x < n) x[threadIdx.x] = n - threadIdx.x;
}

int main() {
    thrust::device_vector<float> x(500);
    descend<<<1, 512>>>(thrust::raw_pointer_cast(x.data()), 500);
    thrust::sort(x.begin(), x.end());
    printf("%g %g\n", float(x[0]), thrust::reduce(x.begin(), x.end()));
}
