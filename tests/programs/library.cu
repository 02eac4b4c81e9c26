// Thrust: vectors, transforms, reductions and sorts.
#include "check.h"
#include <thrust/device_vector.h>
#include <thrust/host_vector.h>
#include <thrust/reduce.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/transform.h>

struct Square {
    __host__ __device__ int operator()(int x) const { return x * x; }
};

int main() {
    thrust::device_vector<int> x(1000);
    thrust::sequence(x.begin(), x.end());
    thrust::transform(x.begin(), x.end(), x.begin(), Square());
    long long sum = thrust::reduce(x.begin(), x.end(), 0LL);
    thrust::host_vector<int> keys(500);
    for (int i = 0; i < 500; i++) keys[i] = (i * 7919) % 500;
    thrust::device_vector<int> sorted = keys;
    thrust::sort(sorted.begin(), sorted.end());
    for (int i = 0; i < 500; i++) HOLDS(sorted[i] == i);
    printf("sum %lld\n", sum);
}
