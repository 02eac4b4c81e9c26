#include <algorithm>
#include <iostream>
#include <vector>

__global__ void square(int *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= x[i];
}

int main() {
    std::vector<int> host(1000);
    for (size_t i = 0; i < host.size(); i++) host[i] = i;
    const size_t bytes = host.size() * sizeof(int);
    int *x;
    cudaMalloc(&x, bytes);
    cudaMemcpy(x, host.data(), bytes, cudaMemcpyHostToDevice);
    square<<<4, 256>>>(x, host.size());
    cudaMemcpy(host.data(), x, bytes, cudaMemcpyDeviceToHost);
    std::cout << *std::max_element(host.begin(), host.end()) << std::endl;
    return cudaFree(x);
}
