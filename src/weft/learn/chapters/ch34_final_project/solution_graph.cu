// A training step with cuBLAS and own kernels, captured once and replayed for every step.
#include <cublas_v2.h>
#include <cstdio>
#include <cstdlib>
#include <vector>

const int N = 32, K = 48, H = 24, C = 10;
const int W2 = K * H + H, B2 = W2 + H * C, SIZE = B2 + C;

__global__ void activate(float* a, const float* b1) {
    int i = blockIdx.x * 128 + threadIdx.x;
    if (i < N * H) a[i] = tanhf(a[i] + b1[i % H]);
}

// One thread for each image: z becomes the derivatives of the mean loss.
__global__ void output(float* z, const float* b2, const int* t, float* losses) {
    int m = threadIdx.x;
    float *row = z + m * C, most = -INFINITY, sum = 0;
    for (int c = 0; c < C; c++) most = fmaxf(most, row[c] += b2[c]);
    losses[m] = most - row[t[m]];
    for (int c = 0; c < C; c++) sum += row[c] = expf(row[c] - most);
    losses[m] += logf(sum);
    for (int c = 0; c < C; c++) row[c] = (row[c] / sum - (c == t[m])) / N;
}

__global__ void back(float* e, const float* a) {
    int i = blockIdx.x * 128 + threadIdx.x;
    if (i < N * H) e[i] *= 1 - a[i] * a[i];
}

// Weights have their gradients in g; those of biases are sums over images.
__global__ void update(float* p, const float* g, const float* d, const float* e) {
    int i = blockIdx.x * 128 + threadIdx.x;
    if (i >= SIZE) return;
    bool first = i >= K * H && i < W2, second = i >= B2;
    float sum = first || second ? 0 : g[i];
    if (first)
        for (int m = 0; m < N; m++) sum += e[m * H + i - K * H];
    if (second)
        for (int m = 0; m < N; m++) sum += d[m * C + i - B2];
    p[i] -= 0.5f * sum;
}

// c [rows][columns] = a b of row-major matrices, or of transposed ones. cuBLAS takes columns first:
// it computes the transposed product, with the factors exchanged.
void product(cublasHandle_t handle, bool a_turned, bool b_turned, int rows, int columns, int inner,
             const float* a, const float* b, float* c) {
    const float one = 1, zero = 0;
    cublasSgemm(handle, b_turned ? CUBLAS_OP_T : CUBLAS_OP_N, a_turned ? CUBLAS_OP_T : CUBLAS_OP_N,
                columns, rows, inner, &one, b, b_turned ? inner : columns, a,
                a_turned ? rows : inner, &zero, c, columns);
}

template <typename T>
T* on_device(const std::vector<T>& host) {
    T* device;
    cudaMalloc(&device, host.size() * sizeof(T));
    cudaMemcpy(device, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice);
    return device;
}

int main(int count, char** arguments) {
    int seed = count > 1 ? atoi(arguments[1]) : 1, steps = count > 2 ? atoi(arguments[2]) : 3;
    auto u = [=](int i) { return ((i * 7919 + seed * 104729) % 2003) / 2003.0f - 0.5f; };
    std::vector<float> h_p(SIZE), h_x(N * K), losses(N);
    std::vector<int> h_t(N);
    for (int i = 0; i < SIZE; i++) h_p[i] = u(i);
    for (int i = 0; i < N * K; i++) h_x[i] = 2 * u(SIZE + i);
    for (int m = 0; m < N; m++) h_t[m] = (7 * m + seed) % C;

    float *p = on_device(h_p), *x = on_device(h_x), *d_losses = on_device(losses);
    float *a = on_device(std::vector<float>(N * H)), *e = on_device(std::vector<float>(N * H));
    float *d = on_device(std::vector<float>(N * C)), *g = on_device(h_p);
    int* t = on_device(h_t);

    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cublasHandle_t handle;
    cublasCreate(&handle);
    cublasSetStream(handle, stream);
    cudaDeviceSynchronize();

    cudaGraph_t graph;
    cudaGraphExec_t ready;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    product(handle, false, false, N, H, K, x, p, a);
    activate<<<(N * H + 127) / 128, 128, 0, stream>>>(a, p + K * H);
    product(handle, false, false, N, C, H, a, p + W2, d);
    output<<<1, N, 0, stream>>>(d, p + B2, t, d_losses);
    product(handle, false, true, N, H, C, d, p + W2, e);
    back<<<(N * H + 127) / 128, 128, 0, stream>>>(e, a);
    product(handle, true, false, K, H, N, x, e, g);
    product(handle, true, false, H, C, N, a, d, g + W2);
    update<<<(SIZE + 127) / 128, 128, 0, stream>>>(p, g, d, e);
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiate(&ready, graph, 0);

    for (int step = 0; step < steps; step++) cudaGraphLaunch(ready, stream);
    cudaStreamSynchronize(stream);
    cudaMemcpy(losses.data(), d_losses, N * sizeof(float), cudaMemcpyDeviceToHost);
    double sum = 0;
    for (float loss : losses) sum += loss;
    printf("%.9g\n", sum / N);

    cudaGraphExecDestroy(ready);
    cudaGraphDestroy(graph);
    cublasDestroy(handle);
    cudaStreamDestroy(stream);
    for (float* pointer : {p, x, d_losses, a, e, d, g}) cudaFree(pointer);
    cudaFree(t);
}
