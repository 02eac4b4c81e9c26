#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/sort.h>

#include <cstdio>

int main() {
    thrust::device_vector<int> x(1000);
    for (int i = 0; i < 1000; i++) x[i] = i * 7919 % 1000;
    thrust::sort(x.begin(), x.end());
    printf("%d %d\n", int(x[0]), thrust::reduce(x.begin(), x.end()));
}
