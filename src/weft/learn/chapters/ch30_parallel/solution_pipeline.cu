// Two layers on two GPUs, one layer each. Parts of the batch follow one another; while a part is
// sent, the next one is computed.
#include <cstdio>
#include <cstdlib>
#include <nccl.h>
#include <vector>

const int WIDTH = 8, INNER = 32, BUFFERS = 2;

// y[r][j] = sum of x[r][i] * w[i][j]; with `relu`, at least 0. A block computes a row.
__global__ void linear(const float* x, const float* w, float* y, int inputs, int outputs,
                       bool relu) {
    int r = blockIdx.x, j = threadIdx.x;
    float sum = 0;
    for (int i = 0; i < inputs; i++) sum += x[r * inputs + i] * w[i * outputs + j];
    y[r * outputs + j] = relu ? fmaxf(sum, 0) : sum;
}

// One of the two GPUs. `full` and `empty` are about a buffer of hidden numbers.
struct Stage {
    ncclComm_t comm;
    cudaStream_t compute, transfer;
    cudaEvent_t full[BUFFERS], empty[BUFFERS];
    float *outside, *w, *hidden[BUFFERS];
};

int main(int count, char** arguments) {
    int rows = count > 1 ? atoi(arguments[1]) : 8, parts = count > 2 ? atoi(arguments[2]) : 4;
    size_t outside = rows * WIDTH, hidden = rows * INNER, weights = WIDTH * INNER;
    std::vector<float> h_x(parts * outside), h_w[2] = {h_x, h_x};
    for (size_t i = 0; i < h_x.size(); i++) h_x[i] = (int(i) * 5 % 11 - 5) / 4.f;
    for (auto& each : h_w) each.resize(weights);
    for (int i = 0; i < WIDTH; i++)
        for (int j = 0; j < INNER; j++) {
            h_w[0][i * INNER + j] = ((i * 3 + j * 7) % 13 - 6) / 8.f;
            h_w[1][j * WIDTH + i] = ((j * 5 + i) % 9 - 4) / 8.f;
        }

    Stage stages[2];
    ncclComm_t comms[2];
    ncclCommInitAll(comms, 2, nullptr);
    for (int g = 0; g < 2; g++) {
        Stage& stage = stages[g];
        stage.comm = comms[g];
        cudaSetDevice(g);
        cudaStreamCreate(&stage.compute);
        cudaStreamCreate(&stage.transfer);
        cudaMalloc(&stage.outside, parts * outside * sizeof(float));
        cudaMalloc(&stage.w, weights * sizeof(float));
        cudaMemcpy(stage.w, h_w[g].data(), weights * sizeof(float), cudaMemcpyHostToDevice);
        for (int b = 0; b < BUFFERS; b++) {
            cudaMalloc(&stage.hidden[b], hidden * sizeof(float));
            cudaEventCreate(&stage.full[b]);
            cudaEventCreate(&stage.empty[b]);
        }
    }
    cudaSetDevice(0);
    cudaMemcpy(stages[0].outside, h_x.data(), h_x.size() * sizeof(float), cudaMemcpyHostToDevice);

    auto& [first, last] = stages;
    for (int p = 0; p < parts; p++) {
        int b = p % BUFFERS;
        cudaSetDevice(0);
        // An event that was never recorded has passed.
        cudaStreamWaitEvent(first.compute, first.empty[b], 0);
        linear<<<rows, INNER, 0, first.compute>>>(first.outside + p * outside, first.w,
                                                  first.hidden[b], WIDTH, INNER, true);
        cudaEventRecord(first.full[b], first.compute);
        cudaStreamWaitEvent(first.transfer, first.full[b], 0);
        cudaSetDevice(1);
        cudaStreamWaitEvent(last.transfer, last.empty[b], 0);
        ncclGroupStart();
        ncclSend(first.hidden[b], hidden, ncclFloat, 1, first.comm, first.transfer);
        ncclRecv(last.hidden[b], hidden, ncclFloat, 0, last.comm, last.transfer);
        ncclGroupEnd();
        cudaEventRecord(last.full[b], last.transfer);
        cudaStreamWaitEvent(last.compute, last.full[b], 0);
        linear<<<rows, WIDTH, 0, last.compute>>>(last.hidden[b], last.w, last.outside + p * outside,
                                                 INNER, WIDTH, false);
        cudaEventRecord(last.empty[b], last.compute);
        cudaSetDevice(0);
        cudaEventRecord(first.empty[b], first.transfer);
    }

    for (int g = 0; g < 2; g++) {
        cudaSetDevice(g);
        cudaDeviceSynchronize();
    }
    cudaMemcpy(h_x.data(), last.outside, h_x.size() * sizeof(float), cudaMemcpyDeviceToHost);
    double sum = 0;
    for (size_t i = 0; i < h_x.size(); i++) sum += (i % 5 + 1) * h_x[i];
    printf("%.9g\n", sum);
    for (Stage& stage : stages) {
        for (float* each : {stage.outside, stage.w, stage.hidden[0], stage.hidden[1]})
            cudaFree(each);
        for (int b = 0; b < BUFFERS; b++) {
            cudaEventDestroy(stage.full[b]);
            cudaEventDestroy(stage.empty[b]);
        }
        cudaStreamDestroy(stage.compute);
        cudaStreamDestroy(stage.transfer);
        ncclCommDestroy(stage.comm);
    }
}
