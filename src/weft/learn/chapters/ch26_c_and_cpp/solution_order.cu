// Pairs sorted on the device by their ranks, checked by a sort of the host that knows no type.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

struct Pair {
    int key, value;
};

__host__ __device__ int difference(const Pair* a, const Pair* b) {
    return a->key != b->key ? a->key - b->key : a->value - b->value;
}

__global__ void place(const Pair* x, Pair* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, before = 0;
    if (i >= n) return;
    for (int k = 0; k < n; k++) before += difference(&x[k], &x[i]) < 0;
    y[before] = x[i];
}

int compare(const void* a, const void* b) {
    return difference(static_cast<const Pair*>(a), static_cast<const Pair*>(b));
}

void sort(void* base, size_t count, size_t size, int (*compare)(const void*, const void*)) {
    char* first = static_cast<char*>(base);
    void* moved = malloc(size);
    for (size_t i = 1; i < count; i++) {
        memcpy(moved, first + i * size, size);
        size_t k = i;
        for (; k > 0 && compare(first + (k - 1) * size, moved) > 0; k--)
            memcpy(first + k * size, first + (k - 1) * size, size);
        memcpy(first + k * size, moved, size);
    }
    free(moved);
}

int main(int count, char** arguments) {
    int n = atoi(arguments[1]), seed = atoi(arguments[2]);
    std::vector<Pair> mine(n), theirs(n);
    for (int i = 0; i < n; i++) mine[i] = {i * seed % 101, i};
    Pair *d_x, *d_y;
    size_t bytes = n * sizeof(Pair);
    cudaMalloc(&d_x, bytes);
    cudaMalloc(&d_y, bytes);
    cudaMemcpy(d_x, mine.data(), bytes, cudaMemcpyHostToDevice);
    place<<<(n + 127) / 128, 128>>>(d_x, d_y, n);
    cudaMemcpy(theirs.data(), d_y, bytes, cudaMemcpyDeviceToHost);
    sort(mine.data(), n, sizeof(Pair), compare);

    int sum = 0;
    for (int i = 0; i < n; i++) sum += (i + 1) * theirs[i].key + theirs[i].value;
    printf("%d\n", memcmp(mine.data(), theirs.data(), bytes) ? -1 : sum);
    cudaFree(d_x);
    cudaFree(d_y);
}
