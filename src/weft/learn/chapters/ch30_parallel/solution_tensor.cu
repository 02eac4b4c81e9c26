// Two layers on two GPUs: columns of the first matrix, rows of the second, one all-reduce.
#include <cstdio>
#include <cstdlib>
#include <nccl.h>
#include <vector>

const int GPUS = 2, WIDTH = 8, INNER = 32, PART = INNER / GPUS;

// y[r][j] = sum of x[r][i] * w[i][j]; with `relu`, at least 0. A block computes a row.
__global__ void linear(const float* x, const float* w, float* y, int inputs, int outputs,
                       bool relu) {
    int r = blockIdx.x, j = threadIdx.x;
    float sum = 0;
    for (int i = 0; i < inputs; i++) sum += x[r * inputs + i] * w[i * outputs + j];
    y[r * outputs + j] = relu ? fmaxf(sum, 0) : sum;
}

int main(int count, char** arguments) {
    int rows = count > 1 ? atoi(arguments[1]) : 16;
    ncclComm_t comms[GPUS];
    cudaStream_t streams[GPUS];
    float *x[GPUS], *w1[GPUS], *w2[GPUS], *h[GPUS], *y[GPUS];
    std::vector<float> h_x(rows * WIDTH), h_w1(WIDTH * PART), h_w2(PART * WIDTH);
    for (int i = 0; i < rows * WIDTH; i++) h_x[i] = (i * 5 % 11 - 5) / 4.f;
    ncclCommInitAll(comms, GPUS, nullptr);
    for (int g = 0; g < GPUS; g++) {
        int first = g * PART;
        for (int i = 0; i < WIDTH; i++)
            for (int j = 0; j < PART; j++) {
                h_w1[i * PART + j] = ((i * 3 + (first + j) * 7) % 13 - 6) / 8.f;
                h_w2[j * WIDTH + i] = (((first + j) * 5 + i) % 9 - 4) / 8.f;
            }
        cudaSetDevice(g);
        cudaStreamCreate(&streams[g]);
        cudaMalloc(&x[g], h_x.size() * sizeof(float));
        cudaMalloc(&w1[g], h_w1.size() * sizeof(float));
        cudaMalloc(&w2[g], h_w2.size() * sizeof(float));
        cudaMalloc(&h[g], rows * PART * sizeof(float));
        cudaMalloc(&y[g], rows * WIDTH * sizeof(float));
        cudaMemcpy(x[g], h_x.data(), h_x.size() * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemcpy(w1[g], h_w1.data(), h_w1.size() * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemcpy(w2[g], h_w2.data(), h_w2.size() * sizeof(float), cudaMemcpyHostToDevice);
        linear<<<rows, PART, 0, streams[g]>>>(x[g], w1[g], h[g], WIDTH, PART, true);
        linear<<<rows, WIDTH, 0, streams[g]>>>(h[g], w2[g], y[g], PART, WIDTH, false);
    }
    ncclGroupStart();
    for (int g = 0; g < GPUS; g++)
        ncclAllReduce(y[g], y[g], rows * WIDTH, ncclFloat, ncclSum, comms[g], streams[g]);
    ncclGroupEnd();

    double sum = 0;
    for (int g = 0; g < GPUS; g++) {
        cudaSetDevice(g);
        cudaStreamSynchronize(streams[g]);
        cudaMemcpy(h_x.data(), y[g], h_x.size() * sizeof(float), cudaMemcpyDeviceToHost);
        for (int i = 0; i < rows * WIDTH; i++) sum += (g + 1) * (i % 5 + 1) * h_x[i];
        for (float* each : {x[g], w1[g], w2[g], h[g], y[g]}) cudaFree(each);
        cudaStreamDestroy(streams[g]);
        ncclCommDestroy(comms[g]);
    }
    printf("%.9g\n", sum);
}
