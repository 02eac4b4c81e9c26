// A linked list in unified memory: the host makes it, the device walks it and adds nodes of its
// own.
#include <cstdio>
#include <cuda_runtime.h>

class Managed {
  public:
    void *operator new(size_t size) {
        void *p;
        cudaMallocManaged(&p, size);
        return p;
    }
    void operator delete(void *p) { cudaFree(p); }
};
struct Node : Managed {
    int value;
    Node *next;
    Node(int v, Node *n) : value(v), next(n) {}
};

__global__ void sum(Node *list, long long *out) {
    for (Node *n = list; n; n = n->next) *out += n->value, n->value *= 2;
}
__global__ void grow(int n, long long *out) {  // with the device's own malloc
    struct Item {
        int value;
        Item *next;
    } *head = nullptr;
    for (int i = 0; i < n; i++) head = new Item{i + int(threadIdx.x), head};
    long long total = 0;
    while (head) {
        Item *next = head->next;
        total += head->value;
        delete head;
        head = next;
    }
    atomicAdd((unsigned long long *)out, total);
}

int main() {
    Node *list = nullptr;
    long long *out;
    cudaMallocManaged(&out, sizeof *out);
    *out = 0;
    for (int i = 1; i <= 300; i++) list = new Node(i, list);
    sum<<<1, 1>>>(list, out);
    cudaDeviceSynchronize();
    printf("device: %lld, first is now %d\n", *out, list->value);
    *out = 0;
    grow<<<1, 4>>>(10, out);
    cudaDeviceSynchronize();
    printf("allocated on the device: %lld\n", *out);
    while (list) {
        Node *next = list->next;
        delete list;
        list = next;
    }
    return cudaGetLastError();
}
