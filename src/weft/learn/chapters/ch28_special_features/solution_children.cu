// Rows of different lengths: a thread launches a grid of the size of its row.
#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void fill(int* row, int length, int value) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < length) row[i] = value;
}

__global__ void fill_rows(int* x, const int* start, int rows) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    int length = start[r + 1] - start[r];
    fill<<<(length + 63) / 64, 64>>>(x + start[r], length, r);
}

int main(int count, char** arguments) {
    int rows = atoi(arguments[1]), longest = atoi(arguments[2]), *d_x, *d_start;
    std::vector<int> start(rows + 1);
    for (int r = 0; r < rows; r++) start[r + 1] = start[r] + 1 + 7 * r % longest;
    std::vector<int> x(start[rows]);
    cudaMalloc(&d_x, x.size() * sizeof(int));
    cudaMalloc(&d_start, start.size() * sizeof(int));
    cudaMemcpy(d_start, start.data(), start.size() * sizeof(int), cudaMemcpyHostToDevice);
    fill_rows<<<(rows + 31) / 32, 32>>>(d_x, d_start, rows);
    cudaMemcpy(x.data(), d_x, x.size() * sizeof(int), cudaMemcpyDeviceToHost);
    int sum = 0;
    for (int v : x) sum += v;
    printf("%d\n", sum);
    cudaFree(d_x);
    cudaFree(d_start);
}
