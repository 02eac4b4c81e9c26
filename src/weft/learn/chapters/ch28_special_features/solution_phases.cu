// Two phases in one launch: a barrier of the whole grid lies between them.
#include <cooperative_groups.h>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace cg = cooperative_groups;

__global__ void scale(int* x, int* most, int n) {
    auto grid = cg::this_grid();
    int mine = 0;
    for (int i = grid.thread_rank(); i < n; i += grid.size()) mine = max(mine, x[i]);
    atomicMax(most, mine);
    grid.sync();
    for (int i = grid.thread_rank(); i < n; i += grid.size()) x[i] = 1000 * x[i] / *most;
}

int main(int count, char** arguments) {
    int n = atoi(arguments[1]), blocks = atoi(arguments[2]), *d_x, *d_most;
    std::vector<int> h_x(n);
    for (int i = 0; i < n; i++) h_x[i] = i * 37 % 1001 + 1;
    cudaMalloc(&d_x, n * sizeof(int));
    cudaMalloc(&d_most, sizeof(int));
    cudaMemcpy(d_x, h_x.data(), n * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemset(d_most, 0, sizeof(int));
    void* values[] = {&d_x, &d_most, &n};
    cudaLaunchCooperativeKernel(scale, blocks, 128, values, 0, 0);
    cudaMemcpy(h_x.data(), d_x, n * sizeof(int), cudaMemcpyDeviceToHost);
    int sum = 0;
    for (int v : h_x) sum += v;
    printf("%d\n", sum);
    cudaFree(d_x);
    cudaFree(d_most);
}
