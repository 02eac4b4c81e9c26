// Linked lists in device memory: many threads put nodes at the heads, one thread walks along each.
#include <cstdio>
#include <cstdlib>
#include <vector>

struct Node {
    int key;
    Node* next;
};

__device__ Node* exchange(Node** head, Node* node) {
    using Word = unsigned long long;
    Word old = atomicExch(reinterpret_cast<Word*>(head), reinterpret_cast<Word>(node));
    return reinterpret_cast<Node*>(old);
}

__global__ void insert(Node** heads, Node* nodes, int n, int buckets) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Node* node = nodes + i;
    node->key = i * 7919 % 10007;
    node->next = exchange(&heads[node->key % buckets], node);
}

__global__ void walk(Node* const* heads, int* out, int buckets) {
    int b = blockIdx.x * blockDim.x + threadIdx.x, sum = 0, length = 0;
    if (b >= buckets) return;
    for (const Node* node = heads[b]; node; node = node->next) sum += node->key, length++;
    out[b] = sum + length * length;
}

int main(int count, char** arguments) {
    int n = atoi(arguments[1]), buckets = atoi(arguments[2]), *d_out;
    Node **heads, *nodes;
    cudaMalloc(&heads, buckets * sizeof(Node*));
    cudaMalloc(&nodes, n * sizeof(Node));
    cudaMalloc(&d_out, buckets * sizeof(int));
    cudaMemset(heads, 0, buckets * sizeof(Node*));
    insert<<<(n + 127) / 128, 128>>>(heads, nodes, n, buckets);
    walk<<<(buckets + 31) / 32, 32>>>(heads, d_out, buckets);
    std::vector<int> out(buckets);
    cudaMemcpy(out.data(), d_out, buckets * sizeof(int), cudaMemcpyDeviceToHost);
    int sum = 0;
    for (int v : out) sum += v;
    printf("%d\n", sum);
    cudaFree(heads);
    cudaFree(nodes);
    cudaFree(d_out);
}
