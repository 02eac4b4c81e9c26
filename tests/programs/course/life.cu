// The game of life on a torus: a glider comes back moved by one cell after four generations.
#include <cstdio>
#include <cuda_runtime.h>
#include <utility>

#define W 32
#define H 16

__global__ void generation(const bool *now, bool *next) {
    int x = threadIdx.x, y = blockIdx.x * blockDim.y + threadIdx.y, alive = 0;
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++)
            if (dx || dy) alive += now[(y + dy + H) % H * W + (x + dx + W) % W];
    next[y * W + x] = alive == 3 || (alive == 2 && now[y * W + x]);
}

int main() {
    bool *now, *next;
    cudaMallocManaged(&now, W * H);
    cudaMallocManaged(&next, W * H);
    const char *glider[] = {".#.", "..#", "###"};
    for (int y = 0; y < 3; y++)
        for (int x = 0; x < 3; x++) now[(y + 10) * W + x + 25] = glider[y][x] == '#';
    for (int t = 0; t < 40; t++) {
        generation<<<H / 4, dim3(W, 4)>>>(now, next);
        std::swap(now, next);
    }
    cudaDeviceSynchronize();
    for (int y = 0; y < H; y++) {
        bool any = false;
        for (int x = 0; x < W; x++) any |= now[y * W + x];
        if (!any) continue;
        printf("%2d ", y);
        for (int x = 0; x < W; x++) putchar(now[y * W + x] ? '#' : '.');
        putchar('\n');
    }
    cudaFree(now);
    cudaFree(next);
}
