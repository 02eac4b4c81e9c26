// What the sanitizer finds between streams, between host and device, and in copies: each mistake
// with a twin that is right. `order NAME` makes one mistake, `order` alone runs all twins.
#include "check.h"

#include <cstring>

constexpr int N = 1024;

__global__ void fill(int *x, int n, int value) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = value;
}
__global__ void increment(int *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += 1;
}
__global__ void sum(const int *x, int n, int *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(out, x[i]);
}
__global__ void bytes(char *x, int from, int to) {
    int i = from + threadIdx.x;
    if (i < to) x[i] = 1;
}
struct Padded {
    char letter;
    double number;
};
__global__ void structs(Padded *x) {
    x[threadIdx.x].letter = 'a';
    x[threadIdx.x].number = threadIdx.x;
}
__global__ void signal(volatile int *flag, int *x) {
    x[0] = 5;
    __threadfence_system();
    *flag = 1;
}

// Two streams, which wait for nothing or are ordered by an event.
struct Streams {
    cudaStream_t one, two;
    explicit Streams(unsigned flags = cudaStreamDefault) {
        CALL(cudaStreamCreateWithFlags(&one, flags));
        CALL(cudaStreamCreateWithFlags(&two, flags));
    }
    void order() {
        cudaEvent_t event;
        CALL(cudaEventCreate(&event));
        CALL(cudaEventRecord(event, one));
        CALL(cudaStreamWaitEvent(two, event, 0));
        CALL(cudaEventDestroy(event));
    }
    ~Streams() {
        CALL(cudaDeviceSynchronize());
        CALL(cudaStreamDestroy(one));
        CALL(cudaStreamDestroy(two));
    }
};
template <class T = int>
struct Array {
    T *x;
    explicit Array(int n = N) { CALL(cudaMalloc(&x, n * sizeof(T))); }
    ~Array() { CALL(cudaFree(x)); }
};

void two_kernels(bool right) {
    Array<> a;
    Streams s;
    fill<<<4, 256, 0, s.one>>>(a.x, N, 1);
    if (right) s.order();
    increment<<<4, 256, 0, s.two>>>(a.x, N);
}
void kernel_and_fill(bool right) {
    Array<> a;
    Streams s;
    CALL(cudaMemsetAsync(a.x, 0, N * sizeof(int), s.one));
    if (right) CALL(cudaStreamSynchronize(s.one));
    increment<<<4, 256, 0, s.two>>>(a.x, N);
}
void reader_and_copy(bool right) {
    Array<> a, b;
    int *host;
    CALL(cudaMallocHost(&host, N * sizeof(int)));
    memset(host, 0, N * sizeof(int));
    CALL(cudaMemset(a.x, 0, N * sizeof(int)));
    CALL(cudaMemset(b.x, 0, N * sizeof(int)));
    CALL(cudaDeviceSynchronize());
    {
        Streams s;
        sum<<<4, 256, 0, s.one>>>(a.x, N, b.x);
        cudaStream_t where = right ? s.one : s.two;
        CALL(cudaMemcpyAsync(a.x, host, N * sizeof(int), cudaMemcpyHostToDevice, where));
    }
    CALL(cudaFreeHost(host));
}
void beside_the_default_stream(bool right) {
    Array<> a;
    Streams s(right ? cudaStreamDefault : cudaStreamNonBlocking);
    fill<<<4, 256>>>(a.x, N, 1);
    increment<<<4, 256, 0, s.one>>>(a.x, N);
}
void parts(bool) {  // right: the streams have bytes, and atomics, of their own
    Array<char> a;
    Array<> b;
    CALL(cudaMemset(a.x, 0, N));
    CALL(cudaMemset(b.x, 0, N * sizeof(int)));
    CALL(cudaDeviceSynchronize());
    Streams s;
    bytes<<<1, 128, 0, s.one>>>(a.x, 0, 101);
    bytes<<<1, 128, 0, s.two>>>(a.x, 101, 200);
    sum<<<1, 32, 0, s.one>>>(b.x + 8, 32, b.x);
    sum<<<1, 32, 0, s.two>>>(b.x + 8, 32, b.x);
}

void host_reads(bool right) {
    int *x;
    CALL(cudaMallocManaged(&x, N * sizeof(int)));
    fill<<<4, 256>>>(x, N, 3);
    if (right) CALL(cudaDeviceSynchronize());
    HOLDS(x[3] == 3);
    CALL(cudaFree(x));
}
void host_writes(bool right) {
    int *x;
    Array<> out;
    CALL(cudaMemset(out.x, 0, N * sizeof(int)));
    CALL(cudaMallocManaged(&x, N * sizeof(int)));
    for (int i = 0; i < N; i++) x[i] = i;
    sum<<<4, 256>>>(x, N, out.x);
    HOLDS(x[7] == 7);  // both only read
    if (right) CALL(cudaStreamSynchronize(nullptr));
    x[7] = 0;
    CALL(cudaFree(x));
}
void flag(bool) {  // right: the host waits for a word that the kernel sets
    int *x;
    CALL(cudaHostAlloc(&x, 2 * sizeof(int), cudaHostAllocMapped));
    volatile int *flag = x + 1;
    *flag = 0;
    signal<<<1, 1>>>(flag, x);
    while (!*flag) {
    }
    HOLDS(x[0] == 5);
    CALL(cudaDeviceSynchronize());
    CALL(cudaFreeHost(x));
}
void host_reads_copy(bool right) {
    int *host;
    Array<> a;
    CALL(cudaMallocHost(&host, N * sizeof(int)));
    {
        Streams s;
        fill<<<4, 256, 0, s.one>>>(a.x, N, 1);
        CALL(cudaMemcpyAsync(host, a.x, N * sizeof(int), cudaMemcpyDeviceToHost, s.one));
        if (right) CALL(cudaStreamSynchronize(s.one));
        HOLDS(host[3] == 1);
    }
    CALL(cudaFreeHost(host));
}
void host_changes_copy(bool right) {
    int *host;
    Array<> a;
    CALL(cudaMallocHost(&host, N * sizeof(int)));
    {
        Streams s;
        CALL(cudaMemcpyAsync(a.x, host, N * sizeof(int), cudaMemcpyHostToDevice, s.one));
        if (right) CALL(cudaStreamSynchronize(s.one));
        host[5] = 1;
    }
    CALL(cudaFreeHost(host));
}
void pageable(bool) {  // right: copies from and to pageable memory are done when the call returns
    Array<> a;
    static int host[N];
    Streams s;
    CALL(cudaMemcpyAsync(a.x, host, sizeof host, cudaMemcpyHostToDevice, s.one));
    host[0] = 1;
    CALL(cudaMemcpyAsync(host, a.x, sizeof host, cudaMemcpyDeviceToHost, s.one));
    HOLDS(host[0] == 0);
}

void freed_in_another_stream(bool right) {
    Streams s;
    int *x;
    CALL(cudaMallocAsync(&x, N * sizeof(int), s.one));
    fill<<<4, 256, 0, s.one>>>(x, N, 1);
    CALL(cudaFreeAsync(x, right ? s.one : s.two));
}
void freed_by_the_host(bool right) {
    Streams s;
    int *x;
    CALL(cudaMalloc(&x, N * sizeof(int)));
    fill<<<4, 256, 0, s.one>>>(x, N, 1);
    if (right) CALL(cudaStreamSynchronize(s.one));
    CALL(cudaFree(x));
}
void used_after_free(bool right) {
    int *x, *y;
    CALL(cudaMalloc(&x, N * sizeof(int)));
    if (!right) CALL(cudaFree(x));
    CALL(cudaMalloc(&y, N * sizeof(int)));  // may not be given the same memory
    fill<<<4, 256>>>(x, N, 1);
    cudaError_t error = cudaDeviceSynchronize();
    HOLDS((error == cudaSuccess) == right);
    if (!right) exit(0);  // the device is of no use any more
    CALL(cudaFree(x));
    CALL(cudaFree(y));
}
void copied_after_free(bool right) {
    int *x, host[4] = {};
    CALL(cudaMalloc(&x, sizeof host));
    if (!right) CALL(cudaFree(x));
    cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
    if (right) CALL(cudaFree(x));
}

void overlapping(bool right) {
    Array<> a;
    fill<<<4, 256>>>(a.x, N, 1);
    CALL(cudaMemcpy(a.x + (right ? 500 : 10), a.x, 2000, cudaMemcpyDeviceToDevice));
}
void overlapping_rows(bool right) {
    Array<> a;
    fill<<<4, 256>>>(a.x, N, 1);
    int apart = right ? 4 : 3;  // columns 0 to 3 of each row of 16 go to columns 3 or 4 and on
    CALL(cudaMemcpy2D(a.x + apart, 64, a.x, 64, 16, 8, cudaMemcpyDeviceToDevice));
}
void direction(bool right) {
    Array<> a, b;
    CALL(cudaMemset(b.x, 0, N * sizeof(int)));
    cudaMemcpy(a.x, b.x, 64, right ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice);
}

void atomics_on_nothing(bool right) {
    Array<> a;
    Array<> out(1);
    fill<<<4, 256>>>(a.x, N, 1);
    if (right) CALL(cudaMemset(out.x, 0, sizeof(int)));
    sum<<<4, 256>>>(a.x, N, out.x);
}
void copies_of_nothing(bool right) {
    Array<> a;
    static int host[N];
    fill<<<4, 256>>>(a.x, right ? N : N / 2, 1);
    CALL(cudaMemcpy(host, a.x, sizeof host, cudaMemcpyDeviceToHost));
}
void copies_of_copies(bool right) {
    Array<> a, b;
    int host[16];
    if (right) CALL(cudaMemset(a.x, 0, N * sizeof(int)));
    CALL(cudaMemcpy(b.x, a.x, N * sizeof(int), cudaMemcpyDeviceToDevice));
    CALL(cudaMemcpy(host, b.x + 5, sizeof host, cudaMemcpyDeviceToHost));
}
void padding(bool) {  // right: no field covers these bytes
    Array<Padded> a(64);
    Padded host[64];
    structs<<<1, 64>>>(a.x);
    CALL(cudaMemcpy(host, a.x, sizeof host, cudaMemcpyDeviceToHost));
    HOLDS(host[9].number == 9);
    char *rows, flat[3 * 512];
    size_t pitch;
    CALL(cudaMallocPitch(&rows, &pitch, 100, 3));
    CALL(cudaMemset2D(rows, pitch, 1, 100, 3));
    CALL(cudaMemcpy(flat, rows, 3 * pitch, cudaMemcpyDeviceToHost));
    CALL(cudaFree(rows));
}
void same_byte(bool) {  // right: a fill with the byte that new memory has
    Array<> a;
    int host[N];
    CALL(cudaMemset(a.x, 0xcd, N * sizeof(int)));
    increment<<<4, 256>>>(a.x, N);
    CALL(cudaMemset(a.x, 0xcd, N * sizeof(int)));
    CALL(cudaMemcpy(host, a.x, sizeof host, cudaMemcpyDeviceToHost));
}

struct Case {
    const char *name;
    void (*run)(bool right);
};
const Case cases[] = {
    {"two_kernels", two_kernels},
    {"kernel_and_fill", kernel_and_fill},
    {"reader_and_copy", reader_and_copy},
    {"beside_the_default_stream", beside_the_default_stream},
    {"parts", parts},
    {"host_reads", host_reads},
    {"host_writes", host_writes},
    {"flag", flag},
    {"host_reads_copy", host_reads_copy},
    {"host_changes_copy", host_changes_copy},
    {"pageable", pageable},
    {"freed_in_another_stream", freed_in_another_stream},
    {"freed_by_the_host", freed_by_the_host},
    {"used_after_free", used_after_free},
    {"copied_after_free", copied_after_free},
    {"overlapping", overlapping},
    {"overlapping_rows", overlapping_rows},
    {"direction", direction},
    {"atomics_on_nothing", atomics_on_nothing},
    {"copies_of_nothing", copies_of_nothing},
    {"copies_of_copies", copies_of_copies},
    {"padding", padding},
    {"same_byte", same_byte},
};

int main(int count, char **names) {
    for (auto &each : cases)
        for (int i = 1; i < count; i++)
            if (!strcmp(each.name, names[i])) each.run(false);
    if (count == 1)
        for (auto &each : cases) each.run(true);
}
